# SPDX-License-Identifier: Apache-2.0
"""Throttled time of devices: a CPU quota of PoCL's device, and simulated cards (SIM) at a limit.

A job under a quota prints the kernel's own counters as its last word. A simulated card counts for
itself, and the counters of its driver are what the agent reads.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.cpu_quota import read_v1, v1_cpu
from stoker.native import _sim, paths
from stoker.probes.simdriver import libraries, profiles
from tests.probes.simulated import compile_pair

pytestmark = pytest.mark.needs_root

DEVICE = "pocl-0"
STAT = (
    "cat /sys/fs/cgroup/cpu$(grep -E '[:,]cpu[:,]' /proc/self/cgroup | cut -d: -f3)/cpu.stat"
    " || cat /sys/fs/cgroup$(grep ^0:: /proc/self/cgroup | cut -d: -f3)/cpu.stat"
)
"""The shell's words that print the counters of the job's own group, of v1 or v2."""
SEEN = 0.7
"""The part of the time under a quota that must be found: a program also loads, and ends, and what
it does then keeps no device waiting."""
END_NS = 300_000_000
"""The job's last word about the counters comes some periods before its end."""
LOST_NS = 2_000_000_000
"""A device that is held down has lost so much before its job is ended."""
CARD = "NVIDIA L40S"
LIMIT_MW = 250_000
WORKED_NS = 1_000_000_000
"""Half of what the kernels of a job on the other makes' cards take."""
LAUNCHES = ("1", "200", "10000000", "10000")
RUNTIMES = Path(__file__).parents[1] / "probes"
FIRST_RENDER = 128
"""The minor number of the first render node."""
ROUNDS = 12_000
TRIES = 4
WHY_POWER = 1
"""SK_SIM_WHY_POWER of native/sim/card/card.h."""
NEAR = 0.25
"""The part by which what a card counted while kernels ran may differ from what is found: the job
and the counters have no common clock, and a card needs a moment to reach its limit."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node("--root-jobs-as", "root") as live:
        yield live


@dataclass(frozen=True)
class Cards:
    """A live node and its simulated cards."""

    node: LiveNode
    sim: _sim.Node
    program: str
    model: str = CARD

    @property
    def ids(self) -> list[str]:
        rows = self.node.ask(lambda client: client.devices()).devices
        return [row.id for row in rows if row.model == self.model]

    def power_ns(self, card: int) -> int:
        """The time for which its power limit has lowered its clock, by the card itself."""
        return int(self.sim.truth(card)["now"]["why_ns"][WHY_POWER])

    def run(self, card: int) -> dict[str, Any]:
        """Run kernels on one card; return what the job's trace says of it, and how much the card
        counted meanwhile."""
        words = {"device_ids": (self.ids[card],), "device_ids_mode": "require"}
        before = self.power_ns(card)
        job = self.node.submit(self.program, str(ROUNDS), gpu_milli=1000, trace="full", **words)
        view = self.node.wait(job, trace=True)
        assert view.state == "succeeded" and view.trace is not None, self.node.output(job, "err")
        counted = self.power_ns(card) - before
        return {"job": job, "counted": counted, "absent": view.trace["absent"]} | device_of(
            view.trace
        )


@pytest.fixture(scope="module")
def cards(public_folder: Path) -> Iterator[Cards]:
    try:
        paths.library("sim/nvidia/libcupti.so.13")
    except paths.NotBuilt as why:
        pytest.skip(f"{why}: without NVIDIA's headers there is no CUPTI tracer")
    folder, built = public_folder / "cards", public_folder / "cuda_throttled"
    source = Path(__file__).with_name("cuda.c")
    subprocess.run(["gcc", "-O2", "-o", built, source, "-ldl"], check=True)
    sim = profiles.node("4xL40S", folder, seed=11)
    sim.set_open(True)
    environment = libraries.environment(folder, [1], {})
    with live_node("--root-jobs-as", "root", device_kind="gpu", **environment) as live:
        made = Cards(live, sim, str(built))
        wait_until(lambda: len(made.ids) == 4, "four cards")
        yield made


@pytest.fixture(scope="module")
def launches(public_folder: Path) -> str:
    built = public_folder / "launches_throttled"
    source = Path(__file__).with_name("launches.c")
    subprocess.run(["gcc", "-O2", "-o", built, source, "-lOpenCL"], check=True)
    return str(built)


def device_of(trace: dict[str, Any]) -> dict[str, Any]:
    (device,) = trace["devices"]
    assert sum(device["causes"].values()) == device["window_ns"]
    found: dict[str, Any] = device
    return found


def lost_ns(output: bytes) -> int:
    """The time for which the kernel stopped the job, by the last word of its output."""
    stat = dict(line.split(maxsplit=1) for line in output.decode().splitlines() if " " in line)
    if "throttled_time" in stat:
        return int(stat["throttled_time"])
    return int(stat["throttled_usec"]) * 1000


def test_a_job_under_a_cpu_quota_is_throttled_for_as_long_as_the_kernel_says(
    node: LiveNode, launches: str
) -> None:
    """It has one CPU, so that the kernel's counter is that of one clock."""
    cpu = min(os.sched_getaffinity(0))
    words = f"taskset -c {cpu} {launches} 200 10; {STAT}"
    job = node.submit("/bin/sh", "-c", words, gpu_milli=1000, cpu_milli=100, trace="full")
    view = node.wait(job, trace=True)
    assert view.state == "succeeded" and view.trace is not None, node.output(job, "err")
    device, lost = device_of(view.trace), lost_ns(node.output(job))
    assert lost > 0
    assert SEEN * lost <= device["causes"]["throttled_ns"] <= lost + END_NS
    assert device["throttle"]["source"] == "quota"
    assert [row["cause"] for row in device["throttle"]["causes"]] == ["CPU quota"]
    assert "causes.throttled_ns" not in view.trace["absent"]
    said = " ".join(node.stoker("job", str(job)).stdout.decode().split())
    assert "throttled by CPU quota" in said and "by the kernel's counters" in said
    said = node.explained(job)
    assert f"throttled: {DEVICE} for " in said and ": by CPU quota " in said


