# SPDX-License-Identifier: Apache-2.0
"""Spooled output at a real server: any byte by its offset, pieces that came twice, pieces that are
gone, and who may write where."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace
from nats.aio.client import Client as Connection

from stoker.mesh.broker.spool_bounds import SpoolBounds
from stoker.mesh.connection.requests import Requests
from stoker.mesh.server.spool_owner import SpoolOwner
from stoker.mesh.server.spooled_output import SpooledOutput, SpooledPart
from stoker.mesh.wire import output_spool, subjects
from stoker.mesh.wire.output_spool import STREAM, OutputPiece, SpoolConfig
from stoker.scheduler.book import Job, encode_spec
from stoker.scheduler.nouns import JobSpec, Owner, TaskKey
from tests.mesh.nats_server import Server, settle

KEY = TaskKey(7, 1, 0, 5)
WORDS = b"".join(b"line %d\n" % number for number in range(40))
SPEC = encode_spec(JobSpec(("true",), env={output_spool.VARIABLE: "4096"}))
JOB = Job(7, Owner("ann", 1, 1), SPEC, 1, state="running")


class Bed:
    """A server with the stream, a node that writes and a scheduler that reads."""

    def __init__(self, node: Connection, scheduler: Connection) -> None:
        self.node = node
        self.reader = SpooledOutput(scheduler)

    async def put(self, key: TaskKey, offset: int, data: bytes, *, over: bool = False) -> None:
        piece = OutputPiece(offset, data, 0, len(WORDS), 4096, over)
        subject = subjects.spooled_output("node1", key, "out")
        answer = await self.node.request(subject, output_spool.encode(piece))
        assert b"seq" in answer.data, answer.data

    async def read(self, offset: int, limit: int = 100_000) -> SpooledPart | None:
        return await self.reader.read("node1", KEY, "out", offset, limit)

    async def all(self) -> bytes:
        data, offset = b"", 0
        while True:
            part = await self.read(offset)
            assert part is not None
            data, offset = data + part.data, part.next_offset
            if part.over:
                return data


@pytest.fixture
async def bed(server: Server) -> Bed:
    scheduler = await server.connect("scheduler")
    owner = SpoolOwner(Requests(scheduler), lambda: 1, SpoolBounds())
    owner.begin([JOB])
    await owner.look()
    return Bed(await server.connect("node1"), scheduler)


async def test_any_byte_is_found_among_the_pieces_of_others(bed: Bed) -> None:
    assert await bed.read(0) is None
    for at in range(0, len(WORDS), 10):
        await bed.put(KEY, at, WORDS[at : at + 10], over=at + 10 >= len(WORDS))
        await bed.put(TaskKey(8, 1, 0, 5), at, b"of others!")
    assert await bed.all() == WORDS
    for offset in (0, 1, 9, 10, 155, len(WORDS) - 1):
        part = await bed.read(offset, 3)
        assert part is not None
        assert part.data == WORDS[offset : offset + 3][: len(part.data)] and part.data
        assert part.next_offset == offset + len(part.data)
    end = await bed.read(len(WORDS))
    words = f"all {len(WORDS)} bytes of stdout were spooled"
    assert end == SpooledPart(b"", len(WORDS), True, words, False)


async def test_a_piece_that_came_twice_is_read_once(bed: Bed) -> None:
    await bed.put(KEY, 0, WORDS[:20])
    await bed.put(KEY, 20, WORDS[20:40])
    await bed.put(KEY, 20, WORDS[20:60])  # its answer was lost, and more had come meanwhile
    await bed.put(KEY, 60, WORDS[60:], over=True)
    assert await bed.all() == WORDS
    for offset in range(0, len(WORDS), 7):
        part = await bed.read(offset, 1)
        assert part is not None and part.data == WORDS[offset : offset + 1]


async def test_a_discarded_start_is_told(bed: Bed) -> None:
    await bed.put(KEY, 30, WORDS[30:60])
    await bed.put(KEY, 60, WORDS[60:], over=True)
    part = await bed.read(0)
    assert part is not None and (part.data, part.next_offset) == (WORDS[30:60], 60)
    end = await bed.read(60)
    assert end is not None and end.lacks
    assert "the first 30 of them were discarded since" in end.said


async def test_a_node_writes_under_its_own_name_alone(bed: Bed, server: Server) -> None:
    subject = subjects.spooled_output("node2", KEY, "out")
    await bed.node.publish(subject, b"forged")
    await settle(bed.node)
    assert any(subject.lower() in each.lower() for each in server.errors)
    assert await bed.reader.read("node2", KEY, "out", 0, 10) is None


async def test_without_a_job_that_asked_there_is_no_stream(server: Server) -> None:
    scheduler = await server.connect("scheduler")
    owner = SpoolOwner(Requests(scheduler), lambda: 1, SpoolBounds())
    owner.begin([replace(JOB, spec=encode_spec(JobSpec(("true",))))])
    await owner.look()
    info = await scheduler.request(f"$JS.API.STREAM.INFO.{STREAM}", b"")
    assert b"stream not found" in info.data
    assert await SpooledOutput(scheduler).read("node1", KEY, "out", 0, 10) is None


async def test_other_bounds_are_corrected(bed: Bed, server: Server) -> None:
    scheduler = await server.connect("scheduler")
    other = SpoolConfig(max_bytes=1 << 20, max_age=3_600_000_000_000)
    await scheduler.request(f"$JS.API.STREAM.UPDATE.{STREAM}", msgspec.json.encode(other))
    owner = SpoolOwner(Requests(scheduler), lambda: 1, SpoolBounds(bytes=200 << 20, days=2))
    owner.begin([JOB])
    await owner.look()
    info = await scheduler.request(f"$JS.API.STREAM.INFO.{STREAM}", b"")
    found = msgspec.json.decode(info.data)["config"]
    assert (found["max_bytes"], found["max_age"]) == (200 << 20, 2 * 86_400 * 10**9)
