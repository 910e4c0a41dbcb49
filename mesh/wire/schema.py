# SPDX-License-Identifier: Apache-2.0
"""The public requests and replies: JSON over NATS, one struct each; docs/schema/ is made from them.

Owns the promise to outsiders: unknown fields are refused, numbers are plain with the unit in the
name, absence is null.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from stoker.mesh.wire.job_request import JobRequest, Spec
from stoker.mesh.wire.schema_cluster import (
    VERSION,
    DeviceCordonRequest,
    DeviceList,
    DeviceUncordonRequest,
    DeviceView,
    Done,
    Int,
    Message,
    NodeDrainRequest,
    NodeLabelRequest,
    NodeList,
    NodeRequest,
    NodeReserveRequest,
    NodeView,
    Part,
    QueueList,
    QueueOrder,
    QueueQuotaRequest,
    QueueRemoveRequest,
    QueueRequest,
    QueueSetRequest,
    QueueView,
    QuotaView,
    Reservation,
    Wait,
)
from stoker.mesh.wire.schema_devices import (
    HISTORIES_MAX,
    FieldView,
    ReadingsRequest,
    ReadingsView,
    TopologyRequest,
    TopologyView,
)
from stoker.mesh.wire.schema_removal import RemovedJob, RemoveRequest, RemoveView
from stoker.mesh.wire.schema_trace import (
    WINDOW_S_MAX,
    WINDOW_S_MIN,
    JobRef,
    Steered,
    TraceRequest,
    TracerView,
    TraceView,
    TracingRequest,
    TracingView,
    WindowView,
)
from stoker.native.errors import BadRequest, StokerError
from stoker.scheduler.nouns import JobState

__all__ = [
    "HISTORIES_MAX",
    "VERSION",
    "WINDOW_S_MAX",
    "WINDOW_S_MIN",
    "DeviceCordonRequest",
    "DeviceList",
    "DeviceUncordonRequest",
    "DeviceView",
    "Done",
    "FieldView",
    "Int",
    "JobRef",
    "JobRequest",
    "Message",
    "NodeDrainRequest",
    "NodeLabelRequest",
    "NodeList",
    "NodeRequest",
    "NodeReserveRequest",
    "NodeView",
    "Part",
    "QueueList",
    "QueueOrder",
    "QueueQuotaRequest",
    "QueueRemoveRequest",
    "QueueRequest",
    "QueueSetRequest",
    "QueueView",
    "QuotaView",
    "ReadingsRequest",
    "ReadingsView",
    "RemoveRequest",
    "RemoveView",
    "RemovedJob",
    "Reservation",
    "Spec",
    "Steered",
    "TopologyRequest",
    "TopologyView",
    "TraceRequest",
    "TraceView",
    "TracerView",
    "TracingRequest",
    "TracingView",
    "WindowView",
]
"""Messages of the other files; everything defined here is meant for use as well."""

PAYLOAD_BYTES_MAX = 512 * 1024
"""The broker's max_payload: what is larger ends the connection of whoever sends it."""
REPLY_BYTES_MAX = 448 * 1024
"""Largest reply made; what would be larger is cut, and says so."""
LIST_MAX = 1000
"""Most jobs of one JobList."""
LOGS_BYTES_MAX = 256 * 1024
"""Most output bytes of one LogsView, before base64."""


# --- requests -------------------------------------------------------------------------------------


class GetRequest(Message, frozen=True):
    """`job.get`. With `until` the reply is held back up to `wait_s` for that to come true."""

    job: JobRef = "last"
    until: Literal["", "running", "ended"] = ""
    wait_s: Wait = 0.0
    trace: bool = False
    """Also ask the node for the trace summary."""


class ListRequest(Message, frozen=True):
    """`job.list`, newest first. `select`: "all", "last", "3", "1,4-6". `before`: older ones."""

    select: str = "all"
    states: tuple[JobState, ...] = ()
    user: str = ""
    """Only with an administrator's key: whose jobs; empty means everybody's."""
    before: Int | None = None
    limit: Int = 100


class CancelRequest(Message, frozen=True):
    """`job.cancel`. Jobs that are over stay as they are."""

    select: str
    reason: str = ""


class LogsRequest(Message, frozen=True):
    """`job.logs`: output bytes from `offset`, held back up to `wait_s` while there are none."""

    job: JobRef = "last"
    stream: Literal["out", "err"] = "out"
    offset: Int = 0
    limit: Int = LOGS_BYTES_MAX
    wait_s: Wait = 0.0
    attempt: Int = 0
    """The attempt whose output is meant; 0: the last one that was started."""


class StdinRequest(Message, frozen=True):
    """`job.stdin`: bytes (base64) at `offset`; the same offset twice is one write."""

    job: JobRef
    offset: Int = 0
    data: bytes = b""
    eof: bool = False
    wait_s: Wait = 0.0


