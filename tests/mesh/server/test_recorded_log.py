# SPDX-License-Identifier: Apache-2.0
"""The log of an only server goes on among three brokers with all its entries, whatever dies."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

import pytest

from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.connection.requests import Requests
from stoker.mesh.log import kept_log, log_record
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.server import notify
from stoker.mesh.server.recorded_log import RecordedLog
from stoker.mesh.server.spool_owner import SpoolOwner
from stoker.mesh.server.spooled_output import SpooledOutput
from stoker.native.errors import Corrupt, Unavailable
from tests.mesh.log.test_jetstream_log import connect, contents
from tests.mesh.log.test_log_copies import until_kept
from tests.mesh.nats_server import CLUSTER, Server
from tests.mesh.server.test_spooled_output import KEY, WORDS, Bed
from tests.mesh.several_brokers import joined

SIZE, ENTRIES, TRIMMED = 1 << 20, 30, 7
ALL = [(place, b"e%d" % place) for place in range(TRIMMED + 1, ENTRIES + 1)]
LOG = "jetstream/jetstream/CTRL/streams/SCHED_LOG"


async def engine(server: Server) -> JetStreamLog:
    return JetStreamLog(await connect(server, "scheduler"), CLUSTER, SIZE)


def recorded(server: Server) -> RecordedLog:
    """The log as the scheduler on this broker's host has it, whose record is beside the broker."""
    return RecordedLog(server.folder / "state/scheduler")


async def open_at(server: Server, *, founds: bool = True) -> JetStreamLog:
    log = await engine(server)
    async with asyncio.timeout(60):
        await recorded(server).open(log, founds=founds, broker=server.settings.server_name)
    return log


@pytest.fixture
async def brokers(stopped_server: Server) -> AsyncIterator[list[Server]]:
    """Three brokers, of which the first one was alone, has a log, and is not up again."""
    first = stopped_server
    first.start()
    log = await engine(first)
    await log.open(may_make=True)
    for tail in range(ENTRIES):
        await log.append_at(tail, b"e%d" % (tail + 1), f"1-{tail}")
    await log.trim(TRIMMED)
    await first.close_connections()
    first.connections.clear()
    first.stop()
    servers = joined(first, 3)
    try:
        for server in servers:
            begin_state(server)
        log_record.made(first.folder / "state/scheduler", ENTRIES)
        for server in servers[1:]:
            server.start()
        yield servers
    finally:
        for server in servers:
            await server.close_connections()
            server.stop()


def begin_state(server: Server) -> None:
    (server.folder / "state").mkdir()
    (server.folder / "state/nats").symlink_to(server.folder)
    log_record.begin(server.folder / "state/scheduler")


def begin_again(server: Server) -> None:
    """Start a broker as the supervisor does."""
    kept_log.settle(server.folder)
    server.start()


async def test_the_log_gets_copies_and_outlives_the_only_server(brokers: list[Server]) -> None:
    first, second, _ = brokers
    begin_again(first)
    log = await open_at(first)
    assert log.copies == 1 and not kept_log.is_kept(first.folder)
    assert await contents(log) == ALL
    assert await log.append_at(ENTRIES, b"new", "2-0") == ENTRIES + 1
    for copies in (2, 3):
        await log.keep(copies)
        await until_kept(log, copies)
    first.kill()
    other = await open_at(second, founds=False)
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                assert await contents(other) == [*ALL, (ENTRIES + 1, b"new")]
                break


async def test_a_broker_that_dies_between_the_steps_has_all_entries(brokers: list[Server]) -> None:
    first = brokers[0]
    begin_again(first)
    first.kill()  # before the stream is made again
    begin_again(first)
    made = await engine(first)
    async with asyncio.timeout(60):
        while not made.last:
            with contextlib.suppress(Unavailable):
                await made.open(may_make=True, place=first.settings.server_name)
    first.kill()  # behind that, and before the copy is given up
    begin_again(first)
    assert await contents(await open_at(first)) == ALL
    first.kill()  # and behind that
    begin_again(first)
    assert await contents(await open_at(first)) == ALL


async def test_a_broker_that_deleted_the_log_gets_it_back(
    brokers: list[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does if no scheduler has named the stream half a minute after it met the others."""
    said: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(notify, "status", said.put_nowait)
    first = brokers[0]
    kept_log.settle(first.folder)
    shutil.rmtree(first.folder / LOG)
    first.start()
    opening = asyncio.create_task(open_at(first))
    async with asyncio.timeout(60):
        assert (await said.get()).startswith("broker-restart:")
    assert not opening.done()
    first.kill()
    begin_again(first)
    assert await contents(await opening) == ALL


async def test_a_server_that_came_later_makes_no_log(brokers: list[Server]) -> None:
    first, second, _ = brokers
    opening = asyncio.create_task(open_at(second, founds=False))
    begin_again(first)
    await open_at(first)
    assert await contents(await opening) == ALL


async def test_a_log_that_is_gone_without_a_copy_ends_the_scheduler(brokers: list[Server]) -> None:
    first = brokers[0]
    first.start()  # by whoever keeps no copy
    with pytest.raises(Corrupt, match="the log's stream is gone"):
        await open_at(first)


async def test_what_was_spooled_at_an_only_server_is_kept(stopped_server: Server) -> None:
    first = stopped_server
    first.start()
    await (await engine(first)).open(may_make=True)
    spool = SpoolOwner(Requests(await first.connect("scheduler")), lambda: 1, SpoolBounds())
    spool.stay("", there=True)
    spool.begin([])
    await spool.look()
    await Bed(await first.connect("node1"), await first.connect("scheduler")).put(
        KEY, 0, WORDS, over=True
    )
    await first.close_connections()
    first.connections.clear()
    first.stop()
    servers = joined(first, 3)
    begin_state(first)
    log_record.made(first.folder / "state/scheduler", 0)
    try:
        kept_log.settle(first.folder)
        for server in servers:
            server.start()
        await told_again(first)
    finally:
        for server in servers:
            await server.close_connections()
            server.stop()


async def told_again(first: Server) -> None:
    """The leader has the other brokers know the spool, though no job that is not over has one."""
    log = await engine(first)
    async with asyncio.timeout(60):
        while not log.last:  # an empty log: nothing says that it is whole
            with contextlib.suppress(Unavailable):
                await log.open(may_make=True, place=first.settings.server_name)
                break
    scheduler = await first.connect("scheduler")
    spool = SpoolOwner(Requests(scheduler), lambda: 1, SpoolBounds())
    spool.stay(log.place, there=recorded(first).has_spool(log))
    spool.begin([])
    async with asyncio.timeout(60):
        while (
            spool.hurries or await SpooledOutput(scheduler).read("node1", KEY, "out", 0, 9) is None
        ):
            await spool.look()
    part = await SpooledOutput(scheduler).read("node1", KEY, "out", 0, 1000)
    assert part is not None and part.data == WORDS
