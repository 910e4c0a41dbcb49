# SPDX-License-Identifier: Apache-2.0
"""The log against the real server: compare-and-set, gaps, limits, unknown outcomes, kill -9."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from nats.aio.client import Client as Connection

from stoker.mesh.connection.requests import Requests
from stoker.mesh.log.jetstream_log import JetStreamLog, LogFull, LogGap, OutcomeUnknown, WrongTail
from stoker.mesh.wire import subjects
from stoker.native.errors import Corrupt, Denied, Unavailable
from tests.mesh.nats_server import CLUSTER, Server


async def open_log(server: Server, max_bytes: int = 1 << 20) -> JetStreamLog:
    log = JetStreamLog(await connect(server, "scheduler"), CLUSTER, max_bytes)
    await log.open(may_make=True)
    return log


async def connect(server: Server, who: str) -> Requests:
    """Return a connection with its callbacks, as the daemon makes it."""
    requests = Requests(Connection())

    async def on_error(error: Exception) -> None:
        await requests.on_error(error)

    async def on_lost() -> None:
        await requests.on_lost()

    requests.connection = await server.connect(who, error_cb=on_error, disconnected_cb=on_lost)
    return requests


async def contents(log: JetStreamLog, seq: int = 1) -> list[tuple[int, bytes]]:
    return [entry async for batch in log.read_from(seq) for entry in batch]


async def test_append_read_trim(server: Server) -> None:
    log = await open_log(server)
    assert await contents(log) == []
    for tail in range(600):
        assert await log.append_at(tail, b"e%d" % tail, f"1-{tail}") == tail + 1
    assert await contents(log) == [(n + 1, b"e%d" % n) for n in range(600)]
    assert await contents(log, 599) == [(599, b"e598"), (600, b"e599")]
    assert await contents(log, 601) == []
    await log.trim(590)
    assert [seq for seq, _ in await contents(log, 1)] == list(range(591, 601))
    assert await log.append_at(600, b"after", "1-600") == 601
    await log.trim(601)
    assert await contents(log, 602) == []
    assert await log.append_at(601, b"x", "1-601") == 602


async def test_two_readers_of_one_stream_do_not_end_each_other(server: Server) -> None:
    await fill(await open_log(server))
    readers = [
        JetStreamLog(await connect(server, "scheduler"), CLUSTER, 1 << 20, f"read-{name}")
        for name in "ab"
    ]
    first, second = (reader.read_from(1) for reader in readers)
    found: list[int] = []
    async for batch in first:
        found += [seq for seq, _ in batch]
        assert len(await anext(second)) > 0
    assert found == list(range(1, 601))


async def fill(log: JetStreamLog) -> None:
    for tail in range(600):
        await log.append_at(tail, b"e%d" % tail, f"1-{tail}")


async def test_large_entries_come_back_in_several_fetches(server: Server) -> None:
    log = await open_log(server, 16 << 20)
    for tail in range(40):
        await log.append_at(tail, bytes([tail]) * 250_000, f"1-{tail}")
    assert [(seq, data[0]) for seq, data in await contents(log)] == [(n + 1, n) for n in range(40)]


async def test_only_one_of_many_writers_wins_each_place(server: Server) -> None:
    logs = [await open_log(server) for _ in range(4)]
    for tail in range(20):
        results = await asyncio.gather(
            *(log.append_at(tail, b"w%d" % n, f"{n}-{tail}") for n, log in enumerate(logs)),
            return_exceptions=True,
        )
        assert sum(isinstance(result, int) for result in results) == 1
        assert sum(isinstance(result, WrongTail) for result in results) == 3
    assert len(await contents(logs[0])) == 20


async def test_a_full_log_says_so_and_takes_entries_again_after_a_trim(server: Server) -> None:
    log = await open_log(server, 200_000)
    tail = 0
    with pytest.raises(LogFull, match="maximum bytes"):
        while True:
            tail = await log.append_at(tail, b"x" * 10_000, f"1-{tail}")
    assert 15 < tail < 20
    assert len(await contents(log)) == tail
    await log.trim(tail - 1)
    assert await log.append_at(tail, b"x" * 10_000, "again") == tail + 1


async def test_a_refused_publish_is_denied_by_name(server: Server) -> None:
    log = JetStreamLog(await connect(server, "node1"), CLUSTER)
    with pytest.raises(Denied, match=r"(?i)permissions violation"):
        await log.open(may_make=True)
    log_of_scheduler = await open_log(server)
    with pytest.raises(Denied, match=r"(?i)permissions violation"):
        await log.append_at(0, b"x", "1-0")
    assert await contents(log_of_scheduler) == []


async def test_the_log_of_another_cluster_is_refused(server: Server) -> None:
    await open_log(server)
    other = JetStreamLog(await connect(server, "scheduler"), "another", 1 << 20)
    with pytest.raises(Corrupt, match=f"belongs to cluster {CLUSTER}"):
        await other.open(may_make=True)


async def test_a_new_size_is_taken_over(server: Server) -> None:
    log = await open_log(server, 1 << 20)
    await log.append_at(0, b"x", "1-0")
    log = await open_log(server, 2 << 20)
    assert await log.append_at(1, b"y" * 200_000, "1-1") == 2
    assert len(await contents(log)) == 2


async def test_a_sealed_log_takes_nothing(server: Server) -> None:
    log = await open_log(server)
    await log.append_at(0, b"x", "1-0")
    await log.seal()
    with pytest.raises(Denied, match="sealed"):
        await log.append_at(1, b"y", "1-1")
    assert await contents(log) == [(1, b"x")]


async def test_without_a_server_the_outcome_is_unknown(server: Server) -> None:
    log = await open_log(server)
    server.stop()
    with pytest.raises(OutcomeUnknown):
        await log.append_at(0, b"x", "1-0")
    with pytest.raises((Unavailable, LogGap)):
        await contents(log)


async def test_a_timed_out_append_is_not_sent_after_a_reconnect(server: Server) -> None:
    """The connection has no reconnect buffer, from which nats-py would append the entry later."""
    log = await open_log(server)
    await log.append_at(0, b"first", "1-0")
    server.kill()
    with pytest.raises(OutcomeUnknown):
        await log.append_at(1, b"zombie", "1-1")
    server.start()
    log = await reopened(server)
    assert await contents(log) == [(1, b"first")]


async def test_kill_9_in_an_append_loop_loses_nothing_acknowledged(server: Server) -> None:
    acknowledged: dict[int, bytes] = {}
    unknown: dict[int, bytes] = {}
    log = await open_log(server)
    tail = 0
    for round_ in range(4):
        killer: asyncio.TimerHandle | None = None
        try:
            for n in range(100_000):
                if n == 30:  # counted in appends, not in time: a busy machine makes few
                    killer = asyncio.get_running_loop().call_later(0.05, server.kill)
                data = b"%d-%d" % (round_, n)
                tail = await log.append_at(tail, data, data.decode())
                acknowledged[tail] = data
        except OutcomeUnknown:
            unknown[tail + 1] = data
        assert killer is not None
        killer.cancel()
        server.start()
        log = await reopened(server)
        found = dict(await contents(log))
        assert all(found[seq] == data for seq, data in acknowledged.items())
        extra = found.keys() - acknowledged.keys()
        assert all(unknown.get(seq) == found[seq] for seq in extra)
        acknowledged.update(found)
        tail = len(found)
    assert len(acknowledged) > 100


async def reopened(server: Server) -> JetStreamLog:
    for _ in range(100):
        with contextlib.suppress(Unavailable, Corrupt):
            return await open_log(server)
        await asyncio.sleep(0.05)
    raise AssertionError(server.log())


async def test_nothing_is_left_behind_by_reading(server: Server) -> None:
    log = await open_log(server)
    await log.append_at(0, b"x", "1-0")
    for _ in range(20):
        await contents(log)
    nc: Connection = server.connections[0]
    await nc.flush()
    info = await nc.request(f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}", b"", timeout=60)
    assert b'"consumer_count":0' in info.data
