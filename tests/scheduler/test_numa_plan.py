# SPDX-License-Identifier: Apache-2.0
"""The plan of a NUMA binding: what is bound, and each reason for which it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.scheduler.nouns import DeviceInfo, JobSpec
from stoker.scheduler.numa_plan import cpu_list, cpu_numbers, numa_plan, plan_words


def device(numa: int | None, cpus: str, memory: bool = True, why: str = "") -> DeviceInfo:
    return DeviceInfo(
        f"GPU-{numa}", "nvidia", "H200", numa=numa, near_cpus=cpus, near_memory=memory, numa_why=why
    )


LEFT, RIGHT = device(0, "0-3"), device(1, "4-7")
BARE = device(2, "8-9", memory=False)


def said(*devices: DeviceInfo, **options: object) -> str:
    return plan_words(numa_plan(JobSpec(("true",), gpu_milli=1000, **options), devices))


def test_what_is_bound_and_what_is_not() -> None:
    assert said(LEFT) == "bound to NUMA node 0: CPUs 0-3, memory of NUMA node 0 first"
    assert said(LEFT, numa="require") == (
        "bound to NUMA node 0: CPUs 0-3, memory of NUMA node 0 alone"
    )
    assert said(RIGHT, LEFT) == "bound to NUMA nodes 0-1: CPUs 0-7, memory of NUMA nodes 0-1 first"
    assert said(BARE) == (
        "bound to NUMA node 2: CPUs 8-9; NUMA node 2 has no memory of its own on this machine"
    )
    assert said(LEFT, numa="none") == "not bound to a NUMA node: --numa none"
    assert said() == "not bound to a NUMA node: it has no device"


def test_an_unknown_numa_node_is_never_node_0() -> None:
    unknown = device(None, "", why="neither its driver nor sysfs tells its NUMA node")
    words = f"not bound to a NUMA node: device GPU-None: {unknown.numa_why}"
    assert said(unknown) == said(LEFT, unknown) == words
    assert numa_plan(JobSpec(("true",)), (unknown,)).cpus == ""
    assert "its node does not tell" in said(device(3, ""))


@pytest.mark.parametrize(("cpu_milli", "cpus"), [(None, "0-3"), (4000, "0-3"), (4001, "")])
def test_no_task_is_bound_to_fewer_cpus_than_its_limit_counts(
    cpu_milli: int | None, cpus: str
) -> None:
    plan = numa_plan(JobSpec(("true",), cpu_milli=cpu_milli), (LEFT,))
    assert (plan.cpus, plan.memory_nodes) == (cpus, (0,))
    if not cpus:
        assert plan.why == ("4 CPUs beside its devices, and it may use 5",)


def test_a_list_that_is_too_long_is_not_bound() -> None:
    long = device(0, cpu_list(range(0, 1000, 2)))
    assert "more than 1023 characters" in said(long)
    assert numa_plan(JobSpec(("true",)), (long,)).cpus == ""


@given(st.sets(st.integers(0, 5000)))
def test_a_list_says_exactly_its_cpus(cpus: set[int]) -> None:
    assert cpu_numbers(cpu_list(cpus)) == cpus


def test_a_list_is_written_as_the_kernel_does() -> None:
    assert cpu_list([5, 0, 1, 2, 8]) == "0-2,5,8"
    assert cpu_numbers("0-2,5\n") == {0, 1, 2, 5}
    assert cpu_numbers("\n") == frozenset()
