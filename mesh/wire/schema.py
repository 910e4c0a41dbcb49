# SPDX-License-Identifier: Apache-2.0
"""The public requests and replies: JSON over NATS, one struct each; docs/schema/ is made from them.

Owns the promise to clients: unknown fields are refused, numbers are plain and their names have the
unit, and absence is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec

from stoker.mesh.wire.job_request import JobRequest, Spec
from stoker.mesh.wire.schema_alerts import (
    AlertAckRequest,
    AlertList,
    AlertRequest,
)
from stoker.mesh.wire.schema_arrays import ArrayView, FollowedView
from stoker.mesh.wire.schema_audit import AuditReadRequest, AuditView
from stoker.mesh.wire.schema_cluster import (
    VERSION,
    ClusterAdmitRequest,
    ClusterLimitsRequest,
    ClusterRemoveRequest,
    ClusterRequest,
    ClusterUpgradeRequest,
    ClusterView,
    DeviceCordonRequest,
    DeviceList,
    DeviceUncordonRequest,
    DeviceView,
    Done,
    Int,
    LogCopy,
    LogPosition,
    LogView,
    Message,
    NodeDrainRequest,
    NodeEvictRequest,
    NodeLabelRequest,
    NodeList,
    NodeRemoveRequest,
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
    ReplyMessage,
    Reservation,
    SchedulerView,
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
from stoker.mesh.wire.schema_explanation import (
    EvidenceView,
    ExpectedStart,
    ReasonView,
    SignalsView,
)
from stoker.mesh.wire.schema_ranks import RankTroubleView, VerdictView
from stoker.mesh.wire.schema_removal import RemovedJob, RemoveRequest, RemoveView
from stoker.mesh.wire.schema_telemetry import (
    TelemetryList,
    TelemetryReadRequest,
    TelemetryRequest,
    TelemetryView,
)
from stoker.mesh.wire.schema_trace import (
    WINDOW_S_MAX,
    WINDOW_S_MIN,
    JobRef,
    KernelList,
    KernelRequest,
    KernelRow,
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
    "ArrayView",
    "ClusterAdmitRequest",
    "ClusterLimitsRequest",
    "ClusterRemoveRequest",
    "ClusterRequest",
    "ClusterUpgradeRequest",
    "ClusterView",
    "DeviceCordonRequest",
    "DeviceList",
    "DeviceUncordonRequest",
    "DeviceView",
    "Done",
    "EvidenceView",
    "ExpectedStart",
    "FieldView",
    "FollowedView",
    "Int",
    "JobRef",
    "JobRequest",
    "KernelList",
    "KernelRequest",
    "KernelRow",
    "LogCopy",
    "LogPosition",
    "LogView",
    "Message",
    "NodeDrainRequest",
    "NodeEvictRequest",
    "NodeLabelRequest",
    "NodeList",
    "NodeRemoveRequest",
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
    "RankTroubleView",
    "ReadingsRequest",
    "ReadingsView",
    "ReasonView",
    "RemoveRequest",
    "RemoveView",
    "RemovedJob",
    "Reservation",
    "SchedulerView",
    "SignalsView",
    "Spec",
    "Steered",
    "TopologyRequest",
    "TopologyView",
    "TraceRequest",
    "TraceView",
    "TracerView",
    "TracingRequest",
    "TracingView",
    "VerdictView",
    "WindowView",
]
"""The messages of the other files, which are used under this module's name."""

PAYLOAD_BYTES_MAX = 512 * 1024
"""The broker's max_payload; a larger message ends the connection of its sender."""
REPLY_BYTES_MAX = 448 * 1024
"""The largest reply; a larger one is cut and says so."""
LIST_MAX = 1000
"""The most jobs in one JobList."""
LOGS_BYTES_MAX = 256 * 1024
"""The most output bytes in one LogsView, before base64."""


# --- requests -------------------------------------------------------------------------------------


