# SPDX-License-Identifier: Apache-2.0
"""The public requests and replies: JSON over NATS, one struct each; docs/schema/ is made from them.

Relied on by the job service and by every client, ours and others'. Owns the promise to outsiders:
unknown fields are refused, numbers are plain with the unit in the name, absence is null.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from stoker.native.errors import BadRequest, StokerError
from stoker.scheduler.nouns import JobState, TraceMode

VERSION: Final = "stoker/v1"
REPLY_BYTES_MAX = 448 * 1024
"""Largest reply sent; the broker's max_payload is 512 KB."""
WAIT_S_MAX = 30.0
"""Longest a request may be held back; a client that waits longer asks again."""
LIST_MAX = 1000
"""Most jobs of one JobList."""
LOGS_BYTES_MAX = 256 * 1024
"""Most output bytes of one LogsView, before base64."""

Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""JSON has integers of any length; none here is longer than 64 bits."""
JobRef = Int | str
"""A job number, or "last": the caller's newest job."""


class Message(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Root of all requests and replies. Another schema than ours is refused by name."""

    schema: Literal["stoker/v1"] = VERSION


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Root of what lies inside a message."""


# --- requests -------------------------------------------------------------------------------------


class JobRequest(Message, frozen=True):
    """`job.submit`. Fields mean what `scheduler.nouns.JobSpec` says; argv[0] is sought in PATH."""

    argv: tuple[str, ...]
    cwd: str = "/"
    env: dict[str, str] = {}
    name: str = ""
    gpu_milli: Int = 0
    cpu_milli: Int | None = None
    memory_bytes: Int | None = None
    pids: Int | None = None
    time_limit_s: float | None = None
    grace_s: float = 5.0
    priority: Int = 0
    trace: TraceMode = "governed"
    stdin: bool = False
    umask: Int = 0o022
    output_bytes_max: Int = 1 << 30
    idempotency_key: str = ""
    """The same key again is the same job; a different request under it is refused."""


class GetRequest(Message, frozen=True):
    """`job.get`. With `until` the reply is held back up to `wait_s` for that to come true."""

    job: JobRef = "last"
    until: Literal["", "running", "ended"] = ""
    wait_s: float = 0.0
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
    wait_s: float = 0.0


class StdinRequest(Message, frozen=True):
    """`job.stdin`: bytes (base64) at `offset`; the same offset twice is one write."""

    job: JobRef
    offset: Int = 0
    data: bytes = b""
    eof: bool = False
    wait_s: float = 0.0


class ExplainRequest(Message, frozen=True):
    """`job.explain`: why a job waits, runs where it runs, or ended as it did."""

    job: JobRef = "last"


class TraceRequest(Message, frozen=True):
    """`job.trace`: the Perfetto timeline of a job, piece by piece."""

    job: JobRef = "last"
    offset: Int = 0
    limit: Int = LOGS_BYTES_MAX
    wait_s: float = 0.0


class NodeRequest(Message, frozen=True):
    """`node.list` and `device.list`."""


class KernelRequest(Message, frozen=True):
    """`kernel.list`: GPU kernels of the caller's running jobs, or of one job."""

    job: JobRef | None = None


# --- replies --------------------------------------------------------------------------------------


class Spec(Part, frozen=True):
    """What was asked for. `env` is shown by `job.get` alone; `short`: argv was cut for the list."""

    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] | None
    gpu_milli: int
    cpu_milli: int | None
    memory_bytes: int | None
    pids: int | None
    time_limit_s: float | None
    grace_s: float
    priority: int
    trace: TraceMode
    stdin: bool
    output_bytes_max: int
    short: bool = False


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


class StdinView(Message, frozen=True):
    """`next_offset`: how far stdin was taken. `closed`: the job reads no more."""

    job: int
    next_offset: int
    closed: bool = False
    waiting: bool = False


class TraceView(Message, frozen=True):
    """A piece of the timeline file (base64); `size_bytes` is null while it still grows."""

    job: int
    data: bytes
    next_offset: int
    eof: bool
    size_bytes: int | None = None


class ReasonView(Part, frozen=True):
    """One reason, as data and as a sentence."""

    code: str
    text: str
    node: str = ""
    data: dict[str, int] = {}


class ExplainView(Message, frozen=True):
    """`summary` is the first thing to read, `reasons` are ranked, `actions` are what would help."""

    job: int
    state: JobState
    summary: str
    reasons: tuple[ReasonView, ...]
    actions: tuple[str, ...] = ()
    decision: DecisionView | None = None


class NodeView(Message, frozen=True):
    """One node: what it said of itself, and its latest sample."""

    node: str
    state: Literal["ready", "silent"]
    """`silent`: no sample for OBSERVATION_SILENT_S."""
    boot_id: str
    cpu_milli: int
    memory_bytes: int
    devices: int
    jobs: int
    """Placed here and not over."""
    missing: tuple[str, ...] = ()
    observation: int | None = None
    observed_ns: int | None = None
    load_milli: int | None = None
    memory_free_bytes: int | None = None


class NodeList(Message, frozen=True):
    """All nodes, by name."""

    nodes: tuple[NodeView, ...]


class DeviceView(Message, frozen=True):
    """One device: what it is, who holds it, and its latest sample; a null says why in `absent`."""

    id: str
    node: str
    index: int
    vendor: str
    model: str
    kind: Literal["gpu", "cpu", "declared"]
    memory_bytes: int | None
    unavailable: str
    sim: bool
    granted_milli: int
    jobs: tuple[int, ...]
    """Those of the caller; an administrator sees all."""
    busy_ratio: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    absent: dict[str, str] = {}


class DeviceList(Message, frozen=True):
    """All devices, by node and index."""

    devices: tuple[DeviceView, ...]


class KernelRow(Part, frozen=True):
    """One GPU kernel name of one job. `estimate`: total_ns is right to +-error_ns."""

    job: int
    node: str
    name: str
    count: int
    total_ns: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    estimate: bool = False
    error_ns: int = 0


class KernelList(Message, frozen=True):
    """Kernels by total time; `absent`: node -> why it has none to tell."""

    kernels: tuple[KernelRow, ...]
    absent: dict[str, str] = {}


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
    ("job", "logs"): Endpoint(LogsRequest, LogsView),
    ("job", "stdin"): Endpoint(StdinRequest, StdinView),
    ("job", "explain"): Endpoint(ExplainRequest, ExplainView),
    ("job", "trace"): Endpoint(TraceRequest, TraceView),
    ("node", "list"): Endpoint(NodeRequest, NodeList),
    ("device", "list"): Endpoint(NodeRequest, DeviceList),
    ("kernel", "list"): Endpoint(KernelRequest, KernelList),
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
"""How `error_reply` begins, and no other reply."""


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
