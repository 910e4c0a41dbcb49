# SPDX-License-Identifier: Apache-2.0
"""A log far smaller than what goes through it: snapshots and trims happen again and again, and a
restart still knows every job and every idempotency key.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from product_node import LiveNode, live_node, plain_connection, wait_until

from stoker.mesh.audit.trail import Trail
from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.wire import schema, subjects
from stoker.native.paths import program

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

JOBS = 3000
IN_FLIGHT = 64
LOG_BYTES = 512 * 1024
"""A quarter of it makes a snapshot due: 128 KiB, or about 300 jobs."""
ALWAYS_KEPT = 100
"""The newest of them, which nobody may have forgotten."""


def requests(noop: str) -> list[schema.JobRequest]:
    return [
        schema.JobRequest(argv=(noop, str(index)), idempotency_key=f"retention-{index}")
        for index in range(JOBS)
    ]


async def submit_all(state: Path, wanted: list[schema.JobRequest]) -> list[int]:
    """The numbers of these jobs; when it returns all are over."""
    gate = asyncio.Semaphore(IN_FLIGHT)
    async with Client.open(str(state), patience_s=60) as client:

        async def one(request: schema.JobRequest) -> int:
            async with gate:
                return (await client.submit(request)).job

        jobs = await asyncio.gather(*(one(request) for request in wanted))
        for job in jobs[-IN_FLIGHT:]:
            await client.wait(job)
    return list(jobs)


def trims(node: LiveNode) -> list[int]:
    """Positions to which the log was trimmed, from the scheduler's log file."""
    text = (node.state.log / "scheduler.log").read_text()
    lines = [line for line in text.splitlines() if '"log trimmed"' in line]
    return [int(found[1]) for line in lines if (found := re.search(r'"seq": (\d+)', line))]


async def stored(node: LiveNode) -> tuple[int, int]:
    """First sequence and bytes of the stream; only the scheduler's key may ask."""
    inbox = subjects.inbox("scheduler").encode()
    at = replace(context.find(str(node.root)), seed_file=node.state.key("scheduler"))
    connection = await plain_connection(at, inbox_prefix=inbox)
    answer = await connection.request(f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}", b"", timeout=60)
    await connection.close()
    info = json.loads(answer.data)
    assert info["config"]["max_bytes"] == LOG_BYTES
    return info["state"]["first_seq"], info["state"]["bytes"]


def check_archive(node: LiveNode) -> None:
    """Every entry up to the newest trim of a stopped node is archived, once and in the chain."""
    seen = trims(node)
    assert len(seen) >= 2 and seen == sorted(set(seen)), seen
    archive = LogArchive(node.state.root / "scheduler" / "archive")
    assert archive.first_index() == 1
    kept = [seq for seq, _ in archive.entries()]
    assert kept == list(range(1, seen[-1] + 1))
    trail = Trail()
    for place, data in archive.entries():
        trail.take(place, data)
    assert trail.index == seen[-1] and not trail.passed


def test_thousands_of_jobs_through_a_small_log_and_a_restart(public_folder: Path) -> None:
    noop = str(shutil.copy(program("stoker-bench-noop"), public_folder / "noop"))
    wanted = requests(noop)
    with live_node(STOKER_SCHEDULER_LOG_MAX_BYTES=str(LOG_BYTES)) as node:
        jobs = asyncio.run(submit_all(node.root, wanted))
        assert len(set(jobs)) == JOBS
        # The last snapshots end after the last job, so the log is read until no trim is under way.
        wait_until(
            lambda: asyncio.run(stored(node))[0] - 1 in trims(node)[-1:], "no trim is under way"
        )
        assert asyncio.run(stored(node))[1] <= LOG_BYTES

        before = node.jobs()
        node.stoker("down")
        check_archive(node)
        node.stoker("up")
        assert node.jobs() == before
        again = asyncio.run(submit_all(node.root, wanted[-ALWAYS_KEPT:]))
        assert again == jobs[-ALWAYS_KEPT:]
        assert node.jobs() == before
        states = {job: node_state for job, node_state in states_of(node).items() if job in again}
        assert states == dict.fromkeys(again, ("succeeded", 0))
        assert node.run(noop).job == max(jobs) + 1


def states_of(node: LiveNode) -> dict[int, tuple[str, int | None]]:
    request = schema.ListRequest(limit=schema.LIST_MAX)

    async def question(client: Client) -> dict[int, tuple[str, int | None]]:
        return {job.job: (job.state, job.exit_code) async for job in client.list_all(request)}

    return node.ask(question)