class GetRequest(Message, frozen=True):
    """`job.get`: one job; with `until` the reply is held back up to `wait_s` for that state."""

    job: JobRef = "last"
    until: Literal["", "running", "ended"] = ""
    wait_s: Wait = 0.0
    trace: bool = False
    """True to include the node's trace summary."""
    rank: Int = 0
    """The rank of a gang whose trace is included."""
    stale: bool = False
    """True to read at once what a chosen scheduler has, which may lack the newest entries."""


class ListRequest(Message, frozen=True, omit_defaults=True):
    """`job.list`: jobs, newest first. `select` is "all", "last", "3" or "1,4-6"; only jobs older
    than `before` are listed. A field with its default is not sent, so that an older scheduler is
    only told of the newer fields that are used."""

    select: str = "all"
    states: tuple[JobState, ...] = ()
    user: str = ""
    """The user whose jobs are listed, for administrators; empty means all users."""
    before: Int | None = None
    limit: Int = 100
    stale: bool = False
    """True to read at once what a chosen scheduler has, which may lack the newest entries."""
    arrays: bool = False
    """True to list each array as one row, whose `array.states` counts the jobs that it stands for:
    those of the array that would be listed, if they are several."""


class CancelRequest(Message, frozen=True):
    """`job.cancel`: stop the selected jobs that are not over, only those older than `before`."""

    select: str
    reason: str = ""
    before: Int | None = None


class LogsRequest(Message, frozen=True):
    """`job.logs`: output from `offset`; the reply is held back up to `wait_s` while there is
    none."""

    job: JobRef = "last"
    stream: Literal["out", "err"] = "out"
    offset: Int = 0
    limit: Int = LOGS_BYTES_MAX
    wait_s: Wait = 0.0
    attempt: Int = 0
    """The attempt whose output is requested; 0 is the last one that was started."""
    rank: Int = 0
    """The rank of a gang whose output is requested."""


class StdinRequest(Message, frozen=True):
    """`job.stdin`: bytes (base64) at `offset`; a repeated offset is written once."""

    job: JobRef
    offset: Int = 0
    data: bytes = b""
    eof: bool = False
    wait_s: Wait = 0.0


class ExplainRequest(Message, frozen=True):
    """`job.explain`: why a job waits, runs where it runs, or ended as it did."""

    job: JobRef = "last"
    rank: Int = 0
    """The rank of a gang whose decision and evidence are shown."""


# --- replies --------------------------------------------------------------------------------------


class Times(Part, frozen=True):
    """The moments of a job in CLOCK_REALTIME ns; null for those that have not come."""

    submitted_ns: int
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None


class ShareView(Part, frozen=True):
    """The part of one device that a job has."""

    id: str
    index: int
    milli: int
    sim: bool = False
    """True for a simulated device."""


class DecisionView(Part, frozen=True):
    """A decision: where a job was placed and why, its latency, and the observations it read."""

    id: int
    node: str
    devices: tuple[ShareView, ...]
    reason: str
    latency_ns: int
    observations: tuple[int, ...]
    numa: str = ""
    """The CPUs and memory to which it is bound, or why it is not; empty for a job without cards."""


class RankView(Part, frozen=True):
    """One task of a gang in the job's last attempt, as its node said last."""

    rank: int
    node: str
    devices: tuple[ShareView, ...]
    state: Literal[
        "starting", "ready", "running", "succeeded", "failed", "cancelled", "timeout", "lost"
    ]
    """ready: it waits until all ranks are."""
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    decision: int = 0


class UsageView(Part, frozen=True):
    """The resources that an ended attempt used, from the kernel's accounting."""

    cpu_ns: int
    memory_peak_bytes: int
    output_bytes: int
    output_dropped_bytes: int


class AttemptView(Part, frozen=True):
    """An attempt that was followed by another one; `job.logs` with `attempt` has its output."""

    attempt: int
    state: JobState
    reason: str
    node: str | None = None
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None


