# SPDX-License-Identifier: Apache-2.0
"""The CPUs and memory beside a device, from sysfs, from a simulation's own NUMA nodes, and not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.agent.devices.host import numa_nodes
from stoker.agent.devices.host.numa_nodes import NumaNodes
from stoker.probes.simdriver import numa
from stoker.scheduler.nouns import DeviceInfo
from stoker.scheduler.numa_plan import cpu_list

NODES = NumaNodes(
    {0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5}), 2: frozenset({6})},
    allowed=frozenset({1, 2, 4, 9}),
    memory=frozenset({0}),
    simulated={0: frozenset({4}), 3: frozenset({9})},
)


def device(numa: int | None, kind: str = "gpu", sim: bool = False) -> DeviceInfo:
    return DeviceInfo("d", "nvidia", "H200", kind=kind, numa=numa, sim=sim)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "cpus", "memory", "why"),
    [
        (device(0), "1-2", True, ""),
        (device(1), "4", False, ""),
        (device(2), "", False, "no CPU of NUMA node 2 is for jobs"),
        (device(3), "", False, "NUMA node 3 is not on this machine"),
        (device(None), "", False, "neither its driver nor sysfs tells its NUMA node"),
        (device(None, "cpu"), "", False, "it is the CPU, which is in all NUMA nodes"),
        (device(0, sim=True), "4", True, ""),
        (device(3, sim=True), "9", False, ""),
        (device(1, sim=True), "", False, "NUMA node 1 is not on this machine"),
    ],
)
def test_a_device_gets_what_is_beside_it_or_the_reason(
    given: DeviceInfo, cpus: str, memory: bool, why: str
) -> None:
    found = NODES.placed(given)
    assert (found.near_cpus, found.near_memory, found.numa_why) == (cpus, memory, why)


def test_the_nodes_are_those_of_the_kernel(tmp_path: Path) -> None:
    folder = tmp_path / numa_nodes.NODES
    for node, cpus in ((0, "0-1\n"), (1, "2\n"), (2, "\n"), (3, "nonsense")):
        (folder / f"node{node}").mkdir(parents=True)
        (folder / f"node{node}" / "cpulist").write_text(cpus)
    (folder / "nodes").mkdir()
    (folder / "has_memory").write_text("0-1\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("Name:\tx\nMems_allowed_list:\t0,2\n")
    found = numa_nodes.read(tmp_path, {})
    assert found.cpus == {0: {0, 1}, 1: {2}, 2: frozenset(), 3: frozenset()}
    assert (found.memory, found.simulated) == ({0}, {})
    assert found.allowed == os.sched_getaffinity(0)


def test_a_machine_that_tells_nothing_has_none(tmp_path: Path) -> None:
    found = numa_nodes.read(tmp_path, {})
    assert (found.cpus, found.memory) == ({}, frozenset())
    assert found.placed(device(0)).numa_why == "NUMA node 0 is not on this machine"


def test_the_nodes_of_a_simulation_map_to_real_cpus(tmp_path: Path) -> None:
    """SIM: the cards are simulated, and what jobs on them are bound to is not."""
    real = sorted(os.sched_getaffinity(0))
    numa.write(tmp_path, {0: cpu_list(real), 1: str(real[-1])})
    found = numa_nodes.read(Path("/"), {numa_nodes.SIM_NODE: str(tmp_path / "node")})
    assert found.simulated == {0: set(real), 1: {real[-1]}}
    assert found.placed(device(1, sim=True)).near_cpus == str(real[-1])