class ExplainRequest(Message, frozen=True):
    """`job.explain`: why a job waits, runs where it runs, or ended as it did."""

    job: JobRef = "last"


class KernelRequest(Message, frozen=True):
    """`kernel.list`: GPU kernels of the caller's running jobs, or of one job."""

    job: JobRef | None = None


# --- replies --------------------------------------------------------------------------------------


class Times(Part, frozen=True):
    """CLOCK_REALTIME ns; null while it has not happened."""

    submitted_ns: int
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None


class ShareView(Part, frozen=True):
    """Part of one device given to a job."""

    id: str
    index: int
    milli: int
    sim: bool = False
    """True for a simulated device."""


class DecisionView(Part, frozen=True):
    """Where the job was put, why, how long that took and what was known then."""

    id: int
    node: str
    devices: tuple[ShareView, ...]
    reason: str
    latency_ns: int
    observations: tuple[int, ...]


class UsageView(Part, frozen=True):
    """What an ended attempt used, from the kernel's accounting."""

    cpu_ns: int
    memory_peak_bytes: int
    output_bytes: int
    output_dropped_bytes: int


class ArrayView(Part, frozen=True):
    """The array a job belongs to: jobs `first` to `first + size - 1`."""

    first: int
    size: int
    index: int
    """The index that this job finds in STOKER_ARRAY_INDEX."""


class AttemptView(Part, frozen=True):
    """An attempt that was followed by another one; its output: `job.logs` with `attempt`."""

    attempt: int
    state: JobState
    reason: str
    node: str | None = None
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None


class JobView(Message, frozen=True):
    """One job. `trace` is the summary described on the architecture page, when asked for.

    It is passed on as the node wrote it (`msgspec.Raw`) and arrives as an object or null.
    """

    job: int
    user: str
    name: str
    state: JobState
    reason: str
    attempt: int
    times: Times
    spec: Spec
    decision: DecisionView | None = None
    exit_code: int | None = None
    signal: int | None = None
    usage: UsageView | None = None
    uid: int | None = None
    """Whom it runs as on its node, which is not always who submitted it."""
    attempts: tuple[AttemptView, ...] = ()
    """Those before the present one, the newest 16."""
    array: ArrayView | None = None
    device_ns: int | None = None
    """Device time that was charged, of all attempts; null once the job is all but forgotten."""
    trace: Any = None
    trace_absent: str = ""
    """Why there is no `trace` though it was asked for."""


class JobList(Message, frozen=True):
    """Newest first. `next`: ask again with `before` set to it for older ones."""

    jobs: tuple[JobView, ...]
    next: int | None = None


class CancelledJob(Part, frozen=True):
    """One selected job; `changed` false: it was over already."""

    job: int
    state: JobState
    changed: bool


class CancelView(Message, frozen=True):
    """What the cancel did."""

    jobs: tuple[CancelledJob, ...]


class LogsView(Message, frozen=True):
    """`data` (base64) begins at the asked offset. `waiting`: the job has not started yet."""

    job: int
    stream: Literal["out", "err"]
    data: bytes
    next_offset: int
    eof: bool
    waiting: bool = False
    dropped_bytes: int = 0
    """Output past the job's limit, counted and not kept."""
    attempt: int = 0
    """The attempt whose output it is; `eof` is about it alone. 0: none was started yet."""
    again: bool = False
    """Another attempt has followed this one, or may."""


class StdinView(Message, frozen=True):
    """`next_offset`: how far stdin was taken. `closed`: the job reads no more."""

    job: int
    next_offset: int
    closed: bool = False
    waiting: bool = False


class ReasonView(Part, frozen=True):
    """One reason, as data and as a sentence."""

    code: str
    text: str
    node: str = ""
    data: dict[str, int] = msgspec.field(default_factory=dict)
    remedies: tuple[str, ...] = ()
    """Remedies by name: `scheduler.remedies.Remedy`."""


class ExplainView(Message, frozen=True):
    """`summary` is the first thing to read, `reasons` are ranked, `actions` are what would help."""

    job: int
    state: JobState
    summary: str
    reasons: tuple[ReasonView, ...]
    actions: tuple[str, ...] = ()
    decision: DecisionView | None = None


class KernelRow(Part, frozen=True):
    """One GPU kernel name of one job. `estimate`: total_ns is right to +-error_ns.

    `seen`: part of the time in which launches were counted; below 1 there were at least `count`.
    `unseen`: an estimate of those beside `count`, where the rest was left out by chance.
    """

    job: int
    node: str
    name: str
    count: int
    total_ns: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0
    seen: float = 1.0


class KernelList(Message, frozen=True):
    """Kernels by total time; `absent`: node -> why it has none to tell."""

    kernels: tuple[KernelRow, ...]
    absent: dict[str, str] = msgspec.field(default_factory=dict)


