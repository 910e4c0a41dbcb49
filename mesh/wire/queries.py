# SPDX-License-Identifier: Apache-2.0
"""The queries of the scheduler to a node: output, stdin, traces, devices, pings of others,
and what it is told of its ranks.

Owns the limits of one piece. An offset is a byte position in the whole, so any query may be
repeated.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stoker.native import errors
from stoker.scheduler.nouns import TASKS_PER_JOB_MAX, Record, TaskKey, TaskRecord, TroubleSample

CHUNK_BYTES_MAX = 256 * 1024
"""The most bytes in one reply; as base64 they still fit the broker's max_payload of 512 KB."""
STDIN_BYTES_MAX = 256 * 1024
WAIT_S_MAX = 30.0
"""The longest time for which an agent holds a query back until it has an answer."""


class LogsQuery(TaskRecord, tag="logs", frozen=True):
    """Requests a job's output from `offset`; waits up to `wait_s` while there is none yet."""

    stream: Literal["out", "err"]
    offset: int
    limit: int = CHUNK_BYTES_MAX
    wait_s: float = 0.0


class LogsReply(Record, tag="logs", frozen=True):
    """A job's output from the requested offset.

    `eof` is true if the job is over and nothing follows `data`.
    """

    data: bytes
    next_offset: int
    eof: bool
    dropped: int = 0
    """The bytes beyond the output limit, which were counted and not kept."""


class StdinQuery(TaskRecord, tag="stdin", frozen=True):
    """Writes to a job's stdin at `offset`; a repeated offset is written once."""

    offset: int
    data: bytes
    eof: bool = False
    wait_s: float = 0.0
    """The longest wait for room in the job's pipe."""


class StdinReply(Record, tag="stdin", frozen=True):
    """The progress of a job's stdin.

    `next_offset` is where the next write begins; it is less than was sent if the pipe is full.
    """

    next_offset: int
    closed: bool = False
    """True if the job reads no more."""


class TraceQuery(Record, tag="trace", frozen=True):
    """Requests the trace summary as JSON, the timeline (`perfetto`), or kernel rows of all jobs."""

    what: Literal["summary", "perfetto", "kernels"]
    job: int = 0
    attempt: int = 0
    task: int = 0
    placing: int = 0
    offset: int = 0
    limit: int = CHUNK_BYTES_MAX
    wait_s: float = 0.0
    window: int = 0
    """The number of a window, for `perfetto`; 0 is everything that is kept."""

    @property
    def key(self) -> TaskKey:
        """Return the start that it is about; its numbers are 0 for `kernels`."""
        return TaskKey(self.job, self.attempt, self.task, self.placing)


class TracingQuery(TaskRecord, tag="tracing", frozen=True):
    """Queries or changes how a job is traced; the fields are those of
    `schema_trace.TracingRequest`.

    The reply's data is a TracingView as JSON.
    """

    do: Literal["look", "mode", "open", "close"]
    by: str
    """The user who sent the request, whose permission was checked."""
    mode: Literal["dormant", "governed", "full"] = "full"
    seconds: float = 0.0
    window: int = 0
    records: bool = False
    wait_s: float = 0.0


class DevicesQuery(Record, tag="devices", frozen=True):
    """Requests the readings of one device, with the history of some fields, or the topology."""

    what: Literal["readings", "topology"]
    device: str = ""
    history: tuple[str, ...] = ()
    since_ns: int = 0
    wait_s: float = 0.0


class DevicesReply(Record, tag="devices", frozen=True):
    """A ReadingsView or TopologyView as JSON, at most CHUNK_BYTES_MAX."""

    data: bytes


class AlertsQuery(Record, tag="alerts", frozen=True):
    """Requests a node's alerts, or says that `by` has seen some of them."""

    do: Literal["list", "acknowledge"]
    alerts: tuple[int, ...] = ()
    by: str = ""
    why: str = ""
    wait_s: float = 0.0


class AlertsReply(Record, tag="alerts", frozen=True):
    """A NodeAlerts as JSON, at most CHUNK_BYTES_MAX; `changed` tells if anything was new."""

    data: bytes
    changed: bool = False


