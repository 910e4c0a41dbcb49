# SPDX-License-Identifier: Apache-2.0
"""What the scheduler asks a node for a user: output, stdin, traces; all in bounded pieces.

Owns the limits of one piece; an offset is a byte position in the whole, so any piece may be asked
for again.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stoker.native import errors
from stoker.scheduler.nouns import Record

CHUNK_BYTES_MAX = 256 * 1024
"""Most bytes of one reply; base64 of it still fits the broker's max_payload of 512 KB."""
STDIN_BYTES_MAX = 256 * 1024
WAIT_S_MAX = 30.0
"""Longest an agent holds an ask back until there is something to say."""


class LogsQuery(Record, tag="logs", frozen=True):
    """Bytes of a job's output from `offset`; waits up to `wait_s` while there are none yet."""

    job: int
    attempt: int
    stream: Literal["out", "err"]
    offset: int
    limit: int = CHUNK_BYTES_MAX
    wait_s: float = 0.0


class LogsReply(Record, tag="logs", frozen=True):
    """`data` begins at the asked offset. `eof`: the job is over and nothing follows `data`."""

    data: bytes
    next_offset: int
    eof: bool
    dropped: int = 0
    """Bytes past the output limit that were counted and not kept."""


class StdinQuery(Record, tag="stdin", frozen=True):
    """Bytes for a job's stdin at `offset`; the same offset twice is one write."""

    job: int
    attempt: int
    offset: int
    data: bytes
    eof: bool = False
    wait_s: float = 0.0
    """How long to wait for room in the job's pipe."""


class StdinReply(Record, tag="stdin", frozen=True):
    """`next_offset`: how far the node has taken stdin in; less than sent when the pipe is full."""

    next_offset: int
    closed: bool = False
    """The job reads no more."""


class TraceQuery(Record, tag="trace", frozen=True):
    """`summary`: trace summary JSON; `perfetto`: the timeline; `kernels`: rows of all jobs."""

    what: Literal["summary", "perfetto", "kernels"]
    job: int = 0
    attempt: int = 0
    offset: int = 0
    limit: int = CHUNK_BYTES_MAX
    wait_s: float = 0.0
    window: int = 0
    """Of `perfetto`: the number of a window; 0: all that is kept."""


class TracingQuery(Record, tag="tracing", frozen=True):
    """How a job is traced, or is to be; fields as in `schema_trace.TracingRequest`. The reply's
    data is a TracingView as JSON."""

    do: Literal["look", "mode", "open", "close"]
    job: int
    attempt: int
    by: str
    """The user who asks; the right to do so has been checked."""
    mode: Literal["dormant", "governed", "full"] = "full"
    seconds: float = 0.0
    window: int = 0
    records: bool = False
    wait_s: float = 0.0


class DevicesQuery(Record, tag="devices", frozen=True):
    """`readings` of one device, with the history of some fields; or the node's `topology`."""

    what: Literal["readings", "topology"]
    device: str = ""
    history: tuple[str, ...] = ()
    since_ns: int = 0
    wait_s: float = 0.0


class DevicesReply(Record, tag="devices", frozen=True):
    """A ReadingsView or TopologyView as JSON, at most CHUNK_BYTES_MAX."""

    data: bytes


class TraceReply(Record, tag="trace", frozen=True):
    """Bytes at the asked offset; `size` is the whole, None while it still grows."""

    data: bytes
    next_offset: int
    eof: bool
    size: int | None = None


class QueryError(Record, tag="error", frozen=True):
    """The node's refusal; becomes the same error at the user."""

    code: str
    message: str
    hint: str = ""


Query = LogsQuery | StdinQuery | TraceQuery | TracingQuery | DevicesQuery
Reply = LogsReply | StdinReply | TraceReply | DevicesReply | QueryError

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Query] = msgspec.msgpack.Decoder(Query)
_replies: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


def encode(message: Query | Reply) -> bytes:
    """One query or reply on the wire."""
    return _encoder.encode(message)


def decode_query(data: bytes) -> Query:
    """An query within its limits; BadRequest otherwise."""
    try:
        query = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise errors.BadRequest(f"not a query: {error}") from None
    if not 0 <= query.wait_s <= WAIT_S_MAX:  # false for NaN as well
        raise errors.BadRequest(f"wait {query.wait_s} s: out of range")
    if isinstance(query, TracingQuery | DevicesQuery):
        return query
    if query.offset < 0:
        raise errors.BadRequest(f"offset {query.offset}: out of range")
    if isinstance(query, StdinQuery):
        if len(query.data) > STDIN_BYTES_MAX:
            raise errors.BadRequest(f"{len(query.data)} bytes of stdin, at most {STDIN_BYTES_MAX}")
    elif not 0 < query.limit <= CHUNK_BYTES_MAX:
        raise errors.BadRequest(f"limit {query.limit}, at most {CHUNK_BYTES_MAX}")
    return query


def decode_reply(data: bytes) -> LogsReply | StdinReply | TraceReply | DevicesReply:
    """A node's answer, or the error it gave, raised."""
    try:
        reply = _replies.decode(data)
    except msgspec.MsgspecError as error:
        raise errors.Unavailable(f"the node's answer cannot be read: {error}") from None
    if isinstance(reply, QueryError):
        kind = errors_by_code().get(reply.code, errors.StokerError)
        raise kind(reply.message, hint=reply.hint)
    return reply


def encode_error(error: errors.StokerError) -> bytes:
    """An operating error as a reply."""
    return _encoder.encode(QueryError(error.code, error.message, error.hint))


def errors_by_code() -> dict[str, type[errors.StokerError]]:
    """The error family by its public code."""
    kinds: list[type[errors.StokerError]] = [errors.StokerError]
    kinds += errors.StokerError.__subclasses__()
    return {kind.code: kind for kind in kinds}
