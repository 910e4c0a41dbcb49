# SPDX-License-Identifier: Apache-2.0
"""`stoker bench decide`: what it fills, what it counts and what it says; never how long it took."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler import bench_cluster
from stoker.scheduler import bench_decide as bench
from stoker.scheduler.names import name_id
from stoker.scheduler.policies import Placement
from stoker.scheduler.records import SUBMIT, Place, unpack_commands, unpack_places
from stoker.scheduler.sim.openb import Machine, TraceTask

TINY = bench.DecideLoad(
    [Machine(f"n{at}", 32_000, 1 << 36, 4, "A" if at % 2 else "B") for at in range(12)],
    [TraceTask(1000, 1 << 30, 1, 1000), TraceTask(900, 1 << 30, 1, 1000),
     TraceTask(2000, 1 << 30, 0, 0)],
    fill_pct=80.0, decisions=200, warm=20, batches=3, naive=20, unique=30, rounds=2,
)  # fmt: skip


def test_published_proportions() -> None:
    machines, tasks = bench_cluster.openb_machines(), bench_cluster.openb_tasks()
    assert (len(machines), sum(m.gpus for m in machines)) == (1213, 6212)
    kinds = Counter((t.gpus, t.gpu_milli == 1000) for t in tasks)
    assert len(tasks) == 8152
    assert kinds == {
        (0, False): 1088, (1, False): 3078, (1, True): 3911, (2, True): 16, (4, True): 15,
        (8, True): 44,
    }  # fmt: skip
    assert len({m.name for m in machines}) == len(machines)


def test_uniform_machines() -> None:
    assert {m.gpus for m in bench_cluster.uniform_machines(5, 8)} == {8}
    for nodes, gpus in ((0, 8), (65_536, 8), (1, 0), (1, 65)):
        with pytest.raises(BadRequest, match=f"not {nodes} of {gpus}"):
            bench_cluster.uniform_machines(nodes, gpus)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return bench.measure(TINY)


def test_a_measurement_names_what_it_measured(result: dict[str, Any]) -> None:
    assert (result["nodes"], result["devices"], result["threads"]) == (12, 48, 1)
    assert result["placement"] == "best"
    assert result["decisions"] == 200
    assert result["shapes"] == 3
    assert len(result["rounds_p99_us"]) == 2
    assert result["p99_us"] == min(result["rounds_p99_us"])
    assert all(isinstance(words, str) and words for words in result["measured"].values())


def test_the_level_is_reached_and_what_fits_is_placed(result: dict[str, Any]) -> None:
    assert 76.0 <= result["fill_pct"] <= 80.0
    assert result["placed"] == 200
    assert 0 < result["batches_placed"] <= 3 * bench.BATCH
    assert result["first_seen_placed"] == 30
    assert result["jobs_running"] >= 0.76 * 48


def test_a_full_rescan_decides_the_same(result: dict[str, Any]) -> None:
    assert result["naive_agrees"] == result["naive_rescans"] == 20


def test_fastest_decides_by_speeds_that_jobs_of_the_bench_have_measured() -> None:
    load = TINY._replace(placement=Placement.FASTEST, rounds=1)
    assert {submit.series for submit in bench.submits(TINY)} == {0}
    assert len({submit.series for submit in bench.submits(load)}) == 3
    result = bench.measure(load)
    assert result["placement"] == "fastest"
    assert result["naive_agrees"] == result["naive_rescans"] == 20
    core = bench.cluster(load)
    packed = b"".join(submit.pack() for submit in bench.submits(load))
    core.bench_decide(packed, bench.level_milli(load), 1, warm=200)
    assert {speed.model for speed in core.speeds()} == {name_id("A"), name_id("B")}


def test_figures_are_ordered(result: dict[str, Any]) -> None:
    for prefix in ("", "apply_", "both_", "first_seen_", "naive_rescan_"):
        low, high, top = (result[f"{prefix}{name}_us"] for name in ("p50", "p99", "p999"))
        assert 0 < low <= high <= top
    assert result["both_p50_us"] >= result["p50_us"]
    assert 0 < result["committed_per_s"] <= result["decisions_per_s"]


def test_the_same_seed_is_the_same_work() -> None:
    one, two = (bench.measure(TINY._replace(rounds=1)) for _ in range(2))
    same = ("placed", "jobs_running", "fill_pct", "batches_placed", "first_seen_placed")
    assert [one[name] for name in same] == [two[name] for name in same]


def test_the_core_is_sound_after_it() -> None:
    live = bench._Live(TINY)
    assert live.core.check() == ""
    assert live.core.scores_check()
    assert live.used == live.core.queue(0, 0).used_milli  # type: ignore[union-attr]
    assert live.used <= bench.level_milli(TINY)


def test_through_python_is_a_request_in_and_a_decision_out() -> None:
    ticks = count(0, 5_000)
    result = bench.through_python(TINY, lambda: next(ticks))
    assert result["through"] == "python"
    assert result["p50_us"] == result["p99_us"] == 5.0
    assert result["decisions"] == result["placed"] == 200


def test_decisions_are_those_among_the_commands() -> None:
    proposal = bench.cluster(TINY).propose(bench.submits(TINY), 5, measure=False)
    commands = [c for c in unpack_commands(proposal.commands) if isinstance(c, Place)]
    assert list(unpack_places(proposal.commands)) == commands
    assert len(commands) == len(TINY.tasks)
    assert list(unpack_places(b"")) == []


def test_a_live_arrival_is_committed() -> None:
    live = bench._Live(TINY)
    before = live.core.counters()["placed"]
    told = [live.arrive(lambda: 7) for _ in range(20)]
    placed = [decision for took, decision in told if decision is not None and took == 0]
    assert len(placed) >= 10
    assert all(isinstance(decision, Place) for decision in placed)
    assert live.core.counters()["placed"] == before + len(placed)
    assert live.core.check() == ""


def test_what_does_not_fit_is_a_decision_and_does_not_stay() -> None:
    whole = bench.DecideLoad(
        [Machine("n", 8_000, 1 << 34, 2, "A")], [TraceTask(5000, 0, 1, 1000)], 100.0, decisions=10,
        warm=0, batches=1, naive=1, unique=1, rounds=1,
    )  # fmt: skip
    result = bench.measure(whole)
    assert result["fill_pct"] == 50.0
    assert result["placed"] == 0
    assert result["naive_agrees"] == 1


@pytest.mark.parametrize("wrong", [{"decisions": 0}, {"naive": bench.TIMES_MAX + 1}, {"unique": 0}])
def test_bounds(wrong: dict[str, int]) -> None:
    with pytest.raises(BadRequest, match="decisions of each sort"):
        bench.measure(TINY._replace(**wrong))
    with pytest.raises(BadRequest, match="decisions, not 0"):
        bench.through_python(TINY._replace(decisions=0), lambda: 0)


def test_no_request_for_nothing() -> None:
    with pytest.raises(BadRequest):
        bench.cluster(TINY).bench_decide(b"", 0, 1)
    assert bench.submits(TINY)[0].pack()[2] == SUBMIT


def test_gangs_within_domains_are_placed_ended_and_placed_again() -> None:
    load = TINY._replace(domains=3, gang=2, rounds=1)
    result = bench.measure(load)
    assert (result["domains"], result["tasks_of_each_job"]) == (3, 2)
    assert result["placed"] == 200
    assert 70.0 <= result["fill_pct"] <= 80.0
    assert "naive_agrees" not in result
    core = bench.cluster(load)
    packed = b"".join(submit.pack() for submit in bench.submits(load))
    core.bench_decide(packed, bench.level_milli(load), 1, warm=200)
    domain = {node: core.labels(node)[0].label for node in core.nodes()}
    assert sorted(Counter(domain.values()).values()) == [4, 4, 4]
    nodes: dict[int, set[int]] = {}
    for node in core.nodes():
        for task in core.node_tasks(node):
            nodes.setdefault(task.job, set()).add(domain[node])
    assert nodes and all(len(each) == 1 for each in nodes.values())
    assert core.check() == ""


def test_domains_and_gangs_that_cannot_be_are_refused() -> None:
    for wrong in ({"domains": 13}, {"domains": 3, "gang": 1}, {"domains": 3, "gang": 65}):
        with pytest.raises(BadRequest):
            bench.measure(TINY._replace(**wrong))


def test_records_of_several_sizes_are_refused() -> None:
    one, gang = bench.submits(TINY)[0], bench.submits(TINY._replace(domains=2))[0]
    for packed in (one.pack() + gang.pack(), one.pack()[:-1], one.pack()[:8]):
        with pytest.raises(BadRequest):
            bench.cluster(TINY).bench_decide(packed, 4000, 1, decisions=1)
