# SPDX-License-Identifier: Apache-2.0
"""The causes of a device's time are those of a Python job, alone and beside busy neighbours.

The job (python_waits.py) measures its launching thread by the kernel's own clocks, so a busy
machine changes both sides and fails neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

pytestmark = pytest.mark.needs_root

PROGRAM = Path(__file__).with_name("python_waits.py").read_text()
ROUNDS = 60
POINTS = 0.05
"""The largest error of a cause, as a part of the job's time."""
NOT_OBSERVED = 0.01
SWITCH_NS = 40_000
"""The tolerance of test_accounting.py for each switch between threads."""
READ = {"direct", "cold"}
"""Ways in which the thread waits for a disk; in all others it waits for somebody else."""
BUSY = """import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end = time.monotonic() + 120
while time.monotonic() < end: pass
"""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        live.run(sys.executable, "-c", PROGRAM, "1", "sleep:1", gpu_milli=1000)
        yield live


@contextmanager
def neighbours() -> Iterator[None]:
    """One process on each CPU, outside of all jobs, that takes as much of it as it is given: half,
    where the job wants all."""
    with ExitStack() as stack:
        for cpu in os.sched_getaffinity(0):
            process = subprocess.Popen([sys.executable, "-c", BUSY, str(cpu)])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def run(node: LiveNode, mode: str, words: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the job says of itself, and its trace."""
    argv = (sys.executable, "-c", PROGRAM, str(ROUNDS), *words)
    job = node.submit(*argv, gpu_milli=1000, trace=mode)
    view = node.wait(job, trace=True)
    assert view.state == "succeeded" and view.trace is not None, node.output(job, "err").decode()
    return json.loads(node.output(job)), view.trace


def waited_ns(told: dict[str, Any], ways: set[str]) -> int:
    """Return the time in which the thread was neither on a CPU nor runnable."""
    phases = [phase for way, phase in told.items() if way in ways]
    return sum(each["wall_ns"] - each["cpu_ns"] - each["runnable_ns"] for each in phases)


def check(told: dict[str, Any], trace: dict[str, Any]) -> None:
    (device,) = trace["devices"]
    found, window_ns = device["causes"], device["window_ns"]
    assert sum(found.values()) == window_ns
    ways, last = set(told) - {"first", "last"}, told["last"]
    room = POINTS * window_ns + SWITCH_NS * last["switches"]
    host_ns = found["host_on_cpu_ns"] + found["host_paging_ns"]
    read_ns = waited_ns(told, ways & READ)
    said = f"found {found}\ntold {told}\nabsent {trace['absent']}, estimate {device['estimate']}"
    assert abs(found["host_runnable_ns"] - last["runnable_ns"]) <= room, said
    assert abs(found["host_blocked_ns"] - waited_ns(told, ways - READ)) <= room, said
    assert abs(host_ns - last["cpu_ns"] - read_ns) <= room, said
    assert found["host_paging_ns"] >= read_ns - room, said
    assert found["not_observed_ns"] <= NOT_OBSERVED * window_ns, said


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside"])
@pytest.mark.parametrize("mode", ["full", "governed"])
@pytest.mark.parametrize(
    "words",
    [["socket:10"], ["served:10"], ["gil:10"], ["direct:10"], ["cold:10"], ["work:5", "sleep:5"]],
    ids="+".join,
)
def test_the_causes_are_those_of_the_job(
    node: LiveNode, words: list[str], mode: str, beside: bool
) -> None:
    with ExitStack() as stack:
        if beside:
            stack.enter_context(neighbours())
        told, trace = run(node, mode, words)
    check(told, trace)


def test_fresh_pages_are_paging_or_the_trace_says_that_they_were_not_timed(node: LiveNode) -> None:
    told, trace = run(node, "full", ["fresh:10"])
    check(told, trace)
    handled_ns = trace["devices"][0]["causes"]["host_paging_ns"]
    assert handled_ns >= told["fresh"]["system_ns"] / 2
    told, trace = run(node, "governed", ["fresh:10"])
    check(told, trace)
    assert "page faults" in trace["absent"]
