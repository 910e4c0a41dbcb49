# SPDX-License-Identifier: Apache-2.0
"""The causes of a device's time are held against programs built to wait in a known way.

The programs (waits/) measure themselves by the kernel's own clocks: wall time, CPU time and time
in the run queue of the launching thread, for every way of waiting. What a trace says is held
against that, so a machine that is busy with something else changes both and fails neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

pytestmark = pytest.mark.needs_root

NAMED = 0.95
"""Part of the waiting time that its cause has to get."""
POINTS = 0.05
"""The largest error of a cause, as a share of the waiting time."""
NOT_OBSERVED = 0.01
DELAYED = 0.2
"""Part of the time in the run queue about which the two sources may differ: one counts from the
wakeup, the other from the queue. As much may be missing of what page faults take: on a CPU that
others use in between, the way into the kernel and out of it is longer than where it was measured.
It is nothing on a quiet machine."""
SWITCH_NS = 40_000
"""Tolerance for each switch: when a wakeup leads straight to one, the kernel leaves its clock as
it was (rq_clock_skip_update, kernel/sched/core.c) and counts the way to the CPU as time on it; on a
guest that way is long, since it goes through the hypervisor."""

CAUSES = {
    "prepare": "host_paging_ns",
    "spin": "host_on_cpu_ns",
    "work": "host_on_cpu_ns",
    "sleep": "host_blocked_ns",
    "pipe": "host_blocked_ns",
    "poll": "host_blocked_ns",
    "lock": "host_blocked_ns",
    "fault": "host_paging_ns",
    "major": "host_paging_ns",
    "disk": "host_paging_ns",
    "forget": "host_on_cpu_ns",
}
"""Way of waiting -> cause of the time that the thread is neither on a CPU nor runnable; of a way
that keeps it on a CPU, of all that is not runnable. `prepare` is the writing of a file."""

BUSY = {"spin", "work", "forget", "fault", "major"}
"""Ways whose time on a CPU is of their own cause."""

DEVICE = {"kernel", "copy"}
"""Ways in which the device works."""

NEIGHBOUR = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@dataclass(frozen=True)
class Told:
    """A job's own account of its time, and its trace."""

    truth: dict[str, Any]
    trace: dict[str, Any]
    stolen_ns: int
    """Time the hypervisor took from all CPUs: the thread was runnable, and the truth, which
    has it from the clock alone, counts that as part of a wait."""

    @property
    def found(self) -> dict[str, int]:
        """The causes of the one device."""
        (device,) = self.trace["devices"]
        causes: dict[str, int] = device["causes"]
        assert sum(causes.values()) == device["window_ns"]
        return causes

    def worked_ns(self, cause: str) -> int:
        """The device's time of this kind, with the launches by which the program learns how fast
        the device is: on a busy machine these may take long."""
        worked: int = self.truth[cause] + self.truth["opening"][cause]
        return worked

    @property
    def waiting_ns(self) -> int:
        """Sum over all ways of waiting, including the launches that end each round."""
        walls: int = sum(phase["wall_ns"] for phase in self.truth["phases"].values())
        busy: int = self.truth["kernel_ns"] + self.truth["copy_ns"]
        return walls - busy

    @property
    def launching_ns(self) -> int:
        """Time of launches and copies beyond the device's work: other work kept the
        driver's threads from it, which this program cannot see."""
        phases = self.truth["phases"].items()
        walls: int = sum(phase["wall_ns"] for way, phase in phases if way in {*DEVICE, "launch"})
        busy: int = self.truth["kernel_ns"] + self.truth["copy_ns"]
        return walls - busy

    def named(self, ways: Sequence[str]) -> dict[str, float]:
        """The least that the causes of these ways should have, from these ways alone."""
        named: dict[str, float] = dict.fromkeys((CAUSES[way.split(":")[0]] for way in ways), 0)
        for way in {way.split(":")[0] for way in ways}:
            phase = self.truth["phases"][way]
            off_cpu = phase["wall_ns"] - phase["cpu_ns"] - phase["runnable_ns"]
            waited = off_cpu + (phase["cpu_ns"] if way in BUSY else 0)
            named[CAUSES[way]] += NAMED * waited - DELAYED * phase["runnable_ns"]
            named[CAUSES[way]] -= self.stolen_ns
        return named

    def expected(self) -> dict[str, int]:
        """Expected time of each cause, including the start-up of the program."""
        start, prepared = self.truth["start"], self.truth["phases"]["prepare"]
        expected = dict.fromkeys([*CAUSES.values(), "host_runnable_ns"], 0)
        expected["host_on_cpu_ns"] = start["cpu_ns"] - prepared["cpu_ns"]
        expected["host_runnable_ns"] = start["runnable_ns"] - prepared["runnable_ns"]
        for way, phase in self.truth["phases"].items():
            if way in DEVICE:
                continue  # what the thread does meanwhile is no cause of anything
            off_cpu = phase["wall_ns"] - phase["cpu_ns"] - phase["runnable_ns"]
            expected["host_runnable_ns"] += phase["runnable_ns"]
            expected[CAUSES[way] if way in BUSY else "host_on_cpu_ns"] += phase["cpu_ns"]
            if way in CAUSES:
                expected[CAUSES[way]] += off_cpu
        return expected

    @property
    def starting(self) -> dict[str, int]:
        """Start-up time that the program cannot explain: how much of its kernel time went into
        page faults, and for what it waited; mostly for its own pages."""
        start, prepared = self.truth["start"], self.truth["phases"]["prepare"]
        off_cpu: int = self.truth["from_ns"] - self.trace["window"]["from_ns"]
        off_cpu -= start["cpu_ns"] + start["runnable_ns"]
        off_cpu -= prepared["wall_ns"] - prepared["cpu_ns"] - prepared["runnable_ns"]
        faults: int = start["system_ns"]
        return {"host_on_cpu_ns": faults, "host_paging_ns": faults + max(off_cpu, 0)}

    def check(self, *ways: str) -> None:
        """Each way's cause has what it should have, and all causes are as near as promised."""
        found, expected, waiting = self.found, self.expected(), self.waiting_ns
        switches = sum(phase["switches"] for phase in self.truth["phases"].values())
        delayed = DELAYED * expected["host_runnable_ns"] + self.launching_ns
        delayed += SWITCH_NS * switches + self.stolen_ns
        lost = {name: count for name, count in self.trace["loss"].items() if count}
        said = f"found {found}\nexpected {expected}\nof {waiting}; {self.truth}\nlost {lost}"
        said += f", stolen {self.stolen_ns}, absent {self.trace['absent']}"
        for cause, ns in self.named(ways).items():
            assert found[cause] >= ns, f"{cause}: {said}"
        for cause, ns in expected.items():
            room = POINTS * waiting + delayed + self.starting.get(cause, 0)
            assert abs(found[cause] - ns) <= room, f"{cause}: {said}"
        assert found["not_observed_ns"] <= NOT_OBSERVED * self.trace_ns, said

    @property
    def trace_ns(self) -> int:
        window: dict[str, int] = self.trace["window"]
        return window["to_ns"] - window["from_ns"]


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here, so that the driver's compiled kernels are kept for them."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def waits(node: LiveNode, public_folder: Path) -> str:
    """The program, run once so that its kernel is compiled."""
    program = public_folder / "waits"
    sources = sorted(Path(__file__).with_name("waits").glob("*.c"))
    argv = ["gcc", "-O2", "-Wall", "-Werror", "-o", str(program), *map(str, sources)]
    argv += ["-lOpenCL", "-lpthread"]
    subprocess.run(argv, check=True)
    assert node.run(str(program), "--rounds", "1", "sleep:1", gpu_milli=1000).state == "succeeded"
    return str(program)


