# SPDX-License-Identifier: Apache-2.0
"""The binding of a real job's CPUs and memory: by its cgroup where that has cpuset, else by
affinity and policy; what cannot be is told, or ends the start where it is required."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from spawned import Node

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]

NO_CPU = "8191"
"""A CPU that no machine here has."""
CPUS = sorted(os.sched_getaffinity(0))
POLICY = Path("/proc/self/numa_maps")
has_policy = pytest.mark.skipif(not POLICY.exists(), reason="this kernel has no NUMA policies")


def shown(node: Node, output: bytes) -> dict[str, str]:
    """The lists of /proc/self/status that a job printed."""
    return dict(line.split(":\t") for line in output.decode().splitlines() if ":\t" in line)


async def test_a_job_runs_on_its_cpus_alone(node: Node) -> None:
    for cpu in CPUS[:2]:
        ended = await node.run("/bin/grep", "allowed_list", "/proc/self/status", cpus=str(cpu))
        assert (ended.exit_code, ended.reason) == (0, "")
        assert shown(node, node.out(ended))["Cpus_allowed_list"] == str(cpu)


async def test_what_a_job_starts_is_bound_as_well(node: Node) -> None:
    script = "(grep Cpus_allowed_list /proc/self/status)"
    ended = await node.run("/bin/sh", "-c", script, cpus=str(CPUS[-1]))
    assert shown(node, node.out(ended))["Cpus_allowed_list"] == str(CPUS[-1])


async def test_a_job_without_a_list_is_not_bound(node: Node) -> None:
    ended = await node.run("/bin/grep", "Cpus_allowed_list", "/proc/self/status")
    own = next(
        t for t in Path("/proc/self/status").read_text().splitlines() if "Cpus_allowed_list" in t
    )
    assert node.out(ended).decode() == own + "\n"


@has_policy
@pytest.mark.parametrize("required", [False, True])
async def test_memory_comes_from_its_node(node: Node, required: bool) -> None:
    script = "head -n 1 /proc/self/numa_maps; grep Mems_allowed_list /proc/self/status"
    bound = {"cpus": str(CPUS[0]), "memory_nodes": "0", "numa_required": required}
    ended = await node.run("/bin/sh", "-c", script, **bound)
    maps, status = node.out(ended).decode().splitlines()
    if required and node.spawner.features["cpuset"].works:
        assert status == "Mems_allowed_list:\t0"
    else:
        assert maps.split()[1] == ("bind:0" if required else "prefer:0")


async def test_a_binding_that_cannot_be_is_told(node: Node) -> None:
    ended = await node.run("/bin/true", cpus=NO_CPU)
    assert ended.exit_code == 0
    assert ended.reason == "its CPUs and memory could not all be bound: Invalid argument"


async def test_a_required_binding_that_cannot_be_ends_the_start(node: Node) -> None:
    ended = await node.run("/bin/true", cpus=NO_CPU, memory_nodes="", numa_required=True)
    assert (ended.cause, ended.exit_code) == ("start_failed", None)
    assert ended.reason.startswith(f"cannot be bound to CPUs {NO_CPU} and memory nodes")


async def test_a_list_that_is_none_ends_the_start(node: Node) -> None:
    ended = await node.run("/bin/true", cpus="3-1")
    assert (ended.cause, ended.reason) == (
        "start_failed", "no list of CPUs or memory nodes: 3-1, ",
    )  # fmt: skip