class JobView(ReplyMessage, frozen=True):
    """One job. `trace` is the trace summary if it was requested: an object as the node wrote it, or
    null."""

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
    """The uid that it runs as on its node."""
    attempts: tuple[AttemptView, ...] = ()
    """The newest 16 attempts before the present one."""
    array: ArrayView | None = None
    device_ns: int | None = None
    """The device time charged to all attempts; null once the core has forgotten the job."""
    trace: Any = None
    trace_absent: str = ""
    """The reason why there is no `trace` although it was requested."""
    position: LogPosition | None = None
    """The position in the log that a reply with one job reflects; null in the rows of a list."""
    nodes: tuple[str, ...] = ()
    """The nodes of a gang, in the order of their ranks; `decision` is that of its rank 0."""
    ranks: tuple[RankView, ...] = ()
    """The ranks of a gang; not in the rows of a list."""
    master: str = ""
    """The address at which the ranks of a gang meet, "host:port", while it is placed."""
    follows: tuple[FollowedView, ...] = ()
    """The jobs that it follows, as they are now; not in the rows of a list."""
    troubles: tuple[RankTroubleView, ...] = ()
    """The ranks that keep others waiting now, those that do not come first."""
    waits: str = ""
    """The reason why a pending job waits; the leader tells it in 64 rows of a list at most."""
    verdict: VerdictView | None = None
    """The verdict on a job that runs; null if it does not run, or nobody knows."""
    verdict_absent: str = ""
    """The reason why there is no `verdict` of a running job, or of some of its tasks."""


class JobList(ReplyMessage, frozen=True):
    """Jobs, newest first. If `next` is set, a request with `before` set to it continues."""

    jobs: tuple[JobView, ...]
    next: int | None = None
    position: LogPosition | None = None
    """The position in the log that the reply reflects."""


class CancelledJob(Part, frozen=True):
    """One selected job; `changed` is false if it was over before. With `last` it is one row for the
    jobs `job` to `last` of an array: `changed` is false if all of them were over."""

    job: int
    state: JobState
    changed: bool
    last: int | None = None


class CancelView(ReplyMessage, frozen=True):
    """The effect of a cancel on each selected job; `next` is the `before` of the request that goes
    on, if there are more."""

    jobs: tuple[CancelledJob, ...]
    next: int | None = None


class LogsView(ReplyMessage, frozen=True):
    """A piece of output (base64) from the requested offset; `waiting` is true before the start."""

    job: int
    stream: Literal["out", "err"]
    data: bytes
    next_offset: int
    eof: bool
    waiting: bool = False
    dropped_bytes: int = 0
    """The bytes of output beyond the job's limit, which were counted and not kept."""
    attempt: int = 0
    """The attempt whose output it is and that `eof` is about; 0 if none was started."""
    again: bool = False
    """True if another attempt has followed this one, or may."""
    absent: str = ""
    """The reason why the output of an attempt that is over cannot be read, with `eof`; else empty.
    """
    spooled: str = ""
    """The reason why this piece was read from the cluster's spool and not from its node, and up to
    where the spool is whole; empty for a piece from its node."""
    lacks: bool = False
    """True if the attempt may have written more to the stream than the spool has."""


class StdinView(ReplyMessage, frozen=True):
    """The progress of stdin: the next write begins at `next_offset`; `closed` is true if the job
    reads no more."""

    job: int
    next_offset: int
    closed: bool = False
    waiting: bool = False


class ExplainView(ReplyMessage, frozen=True):
    """An explanation: `summary` in one sentence, `reasons` by rank, `actions` that would help."""

    job: int
    state: JobState
    summary: str
    reasons: tuple[ReasonView, ...]
    actions: tuple[str, ...] = ()
    decision: DecisionView | None = None
    evidence: EvidenceView | None = None
    """The values that the placement read; null for a job that was not placed."""
    rank: int = 0
    """The rank of a gang that `decision` and `evidence` are of."""
    troubles: tuple[RankTroubleView, ...] = ()
    """The ranks that keep others waiting now."""
    expected: ExpectedStart | None = None
    """The expected start of a pending job; null for one that was placed."""
    attempts: tuple[AttemptView, ...] = ()
    """The newest 16 attempts before the present one."""


