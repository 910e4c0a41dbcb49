# SPDX-License-Identifier: Apache-2.0
"""The streams against the real server: made, made again, corrected or named as wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from stoker.mesh.connection.requests import Requests
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.telemetry.stream_owner import StreamOwner
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry_streams import KINDS, STREAM_BYTES, STREAMS, config_of, stream_of
from stoker.native.errors import Unavailable
from tests.mesh.nats_server import CLUSTER, Server, settle
from tests.mesh.several_brokers import joined


async def owner_at(server: Server) -> StreamOwner:
    return StreamOwner(Requests(await server.connect("scheduler")))


async def call(owner: StreamOwner, name: str, body: Any) -> dict[str, Any]:
    data = await owner._requests.request(f"$JS.API.{name}", msgspec.json.encode(body), 2.0)
    answer: dict[str, Any] = json.loads(data)
    return answer


async def holds(owner: StreamOwner, messages: int) -> None:
    """Wait until the stream of decisions has taken in so many messages."""
    while (await owner.figures_now(stream_of("decisions"))).messages != messages:
        continue


async def test_all_streams_are_made_once_in_memory(server: Server) -> None:
    owner = await owner_at(server)
    await owner.look()
    assert (owner.problems, owner.made, set(owner.figures)) == ({}, len(STREAMS), set(KINDS))
    for stream in STREAMS:
        found = await call(owner, f"STREAM.INFO.{stream.name}", {})
        assert found["config"]["storage"] == "memory" and found["config"]["num_replicas"] == 1
        assert found["config"]["max_bytes"] == STREAM_BYTES
    await owner.look()
    assert (owner.made, owner.corrected) == (len(STREAMS), 0)


async def test_two_looks_at_once_make_each_stream_once(server: Server) -> None:
    owner = await owner_at(server)
    await asyncio.gather(owner.look(), owner.look())
    assert (owner.problems, owner.made, owner.corrected) == ({}, len(STREAMS), 0)


async def test_streams_are_there_and_empty_after_a_restart_of_the_broker(server: Server) -> None:
    owner = await owner_at(server)
    await owner.look()
    await owner._requests.connection.publish(subjects.decisions("alice"), b"x")
    await holds(owner, 1)
    server.kill()
    server.start()
    owner = await owner_at(server)
    await owner.look()
    assert owner.problems == {} and set(owner.figures) == set(KINDS)
    assert owner.figures["decisions"].messages == 0
    await owner._requests.connection.publish(subjects.decisions("alice"), b"y")
    await holds(owner, 1)


async def test_a_stream_with_other_bounds_is_corrected(server: Server) -> None:
    owner = await owner_at(server)
    stream = stream_of("events")
    other = msgspec.to_builtins(config_of(stream)) | {"max_bytes": 1 << 20, "max_age": 10**10}
    await call(owner, f"STREAM.CREATE.{stream.name}", other)
    await owner.look()
    assert (owner.problems, owner.corrected) == ({}, 1)
    found = await call(owner, f"STREAM.INFO.{stream.name}", {})
    assert found["config"]["max_bytes"] == STREAM_BYTES


async def test_a_stream_in_files_is_refused_with_one_line(server: Server) -> None:
    owner = await owner_at(server)
    stream = stream_of("events")
    filed = msgspec.to_builtins(config_of(stream)) | {"storage": "file"}
    await call(owner, f"STREAM.CREATE.{stream.name}", filed)
    await owner.look()
    assert list(owner.problems) == ["events"] and "events" not in owner.figures
    assert owner.problems["events"].startswith(
        "TELEMETRY_events exists with other settings (storage) that JetStream does not change: "
    )
    assert len(owner.figures) == len(STREAMS) - 1


async def test_a_stream_that_is_not_there_has_no_figures(server: Server) -> None:
    owner = await owner_at(server)
    with pytest.raises(Unavailable, match="events are not kept: stream not found"):
        await owner.figures_now(stream_of("events"))


async def test_a_flood_discards_the_oldest_and_the_log_goes_on(server: Server) -> None:
    """The streams are full up to their bounds, and the log still takes and reads entries."""
    owner = await owner_at(server)
    await owner.look()
    log = JetStreamLog(Requests(await server.connect("scheduler")), CLUSTER, 1 << 20)
    await log.open(may_make=True)
    nc = owner._requests.connection
    message, tail = b"x" * 200_000, 0
    flooded = (subjects.decisions, subjects.outcomes, subjects.job_events)
    for number in range(3 * STREAM_BYTES // len(message) // 2):
        for subject in flooded:
            await nc.publish(subject("alice"), message)
        if number % 20 == 0:
            await settle(nc)
            tail = await log.append_at(tail, b"entry %d" % number, f"name-{number}")
    for kind in ("decisions", "outcomes", "events"):
        while (found := await owner.figures_now(stream_of(kind))).last_seq <= number:
            continue
        assert 0.9 * STREAM_BYTES < found.bytes <= STREAM_BYTES and found.first_seq > 1
    kept = [entry async for batch in log.read_from(1) for entry in batch]
    assert len(kept) == tail > 10


@pytest.fixture
async def brokers(stopped_server: Server) -> AsyncIterator[list[Server]]:
    servers = joined(stopped_server, 3)
    try:
        for each in servers:
            each.start()
        yield servers
    finally:
        for each in servers:
            await each.close_connections()
            each.stop()


async def test_a_stream_whose_broker_died_is_made_at_another_one(brokers: list[Server]) -> None:
    owner = await owner_at(brokers[0])
    await owner.look()
    while owner.problems:  # until the brokers have found each other
        await owner.look()
    there = {kind: (await place(owner, kind)) for kind in KINDS}
    others = [each for each in brokers[1:] if each.settings.server_name in there.values()]
    if not others:
        pytest.skip("all five streams are at the first broker, which is rare")
    victim, made = others[0], owner.made
    victim.kill()
    lost = {kind for kind, name in there.items() if name == victim.settings.server_name}
    await owner.look()
    assert {owner.problems[kind] for kind in lost} == {"its broker does not answer"}
    while owner.problems:
        await owner.look()
    assert owner.made == made + len(lost) and set(owner.figures) == set(KINDS)
    assert victim.settings.server_name not in {await place(owner, kind) for kind in lost}
    victim.start()  # it has forgotten what it held
    for _ in range(3):
        await owner.look()
    assert (owner.problems, owner.corrected) == ({}, 0)


async def place(owner: StreamOwner, kind: str) -> str:
    """Return the broker that holds a stream."""
    found = await call(owner, f"STREAM.INFO.{stream_of(kind).name}", {})
    leader: str = found["cluster"]["leader"]
    return leader