def taken_ns() -> int:
    """Time that the hypervisor took from all CPUs: steal in /proc/stat, in ticks."""
    ticks = int(Path("/proc/stat").read_text().split(maxsplit=9)[8])
    return ticks * 10**9 // os.sysconf("SC_CLK_TCK")


def run(node: LiveNode, waits: str, *words: str) -> Told:
    """One job under full tracing, to its end."""
    before_ns = taken_ns()
    job = node.submit(waits, *words, gpu_milli=1000, trace="full")
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None, view.trace_absent
    return Told(json.loads(node.output(job)), view.trace, taken_ns() - before_ns)


@contextmanager
def neighbour(cpu: int) -> Iterator[None]:
    """A process that never lets go of this CPU, and weighs as much as one can."""
    argv = [sys.executable, "-c", NEIGHBOUR, str(cpu)]
    process = subprocess.Popen(argv, start_new_session=True)
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, -20)
        group = Path(f"/proc/{process.pid}/autogroup")  # groups weigh against each other
        if group.exists():
            group.write_text("-20")
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("way", "more"),
    [
        ("spin:10", []),
        ("sleep:10", []),
        ("pipe:10", []),
        ("lock:10", []),
        ("poll:10", []),
        ("disk:10", ["--file", "/var/tmp"]),
        ("major:5", ["--file", "/var/tmp", "forget:0"]),
        ("fault:10", ["forget:0"]),
    ],
)
def test_the_named_cause_gets_the_waiting_time(
    node: LiveNode, waits: str, way: str, more: list[str]
) -> None:
    run(node, waits, "--rounds", "70", way, *more).check(way)