def test_a_job_without_a_quota_is_not_throttled(node: LiveNode, launches: str) -> None:
    view = node.wait(node.submit(launches, "200", "10", gpu_milli=1000, trace="full"), trace=True)
    assert view.state == "succeeded" and view.trace is not None
    device = device_of(view.trace)
    assert device["causes"]["throttled_ns"] == 0 < device["causes"]["kernel_ns"]
    assert device["causes"]["peer_ns"] == 0 and "causes.peer_ns" not in view.trace["absent"]
    assert device["throttle"] == {"source": "quota", "busy_ns": 0, "error_ns": 0, "causes": []}
    assert "causes.throttled_ns" not in view.trace["absent"]


def test_a_device_that_the_power_loop_holds_down_is_throttled(
    node: LiveNode, launches: str
) -> None:
    """The job enters the held group while it runs; what it lost there is in that group alone."""
    mount = v1_cpu()
    if isinstance(mount, Absent):
        pytest.skip(f"the group of a held device is one of cgroup v1: {mount.why}")
    held = mount / f"stoker-{node.state.instance}" / f"held-{DEVICE}"
    words = ("0", "1", "0", "forever")
    job = node.submit(launches, *words, gpu_milli=1000, trace="full")
    try:
        for setting in (("draws", DEVICE, "100"), ("budget", "10"), ("control", "on")):
            node.stoker("power", *setting)
        wait_until(lambda: lost_in(held) > LOST_NS, "the job is held", 60)
        node.stoker("cancel", str(job))
        view = node.wait(job, trace=True)
    finally:
        node.stoker("power", "control", "observe")
    assert view.trace is not None, view.trace_absent
    device = device_of(view.trace)
    assert device["causes"]["throttled_ns"] > 0
    assert [row["cause"] for row in device["throttle"]["causes"]] == ["CPU quota"]


def lost_in(group: Path) -> int:
    found = read_v1(group)
    return found.lost_ns if found is not None else 0


def test_a_card_at_its_power_limit_is_throttled_for_as_long_as_it_counts(cards: Cards) -> None:
    cards.sim.set_limit(0, 100_000)
    device = cards.run(0)
    for _ in range(TRIES):  # a busy machine may launch too seldom to bring a card to its limit
        device = device if device["counted"] else cards.run(0)
    throttle, causes = device["throttle"], device["causes"]
    assert device["counted"] > 0
    assert causes["throttled_ns"] == throttle["busy_ns"] > 0
    assert abs(causes["throttled_ns"] - device["counted"]) <= NEAR * device["counted"]
    assert [row["cause"] for row in throttle["causes"]] == ["power"]
    assert throttle["error_ns"] < device["window_ns"]
    assert (throttle["source"], "causes.throttled_ns" in device["absent"]) == ("counter", False)
    said = " ".join(cards.node.stoker("job", str(device["job"])).stdout.decode().split())
    assert "throttled by power" in said and "by the driver's counters" in said
    said = cards.node.explained(device["job"])
    assert f"throttled: {cards.ids[0]} for " in said and ": by power " in said


