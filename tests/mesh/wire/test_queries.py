# SPDX-License-Identifier: Apache-2.0
"""Queries to nodes: their limits are checked, and errors keep their class."""

from __future__ import annotations

import msgspec
import pytest

from stoker.mesh.wire import queries
from stoker.mesh.wire.queries import (
    DevicesQuery,
    LogsQuery,
    LogsReply,
    PingQuery,
    PingReply,
    StdinQuery,
    StdinReply,
    TraceQuery,
    TraceReply,
    TracingQuery,
)
from stoker.native.errors import BadRequest, NotFound, StokerError, Unavailable


@pytest.mark.parametrize(
    "message",
    [
        LogsQuery(1, 1, 0, 0, "out", 5),
        LogsQuery(1, 2, 63, 0, "err", 0, 10, 30.0),
        StdinQuery(3, 1, 0, 0, 0, b"\xff\x00", eof=True),
        TraceQuery("perfetto", 4, 1, 63, 100, 200),
        DevicesQuery("readings", "pocl-0", ("power_w",), 5),
        PingQuery("10.0.0.2:4000", 0.0, "b"),
    ],
)
def test_queries_round_trip(message: queries.Query) -> None:
    assert queries.decode_query(queries.encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        LogsReply(b"\xff", 1, True, 9),
        StdinReply(4, True),
        TraceReply(b"{}", 2, True, 2),
        PingReply("silent", "failed"),
    ],
)
def test_replies_come_back(
    message: queries.LogsReply | queries.StdinReply | queries.TraceReply,
) -> None:
    assert queries.decode_reply(queries.encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        LogsQuery(1, 1, 0, 0, "out", -1),
        LogsQuery(1, 1, 0, 0, "out", 0, 0),
        LogsQuery(1, 1, 0, 0, "out", 0, queries.CHUNK_BYTES_MAX + 1),
        LogsQuery(1, 1, 0, 0, "out", 0, 1, 31.0),
        LogsQuery(1, 1, 0, 0, "out", 0, 1, -0.1),
        StdinQuery(1, 1, 0, 0, 0, b"x" * (queries.STDIN_BYTES_MAX + 1)),
        LogsQuery(1, 1, -1, 0, "out", 0),
        StdinQuery(1, 1, 64, 0, 0, b""),
        TracingQuery(1, 1, 64, 0, "look", ""),
        LogsQuery(1, 1, 0, 0, "both", 0),  # type: ignore[arg-type]
    ],
)
def test_queries_beyond_the_limits_are_refused(message: queries.Query) -> None:
    with pytest.raises(BadRequest):
        queries.decode_query(queries.encode(message))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\xa4logs", b"{}"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        queries.decode_query(data)
    with pytest.raises(Unavailable):
        queries.decode_reply(data)


@pytest.mark.parametrize("kind", [NotFound, BadRequest, StokerError])
def test_errors_cross_as_their_kind(kind: type[StokerError]) -> None:
    with pytest.raises(kind) as caught:
        queries.decode_reply(queries.encode_error(kind("m", hint="h")))
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("m", "h")


def test_a_ping_of_a_version_without_gossip_says_nothing_of_it() -> None:
    asked = msgspec.msgpack.encode(["ping", "10.0.0.2:4000", 0.0])
    assert queries.decode_query(asked) == PingQuery("10.0.0.2:4000")
    assert queries.decode_reply(msgspec.msgpack.encode(["ping", "silent"])) == PingReply("silent")


def test_a_ping_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    asked = msgspec.msgpack.encode(["ping", "10.0.0.2:4000", 0.0, "b", "later"])
    assert queries.decode_query(asked) == PingQuery("10.0.0.2:4000", 0.0, "b")
    replied = msgspec.msgpack.encode(["ping", "silent", "failed", "later"])
    assert queries.decode_reply(replied) == PingReply("silent", "failed")