def test_a_full_trace_has_the_first_instruction_of_a_job(node: LiveNode, waits: str) -> None:
    """Ten jobs that are over soon: a job runs when its threads are followed, and not before."""
    for _ in range(10):
        told = run(node, waits, "--rounds", "1", "sleep:1")
        assert told.trace["absent"] == {}
        assert told.found["not_observed_ns"] <= NOT_OBSERVED * told.trace_ns


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("spin:4", "sleep:6"),
        ("spin:8", "pipe:2"),
        ("sleep:3", "fault:7"),
    ],
)
def test_two_ways_are_told_apart(node: LiveNode, waits: str, first: str, second: str) -> None:
    run(node, waits, "--rounds", "70", first, second, "forget:0").check(first, second)


def test_who_is_kept_from_the_cpu_is_runnable(node: LiveNode, waits: str) -> None:
    cpu = max(os.sched_getaffinity(0))
    with neighbour(cpu):
        told = run(node, waits, "--rounds", "50", "--cpu", str(cpu), "work:0.2")
    told.check()
    assert told.found["host_runnable_ns"] >= NAMED * told.waiting_ns, (told.found, told.truth)


@pytest.mark.parametrize(
    ("words", "cause"), [(["kernel:10"], "kernel_ns"), (["copy:60"], "copy_ns")]
)
def test_a_busy_device_is_busy(node: LiveNode, waits: str, words: list[str], cause: str) -> None:
    told = run(node, waits, "--rounds", "70", *words)
    phase = told.truth["phases"][words[0].split(":")[0]]
    # The way back from the wait is left out, and what threads of the driver were kept from.
    busy_ns = phase["wall_ns"] - phase["runnable_ns"] - told.stolen_ns
    assert told.found[cause] >= NAMED * busy_ns, (told.found, told.truth)
    assert abs(told.found[cause] - told.worked_ns(cause)) <= POINTS * told.truth[cause]
    assert told.found["not_observed_ns"] <= NOT_OBSERVED * told.trace_ns


@pytest.mark.parametrize(
    ("busy", "way", "cause"),
    [("kernel:5", "sleep:5", "kernel_ns"), ("copy:30", "spin:5", "copy_ns")],
)
def test_work_and_waiting_are_told_apart(
    node: LiveNode, waits: str, busy: str, way: str, cause: str
) -> None:
    told = run(node, waits, "--rounds", "70", busy, way)
    told.check(way)
    assert abs(told.found[cause] - told.worked_ns(cause)) <= POINTS * told.truth[cause]


@pytest.mark.parametrize(
    "words",
    [["--before", "1500", "--rounds", "3", "sleep:1"], ["--after", "1500", "sleep:1"]],
    ids=["before", "after"],
)
def test_a_device_held_by_a_sleeper_is_held_idle(
    node: LiveNode, waits: str, words: list[str]
) -> None:
    found = run(node, waits, *words).found
    assert found["held_idle_ns"] >= NAMED * 1.5e9, found
    assert found["not_observed_ns"] <= NOT_OBSERVED * 1.5e9, found


def test_a_device_that_is_never_called_is_held_idle(node: LiveNode, waits: str) -> None:
    told = run(node, waits, "--rounds", "0", "--before", "1500", "sleep:1")
    assert told.found["held_idle_ns"] >= NAMED * told.trace_ns, told.trace
    assert told.found["not_observed_ns"] <= NOT_OBSERVED * told.trace_ns, told.trace
