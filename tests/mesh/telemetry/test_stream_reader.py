# SPDX-License-Identifier: Apache-2.0
"""StreamPage kept telemetry at the real server: pages, cursors, and what is noticed as missing."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from stoker.mesh.connection.requests import Requests
from stoker.mesh.telemetry.stream_owner import StreamOwner
from stoker.mesh.telemetry.stream_reader import (
    Cursor,
    KeptMessage,
    StreamReader,
    _has_expired,
    nanoseconds,
)
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry_streams import STREAM_AGE_S, stream_of
from stoker.native.errors import Unavailable
from tests.mesh.nats_server import Server, settle

DECISIONS = stream_of("decisions")
PAGE, BYTES = 7, 1 << 18


async def reader_at(server: Server) -> StreamReader:
    nc = await server.connect("scheduler")
    await StreamOwner(Requests(nc)).look()
    return StreamReader(nc)


async def publish(reader: StreamReader, user: str, first: int, count: int) -> None:
    for number in range(first, first + count):
        await reader._nc.publish(subjects.decisions(user), b"%d" % number)
    await kept(reader)


async def kept(reader: StreamReader) -> None:
    """Wait until the stream has what was published, which it takes in after the broker has it."""
    end = b"end %d" % next(_ends)
    await reader._nc.publish(subjects.decisions("end"), end)
    while True:
        with contextlib.suppress(Unavailable):  # on a busy machine
            found, _ = await reader.since(DECISIONS, subjects.decisions("end"), 0, 500, BYTES)
            if found and found[-1].data == end:
                return


_ends = itertools.count()


async def pages(reader: StreamReader, user: str) -> list[KeptMessage]:
    subject = DECISIONS.readable(user)
    found, more = await reader.since(DECISIONS, subject, 0, PAGE, BYTES)
    whole = list(found)
    while more:
        last = Cursor(whole[-1].seq, whole[-1].t_ns)
        page = await reader.after(DECISIONS, subject, last, PAGE, BYTES)
        assert not page.gap and 0 < len(page.messages) <= PAGE
        whole, more = whole + page.messages, page.more
    return whole


async def test_pages_have_each_message_of_a_user_once_and_in_order(server: Server) -> None:
    reader = await reader_at(server)
    for turn in range(5):
        await publish(reader, "alice", 5 * turn, 5)
        await publish(reader, "bob", 100 + 3 * turn, 3)
    assert [int(each.data) for each in await pages(reader, "alice")] == list(range(25))
    assert [int(each.data) for each in await pages(reader, "bob")] == list(range(100, 115))
    assert [each.subject for each in await pages(reader, "bob")] == [subjects.decisions("bob")] * 15


async def test_following_finds_what_is_new_and_nothing_else(server: Server) -> None:
    reader = await reader_at(server)
    subject = DECISIONS.readable("alice")
    await publish(reader, "alice", 0, 3)
    last = (await pages(reader, "alice"))[-1]
    cursor = Cursor(last.seq, last.t_ns)
    nothing = await reader.after(DECISIONS, subject, cursor, PAGE, BYTES)
    assert nothing == ([], False, False)
    await publish(reader, "bob", 0, 2)
    assert await reader.after(DECISIONS, subject, cursor, PAGE, BYTES) == nothing
    await publish(reader, "alice", 3, 2)
    found = await reader.after(DECISIONS, subject, cursor, PAGE, BYTES)
    assert ([int(each.data) for each in found.messages], found.gap) == ([3, 4], False)


async def test_a_stream_that_began_anew_is_noticed(server: Server) -> None:
    reader = await reader_at(server)
    subject = DECISIONS.readable("alice")
    await publish(reader, "alice", 0, 9)
    last = (await pages(reader, "alice"))[-1]
    cursor = Cursor(last.seq, last.t_ns)
    server.kill()
    server.start()
    reader = await reader_at(server)
    assert await reader.after(DECISIONS, subject, cursor, PAGE, BYTES) == ([], False, False)
    await publish(reader, "alice", 50, 3)  # the stream's numbers are below the cursor's
    found = await reader.after(DECISIONS, subject, cursor, PAGE, BYTES)
    assert ([int(each.data) for each in found.messages], found.gap) == ([50, 51, 52], True)
    await publish(reader, "alice", 53, 20)  # and beyond it
    found = await reader.after(DECISIONS, subject, cursor, 100, BYTES)
    assert [int(each.data) for each in found.messages] == list(range(50, 73)) and found.gap


async def test_a_discarded_cursor_is_a_gap(server: Server) -> None:
    reader = await reader_at(server)
    subject = DECISIONS.readable("alice")
    await publish(reader, "alice", 0, 1)
    first = (await pages(reader, "alice"))[0]
    for number in range(260):
        await reader._nc.publish(subjects.decisions("bob"), b"x" * 200_000)
        if number % 10 == 0:
            await settle(reader._nc)  # else a reading waits behind all of it
    await publish(reader, "alice", 1, 1)
    cursor = Cursor(first.seq, first.t_ns)
    found = await reader.after(DECISIONS, subject, cursor, PAGE, BYTES)
    assert ([int(each.data) for each in found.messages], found.gap) == ([1], True)


async def test_large_messages_come_one_by_one(server: Server) -> None:
    reader = await reader_at(server)
    for _ in range(4):
        await reader._nc.publish(subjects.decisions("alice"), b"x" * 200_000)
    await kept(reader)
    found, more = await reader.since(DECISIONS, DECISIONS.readable("alice"), 0, PAGE, 1000)
    assert (len(found), more) == (1, True)


async def test_without_the_stream_reading_says_so(server: Server) -> None:
    reader = StreamReader(await server.connect("scheduler"))
    with pytest.raises(Unavailable, match="reading decisions: 503"):
        await reader.since(DECISIONS, DECISIONS.subject, 0, PAGE, BYTES)


def test_old_messages_are_expected_to_be_gone() -> None:
    old = Cursor(5, 0)
    assert _has_expired(old, (STREAM_AGE_S + 1) * 10**9)
    assert not _has_expired(old, 10**9)
    assert nanoseconds("2026-11-24T10:40:47.18689Z") == 1_795_516_847_186_890_000
    assert nanoseconds("1970-01-01T00:00:01Z") == 10**9