class Failure(Part, frozen=True):
    """An error: a stable `code` (`stoker.native.errors`), a `message`, and a `hint` what to do."""

    code: str
    message: str
    hint: str = ""


class ErrorReply(ReplyMessage, frozen=True):
    """The reply to a request that was refused or failed."""

    error: Failure


class Endpoint(NamedTuple):
    """The types of one request and its reply."""

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
    ("telemetry", "list"): Endpoint(TelemetryRequest, TelemetryList),
    ("telemetry", "read"): Endpoint(TelemetryReadRequest, TelemetryView),
    ("queue", "set"): Endpoint(QueueSetRequest, Done),
    ("queue", "remove"): Endpoint(QueueRemoveRequest, Done),
    ("queue", "quota"): Endpoint(QueueQuotaRequest, Done),
    ("node", "label"): Endpoint(NodeLabelRequest, Done),
    ("node", "reserve"): Endpoint(NodeReserveRequest, Done),
    ("node", "drain"): Endpoint(NodeDrainRequest, Done),
    ("node", "evict"): Endpoint(NodeEvictRequest, Done),
    ("node", "remove"): Endpoint(NodeRemoveRequest, Done),
    ("device", "cordon"): Endpoint(DeviceCordonRequest, Done),
    ("device", "uncordon"): Endpoint(DeviceUncordonRequest, Done),
    ("cluster", "get"): Endpoint(ClusterRequest, ClusterView),
    ("cluster", "limits"): Endpoint(ClusterLimitsRequest, Done),
    ("cluster", "remove"): Endpoint(ClusterRemoveRequest, Done),
    ("cluster", "admit"): Endpoint(ClusterAdmitRequest, Done),
    ("cluster", "upgrade"): Endpoint(ClusterUpgradeRequest, Done),
    ("alert", "list"): Endpoint(AlertRequest, AlertList),
    ("audit", "read"): Endpoint(AuditReadRequest, AuditView),
    ("alert", "acknowledge"): Endpoint(AlertAckRequest, Done),
}

_encoder = msgspec.json.Encoder()
_ERROR_START = b'{"error":{'
"""The first bytes of every `error_reply` and of no other reply."""


@cache
def _decoder(kind: type[Message]) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a message; each is made when it is first used, since a command needs
    one or two of them and all take longer than the rest of its start."""
    return msgspec.json.Decoder(kind)


def encode(message: Message) -> bytes:
    """Return a message as JSON."""
    return _encoder.encode(message)


def decode_request(noun: str, verb: str, data: bytes) -> Message:
    """Return a decoded request; BadRequest says which field is wrong."""
    try:
        message = _decoder(ENDPOINTS[noun, verb].request).decode(data or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadRequest(f"{noun}.{verb}: {error}"[:500]) from None
    assert isinstance(message, Message)
    return message


def decode_reply(noun: str, verb: str, data: bytes) -> Message:
    """Return a decoded reply, or raise the StokerError that it carries."""
    if data.startswith(_ERROR_START):
        raise to_error(_decoder(ErrorReply).decode(data).error)
    message = _decoder(ENDPOINTS[noun, verb].reply).decode(data)
    assert isinstance(message, Message)
    return message


def error_reply(error: StokerError) -> bytes:
    """Return an error as the reply to a request."""
    return _encoder.encode(
        ErrorReply(error=Failure(code=error.code, message=error.message, hint=error.hint))
    )


def to_error(failure: Failure) -> StokerError:
    """Return the error of a reply; an unknown code becomes a plain StokerError."""
    kind = next((kind for kind in _kinds(StokerError) if kind.code == failure.code), StokerError)
    return kind(failure.message, hint=failure.hint)


def _kinds(of: type[StokerError]) -> Iterator[type[StokerError]]:
    yield of
    for kind in of.__subclasses__():
        yield from _kinds(kind)


def documents() -> dict[str, bytes]:
    """Return the JSON Schema (2020-12) of every endpoint and of the error reply, by file name."""
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
