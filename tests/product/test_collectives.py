# SPDX-License-Identifier: Apache-2.0
"""Ranks of a real Open MPI job that wait for each other, held against what they say themselves.

The program (meeting/) notes its own entries and returns, so what a trace says is held against what
happened, whatever else the machine did meanwhile.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.probes.calls import site_report
from stoker.probes.calls.call_records import CallState
from stoker.scheduler.nouns import ENDED

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(shutil.which("mpicc") is None, reason="Open MPI is not installed"),
]

POINTS = 0.05
"""The largest error of a wait, as a part of the time that was measured."""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")
CALLED = tuple(
    f"mpi.MPI_{name}"
    for name in (
        *("Barrier", "Allreduce", "Allgather", "Alltoall", "Bcast", "Sendrecv"),
        *("Comm_split", "Gather", "Finalize"),
    )
)
"""The calls that the program may make after its beginning."""


@dataclass(frozen=True)
class Met:
    """A job of ranks: what they say of themselves, and its trace."""

    truth: dict[str, Any]
    trace: dict[str, Any]

    @property
    def seconds(self) -> float:
        return float(self.truth["to_ns"] - self.truth["from_ns"]) / 1e9

    @property
    def ranks(self) -> list[dict[str, Any]]:
        return list(self.trace["collectives"]["ranks"])

    @property
    def members(self) -> list[dict[str, Any]]:
        """The ranks in the communicator of all."""
        world = self.trace["collectives"]["communicators"][0]
        return list(world["members"])


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """Root's jobs run as root here, so that the driver's compiled kernels are kept for them."""
    with live_node("--root-jobs-as", "root") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


@pytest.fixture(scope="module")
def meeting(node: LiveNode, public_folder: Path) -> str:
    """The program, run once so that its kernel is compiled."""
    here = Path(__file__).parent
    program = public_folder / "meeting"
    sources = [str(here / "meeting/meeting.c"), str(here / "waits/device.c")]
    argv = ["mpicc", "-O2", "-Wall", "-Werror", "-o", str(program), *sources, "-lOpenCL"]
    subprocess.run(argv, check=True)
    run(node, str(program), 1, "--rounds", "1", "--kernel", "1")
    return str(program)


def sites(node: LiveNode) -> list[CallState]:
    """The sites of all jobs, as the agent leaves them for the doctor."""
    report = site_report.load(node.state.agent / site_report.FILE)
    return report.states if report is not None else []


def told(node: LiveNode, ranks: int, before: set[int]) -> bool:
    """Return whether the calls of a job that is not of `before` are told in all of its ranks. A
    breakpoint in the program shows less: the return of a call is probed before its entry."""
    mine = {each.id: each for each in sites(node) if each.job not in before}
    return all(id in mine and mine[id].processes == ranks for id in CALLED)


def is_over(node: LiveNode, job: int) -> bool:
    return node.ask(lambda client: client.get(job)).state in ENDED


def run(node: LiveNode, meeting: str, ranks: int, *words: str) -> Met:
    """One job under full tracing, to its end. It begins when all of its calls are told."""
    before = {each.job for each in sites(node)}
    with tempfile.TemporaryDirectory(dir=Path(meeting).parent) as folder:
        go = Path(folder) / "go"
        Path(folder).chmod(0o755)
        argv = (*MPIRUN, str(ranks), meeting, "--go", str(go), *words)
        job = node.submit(*argv, gpu_milli=1000, trace="full")
        wait_until(lambda: told(node, ranks, before) or is_over(node, job), "its calls are told")
        go.touch()
        node.wait(job)
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None, view.trace_absent
    return Met(json.loads(node.output(job)), view.trace)


@pytest.mark.parametrize("call", ["allreduce", "barrier", "allgather", "alltoall"])
def test_every_rank_waits_as_long_as_it_says(node: LiveNode, meeting: str, call: str) -> None:
    met = run(node, meeting, 3, "--rounds", "60", "--slow", "1:20", "--call", call)
    (world,) = met.trace["collectives"]["communicators"]
    assert world["aligned"] and world["operations"] >= 60, world
    for told, truth in zip(met.members, met.truth["ranks"], strict=True):
        # The barrier before the rounds is a wait that the program does not count.
        begun = told["wait_ns"] - truth["wait_ns"]
        assert begun >= -POINTS * met.seconds * 1e9, (told, truth)
    told = {row["name"]: row for row in met.trace["collectives"]["operations"]}
    name = {"allreduce": "Allreduce", "allgather": "Allgather", "alltoall": "Alltoall"}.get(call)
    if name is not None:  # barriers are counted together with that one
        waited = sum(rank["wait_ns"] for rank in met.truth["ranks"])
        assert told[f"mpi.MPI_{name}"]["count"] == 60
        error_ns = abs(told[f"mpi.MPI_{name}"]["wait_ns"] - waited)
        assert error_ns <= POINTS * 3 * met.seconds * 1e9, (told, met.truth)
    assert "causes.peer_ns" not in met.trace["absent"]


def test_the_slow_rank_is_named_and_the_device_waits_for_it(node: LiveNode, meeting: str) -> None:
    words = ("--rounds", "80", "--work", "20000", "--slow", "2:100", "--kernel", "2")
    met = run(node, meeting, 3, *words)
    (device,) = met.trace["devices"]
    causes, window_ns = device["causes"], device["window_ns"]
    assert sum(causes.values()) == window_ns
    # Rank 0 alone calls the device, so its waits are what the device waited for.
    (rank,) = [each for each in met.ranks if each["rank"] == 0]
    assert abs(causes["peer_ns"] - rank["wait_ns"]) <= POINTS * window_ns, (causes, rank)
    assert causes["peer_ns"] >= 0.5 * met.truth["ranks"][0]["wait_ns"] > 0
    most = max(met.ranks, key=lambda each: each["caused_ns"])
    truth = max(range(3), key=lambda each: met.truth["ranks"][each]["caused_ns"])
    assert most["rank"] == truth == 2
    (said,) = met.trace["collectives"]["said"]
    assert said.startswith(f"rank 2 came last in {met.members[2]['last']} of "), said


@pytest.fixture(scope="module")
def slow_rank(public_folder: Path) -> str:
    """Four ranks that compute, of which one may have more work than the others."""
    program = public_folder / "slow_rank"
    source = Path(__file__).parents[1] / "soak/slow_rank.c"
    subprocess.run(["mpicc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return str(program)


@pytest.fixture
def neighbour() -> Iterator[None]:
    """Processes of another user take half of the CPUs."""
    argv = ("sh", "-c", "while :; do :; done")
    half = range(max(1, (os.cpu_count() or 1) // 2))
    running = [subprocess.Popen(argv, user=65534, group=65534) for _ in half]
    yield
    for each in running:
        each.kill()
        each.wait()


@pytest.mark.parametrize("planted", [2, None], ids=["one is slow", "nobody is slow"])
def test_beside_a_neighbour_the_slow_rank_is_named_and_nobody_else(
    node: LiveNode, slow_rank: str, neighbour: None, planted: int | None
) -> None:
    """More ranks than CPUs come last in turn; own time alone tells who has more work. The same is
    done a hundred times, with a fifth more work, by tests/soak/slow_ranks.py."""
    words = ("2000000", "100", str(-1 if planted is None else planted), "40")
    job = node.submit(*MPIRUN, "4", slow_rank, *words, gpu_milli=1000, trace="full")
    view = node.wait(job, trace=True)
    assert view.state == "succeeded" and view.trace is not None, view.reason
    said = view.trace["collectives"]["said"]
    if planted is None:
        assert said == [], view.trace["collectives"]
    else:
        assert {each.partition(" came last")[0] for each in said} == {"rank 2"}, said
        work = [each for each in said if "its own work takes" in each]
        assert len(work) == 1, "on busy CPUs it may be told to lack one as well"


def test_ranks_of_split_communicators_wait_within_them(node: LiveNode, meeting: str) -> None:
    met = run(node, meeting, 4, "--rounds", "40", "--slow", "3:50", "--call", "split")
    names = [row["name"] for row in met.trace["collectives"]["communicators"]]
    told = {name: met.trace[name] for name in ("collectives", "calls", "absent")}
    assert names == ["world", "made", "made 2"], json.dumps(told)
    ranks = [
        [member["rank"] for member in row["members"]]
        for row in met.trace["collectives"]["communicators"]
    ]
    assert sorted(ranks) == [[0, 1], [0, 1, 2, 3], [2, 3]]
    assert {n for n, count in met.trace["collectives"]["loss"].items() if count} == set()


def test_messages_are_waits_too(node: LiveNode, meeting: str) -> None:
    met = run(node, meeting, 2, "--rounds", "40", "--slow", "1:50", "--call", "sendrecv")
    (first,) = [rank for rank in met.ranks if rank["rank"] == 0]
    assert first["message_ns"] >= 0.5 * met.truth["ranks"][0]["wait_ns"] > 0


def test_a_job_of_one_process_has_no_ranks_and_waits_for_nobody(node: LiveNode) -> None:
    job = node.submit("/bin/sleep", "1.5", gpu_milli=1000, trace="full")
    view = node.wait(job, trace=True)
    assert view.trace is not None and view.trace["collectives"] is None
