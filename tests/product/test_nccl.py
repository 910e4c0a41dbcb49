# SPDX-License-Identifier: Apache-2.0
"""Ranks of the simulated NCCL (SIM) on a live node, held against what they say themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.probes.calls import site_report
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

CARD = "NVIDIA H200"
POINTS = 0.05
"""The largest error of a wait, as a part of the time that was measured."""
JOIN, REDUCE, WAIT = "nccl.ncclCommInitRank", "nccl.ncclAllReduce", "cuda.cuStreamSynchronize"
WATCHED = {JOIN: 4, REDUCE: 4, WAIT: 3}
"""The processes that have such a function: the first one makes the unique id and is no rank."""


@pytest.fixture(scope="module")
def node(public_folder: Path) -> Iterator[LiveNode]:
    place = public_folder / "node"
    profiles.node("8xH200", place, seed=11).set_open(True)
    with live_node(device_kind="gpu", **libraries.environment(place, [1], {})) as live:
        wait_until(lambda: len(cards(live)) == 8, "eight cards")
        yield live


def cards(node: LiveNode) -> list[Any]:
    rows = node.ask(lambda client: client.devices()).devices
    return [row for row in rows if row.model == CARD]


@pytest.fixture(scope="module")
def program(public_folder: Path) -> str:
    built = public_folder / "ranks"
    source = Path(__file__).parent / "nccl/ranks.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", built, source, "-ldl"], check=True)
    return str(built)


@dataclass(frozen=True)
class Met:
    """A job of ranks: what they say of themselves, and its trace."""

    truth: dict[str, Any]
    trace: dict[str, Any]

    @property
    def window_ns(self) -> int:
        return int(self.truth["to_ns"] - self.truth["from_ns"])


def run(node: LiveNode, program: str, go: Path, *words: str) -> Met:
    """One job, whose ranks meet when the probes are on all of them."""
    job = node.submit(
        *(program, "--go", str(go), *words), gpu_milli=1000, models=(CARD,), trace="full"
    )
    try:
        wait_until(lambda: {call: watched(node, call) for call in WATCHED} == WATCHED, "probes", 60)
    finally:
        go.touch()
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None, view.trace_absent
    return Met(json.loads(node.output(job)), view.trace)


def watched(node: LiveNode, call: str) -> int:
    """The number of processes in which a call's sites are attached."""
    report = site_report.load(node.state.agent / site_report.FILE)
    return sum(each.processes for each in report.states if each.id == call) if report else 0


def test_ranks_wait_as_long_as_they_say_and_the_slow_one_is_named(
    node: LiveNode, program: str, public_folder: Path
) -> None:
    words = ("--rounds", "80", "--work", "10000", "--slow", "1:100")
    met = run(node, program, public_folder / "go", *words)
    found = met.trace["collectives"]
    (comm,) = found["communicators"]
    assert (comm["name"], comm["size"], comm["aligned"]) == ("nccl", 3, True)
    assert comm["operations"] == 81  # the communicator is made together too
    assert {name for name, count in found["loss"].items() if count} == set()
    for rank, truth in zip(found["ranks"], met.truth["ranks"], strict=True):
        joined = rank["wait_ns"] - truth["wait_ns"]
        assert joined >= -POINTS * met.window_ns, (rank, truth)
    reduced = {row["name"]: row for row in found["operations"]}[REDUCE]
    assert reduced["count"] == 80
    waited = sum(rank["wait_ns"] for rank in met.truth["ranks"])
    assert abs(reduced["wait_ns"] - waited) <= POINTS * 3 * met.window_ns, (reduced, met.truth)
    assert max(comm["members"], key=lambda member: member["caused_ns"])["rank"] == 1
    assert found["said"][0].startswith("rank 1 came last in ")
    assert "causes.peer_ns" not in met.trace["absent"]