class PingQuery(Record, tag="ping", frozen=True):
    """Requests a direct ping of another node at its address "host:port"."""

    address: str
    wait_s: float = 0.0
    target: str = ""
    """The name of the node that is pinged, by which the gossip mesh knows it."""


class PingReply(Record, tag="ping", frozen=True):
    """The result of a ping: a reply or a refusal came, nothing came, or it could not be sent."""

    result: Literal["answered", "silent", "unable"]
    gossip: str = ""
    """`failed` if the gossip mesh holds the pinged node as failed, `alive` or `left` as it may be;
    empty if the pinger has no gossip or knows nothing of that node there."""


class RanksQuery(TaskRecord, tag="ranks", frozen=True):
    """Tells the ranks of a task that keep others on other nodes waiting now; empty: none any more.

    It is sent again about once a second while that is so.
    """

    troubles: tuple[TroubleSample, ...] = ()
    wait_s: float = 0.0


class RanksReply(Record, tag="ranks", frozen=True):
    """The node has heard it; `known` is false if the attempt is not there any more."""

    known: bool


class TraceReply(Record, tag="trace", frozen=True):
    """Trace data from the requested offset; `size` is that of the whole, None while it grows."""

    data: bytes
    next_offset: int
    eof: bool
    size: int | None = None


class QueryError(Record, tag="error", frozen=True):
    """The node's refusal, which the user receives as the same error."""

    code: str
    message: str
    hint: str = ""


NodeQuery = DevicesQuery | PingQuery | RanksQuery | AlertsQuery
"""A query about the node, not about one task's output or trace."""
Query = LogsQuery | StdinQuery | TraceQuery | TracingQuery | NodeQuery
Answer = LogsReply | StdinReply | TraceReply | DevicesReply | PingReply | RanksReply | AlertsReply
Reply = Answer | QueryError

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Query] = msgspec.msgpack.Decoder(Query)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Query | Reply) -> bytes:
    """Return the bytes of a query or reply."""
    return _encoder.encode(message)


def decode_query(data: bytes) -> Query:
    """Return a query whose fields are within the limits; BadRequest otherwise."""
    try:
        query = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise errors.BadRequest(f"not a query: {error}") from None
    if not 0 <= query.wait_s <= WAIT_S_MAX:  # false for NaN as well
        raise errors.BadRequest(f"wait {query.wait_s} s: out of range")
    if isinstance(query, DevicesQuery | PingQuery | AlertsQuery):
        return query
    if not 0 <= query.task < TASKS_PER_JOB_MAX:
        raise errors.BadRequest(f"task {query.task}: out of range")
    if isinstance(query, TracingQuery | RanksQuery):
        return query
    if query.offset < 0:
        raise errors.BadRequest(f"offset {query.offset}: out of range")
    if isinstance(query, StdinQuery):
        if len(query.data) > STDIN_BYTES_MAX:
            raise errors.BadRequest(f"{len(query.data)} bytes of stdin, at most {STDIN_BYTES_MAX}")
    elif not 0 < query.limit <= CHUNK_BYTES_MAX:
        raise errors.BadRequest(f"limit {query.limit}, at most {CHUNK_BYTES_MAX}")
    return query


def decode_reply(data: bytes) -> Answer:
    """Return a node's reply, or raise the error that it contains."""
    try:
        reply = _replies.decode(data)
    except msgspec.MsgspecError as error:
        raise errors.Unavailable(f"the node's answer cannot be read: {error}") from None
    if isinstance(reply, QueryError):
        kind = errors_by_code().get(reply.code, errors.StokerError)
        raise kind(reply.message, hint=reply.hint)
    return reply


def encode_error(error: errors.StokerError) -> bytes:
    """Return the bytes of an error as a reply."""
    return _encoder.encode(QueryError(error.code, error.message, error.hint))


def errors_by_code() -> dict[str, type[errors.StokerError]]:
    """Return the classes of errors by public code."""
    kinds: list[type[errors.StokerError]] = [errors.StokerError]
    kinds += errors.StokerError.__subclasses__()
    return {kind.code: kind for kind in kinds}
