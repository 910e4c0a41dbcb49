# SPDX-License-Identifier: Apache-2.0
"""The copies of the log: one at each broker of a cluster, one at a broker that is alone."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest

from stoker.mesh.log.jetstream_log import JetStreamLog, OutcomeUnknown, StreamGone, WrongTail
from stoker.mesh.wire import subjects
from stoker.native.errors import Unavailable
from tests.mesh.log.test_jetstream_log import connect, contents
from tests.mesh.nats_server import CLUSTER, Server
from tests.mesh.several_brokers import joined

SIZE = 1 << 20


@pytest.fixture
async def brokers(stopped_server: Server) -> AsyncIterator[list[Server]]:
    servers = joined(stopped_server, 3)
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            await server.close_connections()
            server.stop()


async def opened(server: Server, copies: int, size: int = SIZE) -> JetStreamLog:
    """Open the log at a broker as soon as its cluster has found itself."""
    log = JetStreamLog(await connect(server, "scheduler"), CLUSTER, size, copies=copies)
    while True:
        try:
            await log.open(may_make=True)
            return log
        except Unavailable:
            continue


async def test_entries_outlive_any_broker_of_three(brokers: list[Server]) -> None:
    log = await opened(brokers[0], 3)
    assert log.copies == 3
    for tail in range(5):
        assert await log.append_at(tail, b"e%d" % tail, f"1-{tail}") == tail + 1
    brokers[0].kill()
    other = await opened(brokers[1], 3)
    tail = 5
    while tail == 5:
        try:
            tail = await other.append_at(5, b"e5", "1-5")
        except (OutcomeUnknown, WrongTail):
            tail = 5 if len(await found(other)) < 6 else 6
    assert await found(other) == [b"e%d" % number for number in range(6)]


async def found(log: JetStreamLog) -> list[bytes]:
    """The entries of the log as soon as it can be read."""
    async with asyncio.timeout(60):
        while True:
            try:
                return [data for _, data in await contents(log)]
            except Unavailable:
                continue


async def copied_everywhere(log: JetStreamLog) -> None:
    """Wait until the stream's leader knows that no copy is behind; an entry is acknowledged once
    two of three brokers have it."""
    async with asyncio.timeout(60):
        while True:
            call = f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}"
            answer = msgspec.json.decode(await log._requests.request(call, b"", 5.0))
            copies = answer.get("cluster", {}).get("replicas", ())
            if len(copies) == 2 and all(c["current"] and not c.get("lag") for c in copies):
                return


async def test_one_broker_that_is_left_reads_all(brokers: list[Server]) -> None:
    """Nobody can lead the stream then, so that nothing can be appended."""
    log = await opened(brokers[0], 3)
    for tail in range(300):
        await log.append_at(tail, b"e%d" % tail, f"1-{tail}")
    await copied_everywhere(log)
    for server in brokers[1:]:
        server.kill()
    async with asyncio.timeout(60):
        while len(left := await found(log)) < 300:  # it is here, and may be read a moment later
            continue
    assert left == [b"e%d" % number for number in range(300)]
    assert await contents(log, 299) == [(299, b"e298"), (300, b"e299")]
    assert await contents(log, 301) == []


async def test_a_broker_that_hangs_is_passed_over(brokers: list[Server]) -> None:
    log = await opened(brokers[0], 3)
    await log.append_at(0, b"e", "1-0")
    hanging = brokers[2].process
    assert hanging is not None
    hanging.send_signal(signal.SIGSTOP)
    try:
        for _ in range(4):
            while await found(log) != [b"e"]:  # one of the copies may be behind
                continue
    finally:
        hanging.send_signal(signal.SIGCONT)


async def test_a_copy_is_read_behind_a_trim(brokers: list[Server]) -> None:
    log = await opened(brokers[0], 3)
    for tail in range(5):
        await log.append_at(tail, b"e%d" % tail, f"1-{tail}")
    await log.trim(3)
    while len(left := await contents(log)) > 2:
        continue
    assert left == [(4, b"e3"), (5, b"e4")]


async def test_a_stream_that_is_gone_is_told_from_a_broker_that_is(brokers: list[Server]) -> None:
    log = JetStreamLog(await connect(brokers[0], "scheduler"), CLUSTER, SIZE, copies=3)
    while True:
        try:
            await contents(log)
        except StreamGone:
            break
        except Unavailable:
            continue


async def test_a_broker_alone_keeps_one_copy(server: Server) -> None:
    log = await opened(server, 3)
    assert log.copies == 1
    assert await log.append_at(0, b"e", "1-0") == 1


async def test_a_log_that_exists_keeps_its_copies(brokers: list[Server]) -> None:
    assert (await opened(brokers[0], 1)).copies == 1
    assert (await opened(brokers[1], 3)).copies == 1
    assert (await opened(brokers[1], 3, 2 * SIZE)).copies == 1


async def test_another_broker_gets_a_copy_and_gives_it_up(brokers: list[Server]) -> None:
    log = await opened(brokers[0], 2)
    await log.append_at(0, b"e", "1-0")
    await log.keep(3)
    await until_kept(log, 3)
    with pytest.raises(Unavailable, match="5 copies of the log"):
        await log.keep(5)
    assert log.copies == 3
    await log.keep(2)
    await until_kept(log, 2)
    assert await log.append_at(1, b"f", "1-1") == 2


async def until_kept(log: JetStreamLog, copies: int) -> None:
    """Wait until so many brokers have the log, each up to its end."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                found = (await log.keepers()).copies
                if len(found) == copies and all(each.current for each in found):
                    return
            await asyncio.sleep(0.05)
