# SPDX-License-Identifier: Apache-2.0
"""Ranks of the simulated NCCL (SIM) on a live node, held against what they say themselves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.wire.schema import JobView, LogsRequest, RankTroubleView
from stoker.probes.calls import site_report
from stoker.probes.simdriver import libraries, profiles

pytestmark = pytest.mark.needs_root

CARD = "NVIDIA H200"
NAMED_NS = 5_000_000_000
"""A rank is named within this time after it begins to keep others waiting."""
POINTS = 0.05
"""The largest error of a wait, as a part of the time that was measured."""
JOIN, REDUCE, WAIT = "nccl.ncclCommInitRank", "nccl.ncclAllReduce", "cuda.cuStreamSynchronize"


@pytest.fixture(scope="module")
def node(public_folder: Path) -> Iterator[LiveNode]:
    place = public_folder / "node"
    profiles.node("8xH200", place, seed=11).set_open(True)
    environment = libraries.environment(place, [1], {})
    with live_node(prepare=allow_cordons, device_kind="gpu", **environment) as live:
        wait_until(lambda: len(cards(live)) == 8, "eight cards")
        yield live


def allow_cordons(node: LiveNode) -> None:
    node.root.mkdir(mode=0o700)
    (node.root / "config.toml").write_text("[node]\nrank_cordon = true\n")


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
    earlier = watched(node).keys()
    job = node.submit(
        *(program, "--go", str(go), *words), gpu_milli=1000, models=(CARD,), trace="full"
    )
    try:
        # The first process makes the unique id and is no rank.
        until_watched(node, earlier, join=4, reduce=4, wait=3)
    finally:
        go.touch()
    view = node.wait(job, trace=True)
    assert view.state == "succeeded", node.output(job, "err").decode()
    assert view.trace is not None, view.trace_absent
    return Met(json.loads(node.output(job)), view.trace)


def gang(node: LiveNode, program: str, id: Path, *words: str, **fields: Any) -> int:
    """Submit a gang of three ranks, each a task with a card of its own, which meet when the probes
    are on all of them; its first attempt is in trouble."""
    go = id.with_suffix(".go")
    fields = {"tasks": 3, "gpu_milli": 1000, "models": (CARD,), "trace": "full", **fields}
    earlier = watched(node).keys()
    job = node.submit(program, "--go", str(go), "--id", str(id), *words, **fields)
    try:
        until_watched(node, earlier, join=3, reduce=3, wait=3)
    finally:
        go.touch()
    return job


def trouble(node: LiveNode, job: int) -> str:
    """Return the trouble of its ranks that a running job's live trace tells."""
    view = node.ask(lambda client: client.get(job, trace=True))
    found = (view.trace or {}).get("collectives") or {}
    return str(found.get("trouble") or "")


def told(node: LiveNode, job: int) -> str:
    """Return all that may say why no rank of a running job is named."""
    view = node.ask(lambda client: client.get(job, trace=True))
    trace = view.trace or {}
    report = site_report.load(node.state.agent / site_report.FILE)
    ranked = [each for each in report.states if each.id in (JOIN, REDUCE, WAIT)] if report else []
    parts = {name: trace.get(name) for name in ("collectives", "absent", "loss")}
    return json.dumps({"state": view.state, "reason": view.reason, **parts}) + f"\n{ranked}"


def named(node: LiveNode, job: int, kind: str, rank: int) -> RankTroubleView:
    """Wait until this rank alone is named, and hold that it was in time: by its own word of when
    it began, and without the time in which the agent had no CPU to judge."""
    seen: list[JobView] = []

    def is_named() -> bool:
        seen.append(node.ask(lambda client: client.get(job)))
        return bool(seen[-1].troubles)

    try:
        wait_until(is_named, "a rank is named", 60)
    except pytest.fail.Exception:
        pytest.fail(f"no rank is named: {told(node, job)}")
    view = seen[-1]
    (found,) = view.troubles
    (device,) = view.ranks[rank].devices
    assert (found.kind, found.rank, found.task, found.devices) == (kind, rank, rank, (device.id,))
    request = LogsRequest(job=job, rank=rank)
    word, began_ns = node.ask(lambda client: client.logs(request)).data.decode().split()
    assert word == "planted"
    assert 0 < found.named_ns - int(began_ns) <= NAMED_NS + found.lag_ns, found
    return found


def watched(node: LiveNode) -> dict[tuple[int, str], int]:
    """(cgroup, call) -> the number of processes in which the call's sites are attached."""
    report = site_report.load(node.state.agent / site_report.FILE)
    found: dict[tuple[int, str], int] = {}
    for each in report.states if report else ():
        found[each.job, each.id] = found.get((each.job, each.id), 0) + each.processes
    return found


def until_watched(node: LiveNode, earlier: Collection[tuple[int, str]], **wanted: int) -> None:
    """Wait until so many processes are watched that were not there when the job was submitted."""

    def now() -> dict[str, int]:
        new = {place: n for place, n in watched(node).items() if place not in earlier}
        calls = {"join": JOIN, "reduce": REDUCE, "wait": WAIT}
        return {
            name: sum(n for (_, each), n in new.items() if each == call)
            for name, call in calls.items()
        }

    wait_until(lambda: now() == wanted, f"probes on {wanted}", 60)


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


def test_a_rank_that_does_not_come_is_named_and_its_gang_begins_again_elsewhere(
    node: LiveNode, program: str, public_folder: Path
) -> None:
    words = ("--rounds", "60", "--absent", "1:20")
    rule = {"rank_trouble": "restart", "rank_patience_s": 12, "retries": 1, "backoff_s": 1}
    job = gang(node, program, public_folder / "restarted", *words, **rule)
    named(node, job, "hung", 1)
    wait_until(lambda: trouble(node, job) != "", "the live trace names the rank", 30)
    said = trouble(node, job)
    assert said.startswith("ncclAllReduce #22: ranks 0,2 wait since ") and said.endswith(
        "for rank 1"
    )
    first = node.ask(lambda client: client.get(job))
    (late,) = [rank.devices[0].id for rank in first.ranks if rank.rank == 1]
    view = node.wait(job)
    assert view.state == "succeeded" and view.attempt == 2, view.reason
    (before,) = view.attempts
    assert f"rank 1 on device {late}: ncclAllReduce #22: " in before.reason
    assert late not in {device.id for rank in view.ranks for device in rank.devices}


def test_a_device_gets_no_more_jobs_where_job_and_node_say_so(
    node: LiveNode, program: str, public_folder: Path
) -> None:
    # It would take more than a minute, so it ends by the rule.
    words = ("--rounds", "4000", "--work", "10000", "--slow", "2:100:50")
    rule = {"rank_trouble": "cordon", "rank_patience_s": 12}
    job = gang(node, program, public_folder / "cordoned", *words, **rule)
    found = named(node, job, "slow", 2)
    assert found.longer is not None and found.longer > 0.5
    first = node.ask(lambda client: client.get(job))
    (late,) = [rank.devices[0].id for rank in first.ranks if rank.rank == 2]
    view = node.wait(job)
    assert view.state == "failed"
    assert f"rank 2 on device {late}: rank 2 came last in " in view.reason
    (row,) = [row for row in cards(node) if row.id == late]
    assert row.unavailable.startswith("sick: a rank on it kept others waiting"), row
