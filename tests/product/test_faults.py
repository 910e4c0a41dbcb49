# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process of a node while jobs run: nothing is lost, nothing runs twice.

Jobs, of which half have 5 milli-shares of a device, write 5 MB a minute each and end at random: 50
here, and 200, which write 1 GB a minute together, in `make soak`. Each of the six processes is
killed while they run; the supervisor's death is answered with a second `up`, which adopts what
still lives.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from product_node import LiveNode, live_node

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from tests.rounds import rounds

JOBS = rounds(50, 200)
SEED = 20
BYTES_A_SECOND = 5_000_000 // 60
VICTIMS = ("agent", "spawner", "watchdog", "scheduler", "nats-server", "supervisor")

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def pattern(index: int, count: int) -> bytes:
    at = np.arange(count, dtype=np.uint64)
    return bytes(((at * 31 + index * 7 + (at >> 12)) & 255).astype(np.uint8).tobytes())


def requests(program: Path, folder: Path) -> list[schema.JobRequest]:
    chance = random.Random(SEED)
    made = []
    for index in range(JOBS):
        seconds = chance.uniform(8, 18)
        count = int(seconds * BYTES_A_SECOND)
        words = (str(folder), str(index), str(count), str(int(seconds * 1000)), str(index % 40))
        made.append(
            schema.JobRequest(
                argv=(str(program), *words),
                gpu_milli=5 * (index % 2),
                device_kind="cpu",
                idempotency_key=f"fault-{index}",
            )
        )
    return made


async def submit_all(node: LiveNode, wanted: list[schema.JobRequest]) -> list[int]:
    async with Client.open(str(node.root)) as client:
        views = await asyncio.gather(*(client.submit(request) for request in wanted))
        for view in views:
            await client.wait(view.job, "running")
    return [view.job for view in views]


async def output_of(client: Client, job: int) -> bytes:
    pieces, offset = [], 0
    while True:
        piece = await client.logs(schema.LogsRequest(job=job, offset=offset))
        pieces.append(piece.data)
        offset = piece.next_offset
        if piece.eof:
            return b"".join(pieces)


async def collect(node: LiveNode, jobs: list[int]) -> list[tuple[schema.JobView, bytes]]:
    async with Client.open(str(node.root), patience_s=60) as client:
        ended = []
        for job in jobs:
            view = await client.wait(job)
            ended.append((view, await output_of(client, job)))
        return ended


@pytest.fixture(scope="module")
def worker(public_folder: Path) -> Path:
    source = Path(__file__).with_name("worker.c")
    program = public_folder / "worker"
    subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
    return program


@pytest.mark.rounds
def test_every_process_killed_once_costs_no_job_byte_or_status(
    worker: Path, public_folder: Path
) -> None:
    with live_node() as node:
        wanted = requests(worker, public_folder)
        jobs = asyncio.run(submit_all(node, wanted))
        for victim in VICTIMS:
            pid = node.kill(victim)
            if victim == "supervisor":
                assert "adopted" in node.stoker("up").stdout.decode()
            node.wait_for_new(victim, pid)
        ended = asyncio.run(collect(node, jobs))

    for index, (view, output) in enumerate(ended):
        count = int(wanted[index].argv[3])
        assert view.exit_code == index % 40, (index, view.state, view.reason)
        assert view.state == ("failed" if index % 40 else "succeeded"), index
        assert len(output) == count, index
        assert output == pattern(index, count), index
        assert (public_folder / f"{index}.runs").read_text() == "run\n", index
