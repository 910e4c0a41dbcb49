# SPDX-License-Identifier: Apache-2.0
"""A host dies with its disks: what its jobs had spooled is read from the brokers that are left, and
a job that had asked for no spool is told how to ask."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from fakes.servers import Servers, founded
from nats.aio.client import Client as Connection
from nats.errors import NoRespondersError

from stoker.mesh.wire import output_spool, schema, subjects
from stoker.mesh.wire.output_spool import STREAM, OutputPiece
from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import NODES, Server

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
LINES = 30_000
WAITS = "while :; do sleep 0.05; done"
WRITES = f"seq 1 {LINES}; echo careful >&2; {WAITS}"
WRITTEN = b"".join(b"%d\n" % number for number in range(1, LINES + 1))


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Servers]:
    async with founded(tmp_path, NODES, labels={name: (f"host={name}",) for name in NODES}) as made:
        yield made


async def pieces(nc: Connection, job: int, rank: int, stream: str) -> list[OutputPiece]:
    """All pieces of one stream of a job's first attempt, wherever it ran."""
    subject = f"stoker.v1.output.*.{job}.1.{rank}.*.{stream}"
    found: list[OutputPiece] = []
    seq = 1
    while True:
        request = msgspec.json.encode({"seq": seq, "next_by_subj": subject})
        answer = await nc.request(f"$JS.API.DIRECT.GET.{STREAM}", request, timeout=5)
        headers = answer.headers or {}
        if "Nats-Sequence" not in headers:
            return found
        found.append(output_spool.decode(answer.data))
        seq = int(headers["Nats-Sequence"]) + 1


async def until_spooled(nc: Connection, job: int, rank: int, stream: str, data: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                found = await pieces(nc, job, rank, stream)
            except NoRespondersError:  # the stream is made when the first job asks for it
                found = []
            if b"".join(each.data for each in found) == data:
                return
            await asyncio.sleep(0.1)


async def read(servers: Servers, job: int, stream: str, rank: int = 0) -> list[schema.LogsView]:
    """All pieces that a reader gets, up to the last one."""
    views: list[schema.LogsView] = []
    while not views or not views[-1].eof:
        offset = views[-1].next_offset if views else 0
        views.append(
            await servers.persist(
                "alice", "job", "logs", job=job, stream=stream, offset=offset, rank=rank
            )
        )
    return views


def to_lose(servers: Servers) -> tuple[str, Server]:
    """A node whose own server neither leads nor takes the requests of this test, with that."""
    beside = servers.servers_from(servers.leader().server)
    pairs = list(zip(NODES, beside, strict=True))[1:]
    return next(each for each in pairs if each[1] is not servers.server)


def kill_host(servers: Servers, lost: str, beside: Server) -> None:
    """End all of the host as a power failure would, and take its disks.

    Its agent is stopped, not ended: the kernel that all hosts of this test share would refuse the
    pings of others, as that of a dead host does not.
    """
    node = next(each for each in servers.nodes if each.name == lost)
    node.processes["agent"].send_signal(signal.SIGSTOP)
    for name in ("watchdog", "spawner"):
        node.kill(name)
    shutil.rmtree(node.state.agent / "jobs")
    next(each for each in servers.schedulers if each.server is beside).kill()
    beside.kill()
    shutil.rmtree(beside.settings.store_dir)


async def test_spooled_output_outlives_its_host(servers: Servers) -> None:
    lost, beside = to_lose(servers)
    here = {"require": (f"host={lost}",), "spool_output_bytes": 1 << 20}
    sh = ("/bin/sh", "-c")
    kept = await servers.submit(*sh, WRITES, **here)
    few_bytes = here | {"spool_output_bytes": 1024}
    short = await servers.submit(*sh, f"seq 1 {LINES}; {WAITS}", **few_bytes)
    plain = await servers.submit(*sh, f"echo unkept; {WAITS}", require=here["require"])
    gang = await servers.submit(
        *sh, f"echo rank $STOKER_RANK; {WAITS}", tasks=3, tasks_per_node=1, spool_output_bytes=4096
    )
    for job in (kept, short, plain, gang):
        await servers.until_state(job, "running")
    view = await servers.persist("alice", "job", "get", job=gang)
    rank = next(each.rank for each in view.ranks if each.node == lost)

    nc = await servers.server.connect("s1", inbox_prefix=subjects.inbox("scheduler").encode())
    await until_spooled(nc, kept, 0, "out", WRITTEN)
    await until_spooled(nc, kept, 0, "err", b"careful\n")
    await until_spooled(nc, short, 0, "out", WRITTEN[:1024])
    await until_spooled(nc, gang, rank, "out", b"rank %d\n" % rank)
    alive = await read_now(servers, kept)
    assert alive.data and not alive.spooled, "its node is asked while it answers"

    kill_host(servers, lost, beside)
    for job in (kept, short, plain, gang):
        await servers.until_state(job, *ENDED)
    found = await read(servers, kept, "out")
    assert b"".join(each.data for each in found) == WRITTEN
    said = found[-1].spooled
    assert said.startswith(f"node {lost} is given up; the first {len(WRITTEN):,} bytes of stdout")
    assert said.endswith("what it wrote after that may be missing") and found[-1].lacks
    assert (await read(servers, kept, "err"))[-1].data == b"careful\n"
    (few,) = await read(servers, short, "out")
    assert few.data == WRITTEN[:1024]
    beyond = len(WRITTEN) - 1024
    said = few.spooled
    assert f"the limit of its --spool-output; at least {beyond:,} bytes more are lost" in said
    (of_rank,) = await read(servers, gang, "out", rank)
    assert of_rank.data == b"rank %d\n" % rank

    (gone,) = await read(servers, plain, "out")
    assert not gone.data and not gone.spooled
    assert "is given up" in gone.absent
    assert "Submit with --spool-output to keep output with the cluster as well" in gone.absent


async def read_now(servers: Servers, job: int) -> schema.LogsView:
    view: schema.LogsView = await servers.persist("alice", "job", "logs", job=job)
    return view
