# SPDX-License-Identifier: Apache-2.0
"""Tracing switched in running jobs, an agent killed in the middle of it, and a job that means harm.

The jobs check themselves (chain.c) or do what they can against their own trace (scribble.c).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import NotFound
from tests.probes.segment_view import COUNTED, MODES, SegmentView
from tests.rounds import rounds

pytestmark = pytest.mark.needs_root

SWITCHES = rounds(200, 10_000)
FLOOD = """
import os
os.chdir(os.environ["STOKER_TRACE_DIR"])
for number in range(20_000):
    os.close(os.open(f"7-7-{number}.seg", os.O_CREAT | os.O_WRONLY))
    os.truncate(f"7-7-{number}.seg", 1)
for _ in range(1500):
    os.mkdir("deeper")
    os.chdir("deeper")
"""
"""Files without number that are no segments, and folders deeper than any path."""
HARM_S = 4


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here, so that the driver's compiled kernels are kept for them."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def programs(public_folder: Path) -> Path:
    """A folder with the programs of these tests."""
    for name in ("chain", "scribble", "launches"):
        source = Path(__file__).with_name(f"{name}.c")
        argv = ["gcc", "-O2", "-o", str(public_folder / name), str(source), "-lOpenCL", "-lpthread"]
        subprocess.run(argv, check=True)
    return public_folder


@contextmanager
def chained(node: LiveNode, programs: Path, trace: str) -> Iterator[tuple[int, Path]]:
    """A job that checks itself until the file is made; it is, at the latest here."""
    stop = programs / f"stop-{time.monotonic_ns()}"
    job = node.submit(str(programs / "chain"), str(stop), gpu_milli=1000, trace=trace, name="chain")
    try:
        wait_until(lambda: seen(node, job), "a tracer of the job is seen", 60)
        yield job, stop
    finally:
        stop.touch()
        node.wait(job)


def seen(node: LiveNode, job: int) -> bool:
    try:
        return bool(node.ask(lambda client: client.tracing(schema.TracingRequest(job=job))).tracers)
    except NotFound:
        return False


def result(node: LiveNode, job: int, stop: Path) -> dict[str, int]:
    """The job's own result, once it is allowed to end."""
    stop.touch()
    view = node.wait(job)
    said = node.output(job).decode().splitlines()[-1].split()
    assert view.state == "succeeded", (said, node.output(job, "err").decode())
    return dict(zip(said[::2], map(int, said[1::2]), strict=True))


async def switch(client: Client, job: int, mode: schema.Steered) -> int:
    """Have the tracers of a job in this mode; how often they have switched so far.

    On a machine that is busy with other things the governor may take away what was asked for.
    """
    await client.tracing(schema.TracingRequest(job=job, do="mode", mode=mode))
    for _ in range(1000):
        view = await client.tracing(schema.TracingRequest(job=job))
        wanted = view.wanted if mode == "governed" else mode
        if view.mode == mode and view.tracers and all(t.mode == wanted for t in view.tracers):
            return sum(each.switches for each in view.tracers)
        await asyncio.sleep(0.005)
    pytest.fail(f"not {mode} within 5 s: {view}")


@pytest.mark.rounds
def test_many_switches_change_no_result(node: LiveNode, programs: Path) -> None:
    order: tuple[schema.Steered, ...] = ("dormant", "full", "governed", "full")

    async def all_of_them(client: Client) -> int:
        return [await switch(client, job, order[i % 4]) for i in range(SWITCHES)][-1]

    with chained(node, programs, "full") as (job, stop):
        switches = node.ask(all_of_them)
        found = result(node, job, stop)
    assert found["wrong"] == 0
    assert found["rounds"] > SWITCHES // 10
    assert switches >= SWITCHES - 1  # the first may have been what it was
    trace = node.wait(job, trace=True).trace
    assert trace is not None
    counts = trace["records"]
    assert counts["made"] == counts["folded"] + counts["dropped"] > 0
    for device in trace["devices"]:
        assert sum(device["causes"].values()) == device["window_ns"]


def segment_of(node: LiveNode, job: int) -> SegmentView:
    """The segment of a job's only process."""
    (folder,) = (path for path in node.state.shm.glob(f"{job}*") if path.is_dir())
    return SegmentView(folder)


@contextmanager
def stopped_supervisor(node: LiveNode) -> Iterator[None]:
    """Nobody starts the agent again meanwhile."""
    pid = int(node.state.lock.read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_tracers_fall_silent_when_the_agent_is_killed(node: LiveNode, programs: Path) -> None:
    with chained(node, programs, "governed") as (job, stop):
        ask = schema.TracingRequest(job=job, do="open", mode="full", seconds=60, window=1)
        node.ask(lambda client: client.tracing(ask))
        segment = segment_of(node, job)
        wait_until(lambda: segment.mode == MODES["full"], "the window is open")
        with stopped_supervisor(node):
            old = node.kill("agent")
            wait_until(lambda: segment.phase == COUNTED, "the tracer times nothing")
            assert time.monotonic_ns() >= segment.lease_ns
            assert pids.find(node.state).get("agent") is None
        node.wait_for_new("agent", old)
        assert node.ask(lambda client: client.get(job)).state == "running"
        wait_until(lambda: segment.mode == MODES["governed"], "the new agent's tracing", 30)
        found = result(node, job, stop)
    assert found["wrong"] == 0


def test_a_dormant_tracer_sees_nothing(node: LiveNode, programs: Path) -> None:
    with chained(node, programs, "full") as (job, stop):
        node.ask(lambda client: switch(client, job, "dormant"))
        segment = segment_of(node, job)
        time.sleep(0.2)  # calls that had begun
        before = segment.counter("launches"), segment.counter("tracer_ns")
        time.sleep(0.5)
        after = segment.counter("launches"), segment.counter("tracer_ns")
        found = result(node, job, stop)
    assert found["wrong"] == 0
    assert before == after


def summary(node: LiveNode, job: int) -> dict[str, Any]:
    found = node.wait(job, trace=True)
    assert found.trace is not None, (found.state, found.reason, found.trace_absent)
    trace: dict[str, Any] = found.trace
    return trace


def test_a_job_that_scribbles_harms_itself_alone(node: LiveNode, programs: Path) -> None:
    agent = pids.find(node.state)["agent"].pid
    harmful = [
        node.submit(
            str(programs / "scribble"), str(HARM_S), str(seed), trace="full", gpu_milli=milli
        )
        for seed, milli in ((1, 300), (2, 300))
    ]
    flood = node.submit(sys.executable, "-c", FLOOD, trace="full", gpu_milli=100)
    good = node.submit(
        str(programs / "launches"), "500", "500", "1000", trace="full", gpu_milli=300
    )
    for job in (flood, *harmful):
        trace = node.wait(job, trace=True).trace
        assert trace is not None
        lost = {counter: count for counter, count in trace["loss"].items() if count}
        assert lost, "the agent says what it lost"
        for device in trace["devices"]:
            assert sum(device["causes"].values()) == device["window_ns"]
    assert summary(node, flood)["loss"]["segments_damaged"] == 1024
    trace = summary(node, good)
    kernels = {row["name"]: row["count"] for row in trace["kernels"]}
    assert kernels == {"grind": 500, "touch": 500} or trace["coverage"]["dormant_ns"]
    wait_until(lambda: not any(node.state.shm.glob("[0-9]*")), "what they left is removed", 60)
    assert pids.find(node.state)["agent"].pid == agent, "the agent stayed up"