class Failure(Part, frozen=True):
    """`code` is stable (`stoker.native.errors`), `message` says what, `hint` what to do."""

    code: str
    message: str
    hint: str = ""


class ErrorReply(Message, frozen=True):
    """The reply to any request that was not carried out; nothing was changed by it."""

    error: Failure


class Endpoint(NamedTuple):
    """One request a user may send."""

    request: type[Message]
    reply: type[Message]


ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("job", "submit"): Endpoint(JobRequest, JobView),
    ("job", "get"): Endpoint(GetRequest, JobView),
    ("job", "list"): Endpoint(ListRequest, JobList),
    ("job", "cancel"): Endpoint(CancelRequest, CancelView),
    ("job", "remove"): Endpoint(RemoveRequest, RemoveView),
    ("job", "logs"): Endpoint(LogsRequest, LogsView),
    ("job", "stdin"): Endpoint(StdinRequest, StdinView),
    ("job", "explain"): Endpoint(ExplainRequest, ExplainView),
    ("job", "trace"): Endpoint(TraceRequest, TraceView),
    ("job", "tracing"): Endpoint(TracingRequest, TracingView),
    ("node", "list"): Endpoint(NodeRequest, NodeList),
    ("device", "list"): Endpoint(NodeRequest, DeviceList),
    ("device", "readings"): Endpoint(ReadingsRequest, ReadingsView),
    ("node", "topology"): Endpoint(TopologyRequest, TopologyView),
    ("kernel", "list"): Endpoint(KernelRequest, KernelList),
    ("queue", "list"): Endpoint(QueueRequest, QueueList),
    ("queue", "set"): Endpoint(QueueSetRequest, Done),
    ("queue", "remove"): Endpoint(QueueRemoveRequest, Done),
    ("queue", "quota"): Endpoint(QueueQuotaRequest, Done),
    ("node", "label"): Endpoint(NodeLabelRequest, Done),
    ("node", "reserve"): Endpoint(NodeReserveRequest, Done),
    ("node", "drain"): Endpoint(NodeDrainRequest, Done),
    ("device", "cordon"): Endpoint(DeviceCordonRequest, Done),
    ("device", "uncordon"): Endpoint(DeviceUncordonRequest, Done),
}

_encoder = msgspec.json.Encoder()
_requests: dict[tuple[str, str], msgspec.json.Decoder[Any]] = {
    key: msgspec.json.Decoder(endpoint.request) for key, endpoint in ENDPOINTS.items()
}
_replies: dict[tuple[str, str], msgspec.json.Decoder[Any]] = {
    key: msgspec.json.Decoder(endpoint.reply) for key, endpoint in ENDPOINTS.items()
}
_errors = msgspec.json.Decoder(ErrorReply)
_ERROR_START = b'{"error":{'
"""The first bytes of every `error_reply` and of no other reply."""


def encode(message: Message) -> bytes:
    """One message as JSON."""
    return _encoder.encode(message)


def decode_request(noun: str, verb: str, data: bytes) -> Message:
    """A request of the right shape; BadRequest says which field is wrong and what it should be."""
    try:
        message = _requests[noun, verb].decode(data or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRequest(f"{noun}.{verb}: {error}"[:500]) from None
    assert isinstance(message, Message)
    return message


def decode_reply(noun: str, verb: str, data: bytes) -> Message:
    """A reply, or the error it carries, raised as its kind of StokerError."""
    if data.startswith(_ERROR_START):
        raise to_error(_errors.decode(data).error)
    message = _replies[noun, verb].decode(data)
    assert isinstance(message, Message)
    return message


def error_reply(error: StokerError) -> bytes:
    """An operating error as the reply to a request."""
    return _encoder.encode(
        ErrorReply(error=Failure(code=error.code, message=error.message, hint=error.hint))
    )


def to_error(failure: Failure) -> StokerError:
    """The reverse of `error_reply`; a code from a newer server becomes a plain StokerError."""
    kinds: list[type[StokerError]] = [StokerError, *StokerError.__subclasses__()]
    kind = next((kind for kind in kinds if kind.code == failure.code), StokerError)
    return kind(failure.message, hint=failure.hint)


def documents() -> dict[str, bytes]:
    """File name -> JSON Schema (2020-12), for every endpoint and the error reply."""
    files: dict[str, type[Message]] = {"error": ErrorReply}
    for (noun, verb), endpoint in ENDPOINTS.items():
        files[f"{noun}.{verb}.request"] = endpoint.request
        files[f"{noun}.{verb}.reply"] = endpoint.reply
    return {f"{name}.json": _document(name, kind) for name, kind in sorted(files.items())}


def _document(name: str, kind: type[Message]) -> bytes:
    body = msgspec.json.schema(kind)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"stoker/v1/{name}",
    }
    return msgspec.json.format(msgspec.json.encode({**head, **body}), indent=2) + b"\n"
