# SPDX-License-Identifier: Apache-2.0
"""Jobs beside their devices, on a live node: the cards are simulated (SIM) and lie in two planted
NUMA nodes; the CPUs of these nodes are this machine's, and each job says itself what it is bound
to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from product_node import STOKER, LiveNode, wait_until

from stoker.agent.devices.host import numa_nodes

CPUS = sorted(os.sched_getaffinity(0))
pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(len(CPUS) < 2, reason="two NUMA nodes need two CPUs that may be used"),
]
CARDS = 8
"""The cards of the profile 8xH200: four in NUMA node 0, four in node 1."""
SHOW = "grep allowed_list /proc/self/status; head -n 1 /proc/self/numa_maps"
MEMORY = numa_nodes.read().memory
"""The memory nodes that this machine really has."""


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    root = Path(tempfile.mkdtemp(prefix="numa-"))
    live = LiveNode(root / "state", "gpu")
    planted = ["--numa", f"0:{CPUS[0]}", "--numa", f"1:{CPUS[1]}"]
    sim = [str(STOKER), "sim", "driver", "--profile", "8xH200", *planted, "--"]
    with (root / "log").open("wb") as log:
        running = subprocess.Popen(
            [*sim, str(STOKER), "up", "--foreground"],
            env={**live.environment, "TMPDIR": str(root)},
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: cards(live) == CARDS, "all cards are there", 60)
        yield live
    finally:
        live.stoker("down", check=False)
        running.terminate()
        running.wait(60)
        shutil.rmtree(root, ignore_errors=True)


def cards(node: LiveNode) -> int:
    done = node.stoker("devices", "-o", "json", check=False)
    return done.stdout.count(b'"kind": "gpu"') if done.returncode == 0 else 0


def bound(node: LiveNode, *flags: str, gpus: str = "1") -> tuple[list[int], str, str]:
    """Run a job; return the CPUs that it says it has, the policy of its memory, and what `explain`
    says of both."""
    ran = node.stoker("run", "--gpus", gpus, *flags, "--", "sh", "-c", SHOW)
    lines = ran.stdout.decode().splitlines()
    cpus = next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list"))
    return sorted(numa_nodes.cpu_numbers(cpus)), lines[-1].split()[1], decision(node)["numa"]


def decision(node: LiveNode) -> dict[str, Any]:
    found = node.json("explain", "last")["decision"]
    assert isinstance(found, dict)
    return found


def only(*numbers: int) -> list[str]:
    """The flags of a job that takes these cards and no others."""
    return ["--device-ids", ",".join(map(str, numbers)), "--device-ids-mode", "require"]


def memory(number: int, how: str) -> str:
    """The words of `explain` of the memory of a planted NUMA node, which the machine may lack."""
    if number in MEMORY:
        return f", memory of NUMA node {number} {how}"
    return f"; NUMA node {number} has no memory of its own on this machine"


@contextmanager
def held(node: LiveNode, *flags: str) -> Iterator[None]:
    """Jobs that hold one card each while the block runs."""
    words = ["submit", "--gpus", "1", "--trace", "off"]
    jobs = [node.stoker(*words, *only(int(f)), "--", "sleep", "600") for f in flags]
    numbers = [int(job.stdout) for job in jobs]
    for number in numbers:
        node.wait(number, "running")
    try:
        yield
    finally:
        for number in numbers:
            node.stoker("cancel", str(number))
            node.wait(number)


@pytest.mark.parametrize(("card", "number"), [(0, 0), (3, 0), (4, 1), (7, 1)])
def test_a_job_has_the_cpus_and_memory_beside_its_card(
    node: LiveNode, card: int, number: int
) -> None:
    cpus, policy, said = bound(node, *only(card))
    assert cpus == [CPUS[number]]
    assert policy == (f"prefer:{number}" if number in MEMORY else "default")
    assert said == f"bound to NUMA node {number}: CPUs {cpus[0]}{memory(number, 'first')} (SIM)"
    assert f"NUMA: bound to NUMA node {number}" in node.explained("last")
    report = node.stoker("job", "last").stdout.decode()
    assert f"bound to NUMA node {number}" in report


def test_cards_of_two_numa_nodes_give_the_cpus_of_both(node: LiveNode) -> None:
    cpus, _, said = bound(node, *only(3, 4), gpus="2")
    assert cpus == CPUS[:2]
    assert said.startswith("bound to NUMA nodes 0-1: CPUs ")


def test_a_job_that_may_use_more_cpus_than_are_beside_its_card_has_all(node: LiveNode) -> None:
    cpus, _, said = bound(node, *only(0), "--cpus", "2")
    assert cpus == CPUS
    assert "1 CPUs beside its devices, and it may use 2" in said


def test_a_job_that_wants_no_binding_has_none(node: LiveNode) -> None:
    assert bound(node, *only(0), "--numa", "none") == (
        CPUS, "default", "not bound to a NUMA node: --numa none (SIM)",
    )  # fmt: skip


def test_required_memory_is_that_of_its_numa_node_alone(node: LiveNode) -> None:
    ran = node.stoker("run", "--gpus", "1", *only(0), "--numa", "require", "--", "sh", "-c", SHOW)
    text = ran.stdout.decode()
    assert f"Cpus_allowed_list:\t{CPUS[0]}\n" in text
    if 0 in MEMORY:
        assert "bind:0" in text or "Mems_allowed_list:\t0\n" in text
        assert decision(node)["numa"].endswith("memory of NUMA node 0 alone (SIM)")


def test_a_job_of_no_card_is_not_spoken_of(node: LiveNode) -> None:
    node.stoker("run", "--", "true")
    assert decision(node)["numa"] == ""
    assert b"NUMA" not in node.stoker("explain", "last").stdout


def test_a_job_waits_until_cards_of_one_numa_node_are_free(node: LiveNode) -> None:
    with held(node, "0", "1", "2", "4", "5", "6"):
        submit = ["submit", "--gpus", "2", "--numa", "require", "--", "sh", "-c", SHOW]
        job = node.stoker(*submit).stdout.decode().strip()
        text = node.explained(job)
        assert "nodes without 2 free devices in one NUMA node: 1, the most in one are 1" in text
        assert "--numa prefer" in text
        loose, _, said = bound(node, gpus="2")
        assert (loose, said[:22]) == (CPUS[:2], "bound to NUMA nodes 0-")
    assert node.wait(int(job)).state == "succeeded"
    view = node.json("explain", job)["decision"]
    assert isinstance(view, dict)
    numas = {device["index"] // 4 for device in view["devices"]}
    assert len(numas) == 1


def test_each_task_of_a_gang_is_bound_beside_its_own_cards(node: LiveNode) -> None:
    flags = ["--gpus", "3", "--tasks", "2", "--numa", "require"]
    job = int(node.stoker("submit", *flags, "--", "sh", "-c", SHOW).stdout)
    view = node.wait(job)
    assert view.state == "succeeded"
    numas = [{device.index // 4 for device in rank.devices} for rank in view.ranks]
    assert sorted(map(sorted, numas)) == [[0], [1]]
    for rank, (own,) in enumerate(numas):
        said = node.json("explain", str(job), "--rank", str(rank))["decision"]
        assert isinstance(said, dict)
        assert said["numa"].startswith(f"bound to NUMA node {own}: CPUs {CPUS[own]}")


@pytest.mark.parametrize(
    ("gpus", "flags", "said"),
    [
        ("5", "--numa require", "needs 5 devices in one NUMA node, the most in one are 4"),
        ("2", "--numa require --device-ids 0,7 --device-ids-mode require", "one NUMA node"),
        ("1", "--numa require --cpus 2", "no device has 2 CPUs in its NUMA node for jobs"),
        ("0", "--numa require", "numa speaks of devices, but --gpus is 0"),
        ("1", "--numa strict", "'strict' is not one of"),
    ],
)
def test_what_could_never_be_bound_is_refused_in_one_line(
    node: LiveNode, gpus: str, flags: str, said: str
) -> None:
    done = node.stoker("run", "--gpus", gpus, *flags.split(), "--", "true", check=False)
    assert done.returncode != 0
    assert said in done.stderr.decode()