def test_a_card_below_its_limits_is_not_throttled(cards: Cards) -> None:
    device = cards.run(1)
    assert device["causes"]["throttled_ns"] == 0 < device["causes"]["kernel_ns"]
    assert device["throttle"]["causes"] == []
    assert "causes.throttled_ns" not in device["absent"]


@dataclass(frozen=True)
class Make:
    """The cards of a maker whose runtime is simulated by the tests. `words`: its job's first."""

    profile: str
    vendor: int
    model: str
    count: int
    runtime: str
    library: str
    words: tuple[str, ...] = ()

    def seen_by_job(self, id: str, minor: int) -> dict[str, str]:
        """Return what tells the runtime which card a job has: Level Zero knows the UUID, and
        rocprofiler the render node."""
        if self.vendor == profiles.INTEL:
            return {"FAKE_LEVELZERO_UUID": id.replace("-", "")}
        return {"FAKE_RENDER_MINOR": str(FIRST_RENDER + minor)}


MAX_1550 = Make(
    "4xMax1550", profiles.INTEL, "Intel(R) Data Center GPU Max 1550", 4,
    "levelzero", "libze_loader.so.1", ("immediate",),
)  # fmt: skip
MI300X = Make(
    "8xMI300X", profiles.AMD, "AMD Instinct MI300X", 8, "rocprofiler", "librocprofiler-sdk.so.1"
)


@pytest.fixture(scope="module", params=[MAX_1550, MI300X], ids=["intel", "amd"])
def other(request: pytest.FixtureRequest, public_folder: Path) -> Iterator[tuple[Make, Cards]]:
    make: Make = request.param
    folder, built = public_folder / make.profile, public_folder / f"{make.profile}_job"
    built.mkdir()
    program = compile_pair(RUNTIMES / make.runtime, built, make.library)
    sim = profiles.node(make.profile, folder, seed=11)
    sim.set_limit(0, LIMIT_MW)
    environment = libraries.environment(folder, [make.vendor], {})
    with live_node("--root-jobs-as", "root", device_kind="gpu", **environment) as live:
        made = Cards(live, sim, str(program), make.model)
        wait_until(lambda: len(made.ids) == make.count, "all cards")
        yield make, made


@pytest.mark.parametrize("card", [0, 1])
def test_a_card_is_throttled_while_it_counts_and_not_else(
    other: tuple[Make, Cards], card: int
) -> None:
    """The first card is at full load and has a low power limit, the second one has neither."""
    make, cards = other
    cards.sim.set_load(card, 0.2 if card else 1.0, 0.1, 0.0)
    wait_until(lambda: bool(card or cards.power_ns(card)), "the card is at its limit")
    id, before = cards.ids[card], cards.power_ns(card)
    words = {"device_ids": (id,), "device_ids_mode": "require"}
    env = make.seen_by_job(id, cards.sim.truth(card)["model"]["minor"])
    argv = (cards.program, *make.words, *LAUNCHES)
    job = cards.node.submit(*argv, gpu_milli=1000, trace="full", env=env, **words)
    view = cards.node.wait(job, trace=True)
    assert view.state == "succeeded" and view.trace is not None, cards.node.output(job, "err")
    device = device_of(view.trace)
    assert (device["id"], device["throttle"]["source"]) == (id, "counter")
    worked_ns = device["causes"]["kernel_ns"] + device["causes"]["throttled_ns"]
    assert worked_ns > WORKED_NS
    counted = cards.power_ns(card) - before
    said = cards.node.explained(job)
    if card:
        assert counted == device["causes"]["throttled_ns"] == 0
        assert "throttled: " not in said
        return
    assert counted >= device["causes"]["throttled_ns"] > 0
    likely_ns = device["causes"]["throttled_ns"] + device["throttle"]["error_ns"]
    assert likely_ns >= SEEN * worked_ns, "all the time, but for what was not read"
    assert f"throttled: {id} for " in said
