# SPDX-License-Identifier: Apache-2.0
"""Replays small enough to be worked out by hand, and what must hold for any replay."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.policies import Order
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.jct import ReplaySettings, TraceReplay, replay
from stoker.scheduler.sim.jct_cluster import cluster_of
from stoker.scheduler.sim.jct_policy import POLICIES, TracePolicy, policies_of
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob

ONE_NODE = cluster_of([("gpu", 2)], 2)


def job(at: int, gpus: int, runs: int, tenant: str = "a") -> TraceJob:
    return TraceJob("", tenant, at * SECOND, gpus, runs * SECOND)


def ends(done: TraceReplay) -> list[float]:
    """Return when each job ended, in seconds."""
    assert not done.refused and not done.unfinished
    return [(run.end_ns or 0) / SECOND for run in done.runs]


LINE = [job(0, 1, 100), job(1, 2, 10), job(2, 1, 5)]
"""A long job on half the node, one that wants all of it, and a short one that would fit."""


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", [100, 110, 115]),
        ("any", [100, 110, 7]),
        ("sjf", [100, 110, 7]),
        ("backfill", [100, 110, 7]),
        ("conservative", [100, 110, 7]),
        ("srtf", [175, 46, 7]),
    ],
)
def test_who_goes_first_by_policy(policy: str, expected: list[float]) -> None:
    """srtf: the second stops the first at 1 and is stopped by the third at 2, where the first goes
    on beside it; at 7 the second stops that again, pays 30 s and has 9 to go; the first then pays
    30 s at 46 and has 99 to go."""
    assert ends(replay(LINE, ONE_NODE, POLICIES[policy])) == expected


@pytest.mark.parametrize("policy", ["fifo", "any", "backfill", "conservative"])
def test_a_job_that_can_never_start_stops_the_others_in_strict_order_alone(policy: str) -> None:
    done = replay(LINE, ONE_NODE, POLICIES[policy], ReplaySettings(estimates=0.0, stuck=True))
    assert done.unfinished == (3 if policy == "fifo" else 0)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("backfill", [10, 20, 30, 40]), ("fair", [10, 30, 40, 20]), ("fair-queues", [10, 30, 40, 20])],
)
def test_a_tenant_with_one_job_is_next_where_the_policy_is_fair(
    policy: str, expected: list[float]
) -> None:
    jobs = [job(0, 2, 10, "many"), job(1, 2, 10, "many"), job(2, 2, 10, "many"), job(3, 2, 10, "b")]
    assert ends(replay(jobs, ONE_NODE, POLICIES[policy])) == expected


def test_shortest_first_overtakes_in_line() -> None:
    jobs = [job(0, 2, 50), job(1, 2, 100), job(2, 2, 10), job(3, 2, 40)]
    assert ends(replay(jobs, ONE_NODE, POLICIES["sjf"])) == [50, 200, 60, 100]


def test_a_stopped_job_goes_on_where_it_was_and_pays_for_the_restart() -> None:
    """It works 10 s, waits 5 s, and needs 2 s to be what it was before its other 90 s."""
    jobs = [job(0, 2, 100), job(10, 2, 5)]
    done = replay(jobs, ONE_NODE, POLICIES["srtf"], ReplaySettings(restart_s=2))
    assert ends(done) == [10 + 5 + 2 + 90, 15]
    assert [(run.preemptions, run.wait_ns // SECOND) for run in done.runs] == [(1, 5), (0, 0)]


def test_attained_service_counts_whole_hours_before_anybody_is_stopped() -> None:
    jobs = [job(0, 2, 20_000), job(60, 2, 100)]
    done = replay(jobs, ONE_NODE, POLICIES["default"])
    assert ends(done) == [20_000 + 100 + 30, 3700]


def test_an_estimate_lets_a_short_job_pass_and_no_longer_one() -> None:
    jobs = [job(0, 1, 100), job(1, 2, 10), job(2, 1, 98), job(3, 1, 99)]
    for policy in ("backfill", "conservative"):
        assert ends(replay(jobs, ONE_NODE, POLICIES[policy])) == [100, 110, 100, 209]


def test_waiting_is_the_time_without_devices() -> None:
    done = replay(LINE, ONE_NODE, POLICIES["fifo"])
    assert [run.wait_ns // SECOND for run in done.runs] == [0, 99, 108]
    assert [run.jct_ns // SECOND for run in done.runs] == [100, 109, 113]


def test_a_gang_waits_for_all_its_nodes() -> None:
    cluster = cluster_of([("gpu", 4)], 2)
    jobs = [job(0, 1, 30), job(0, 4, 10), job(0, 2, 7)]
    assert ends(replay(jobs, cluster, POLICIES["fifo"])) == [30, 40, 47]
    assert ends(replay(jobs, cluster, POLICIES["any"])) == [30, 40, 7]


def test_a_run_takes_as_long_as_its_device_needs() -> None:
    models = (("fast", 10 * SECOND), ("slow", 40 * SECOND))
    jobs = [TraceJob("", "a", 0, 1, 40 * SECOND, models) for _ in range(3)]
    cluster = cluster_of([("slow", 1), ("fast", 1)], 1)
    assert ends(replay(jobs, cluster, POLICIES["fifo"])) == [10, 40, 20]


def test_a_gang_over_two_models_is_as_slow_as_the_slower() -> None:
    models = (("fast", 10 * SECOND), ("slow", 40 * SECOND))
    cluster = cluster_of([("slow", 1), ("fast", 1)], 1)
    jobs = [TraceJob("", "a", 0, 2, 40 * SECOND, models)]
    assert ends(replay(jobs, cluster, POLICIES["fifo"])) == [40]


def test_a_job_runs_only_on_models_that_its_trace_knows() -> None:
    jobs = [TraceJob("", "a", 0, 1, 10 * SECOND, (("fast", 10 * SECOND),)) for _ in range(2)]
    cluster = cluster_of([("slow", 1), ("fast", 1)], 1)
    assert ends(replay(jobs, cluster, POLICIES["any"])) == [10, 20]
    with pytest.raises(BadRequest, match="run on fast, of which the cluster has none"):
        replay(jobs, ONE_NODE, POLICIES["any"])


def test_a_job_that_no_cluster_of_this_size_can_hold_is_refused_by_the_core() -> None:
    done = replay([job(0, 4, 10), job(0, 1, 5)], ONE_NODE, POLICIES["fifo"])
    assert sum(done.refused.values()) == 1 and not done.unfinished
    assert [run.index for run in done.runs] == [1]


def test_jobs_that_arrive_together_are_more_than_one_batch() -> None:
    jobs = [job(0, 1, 1) for _ in range(2500)]
    done = replay(jobs, ONE_NODE, POLICIES["fifo"])
    assert ends(done)[-1] == 1250 and done.peak_waiting == 2498


def test_wrong_estimates_change_the_order_and_not_the_run_times() -> None:
    jobs = [job(0, 2, 100), *(job(1, 2, 10 + i) for i in range(8))]
    exact = replay(jobs, ONE_NODE, POLICIES["sjf"])
    wrong = replay(jobs, ONE_NODE, POLICIES["sjf"], ReplaySettings(estimate_error=9.0, seed=3))
    assert ends(exact) != ends(wrong)
    assert (
        max(ends(exact)) == max(ends(wrong)) == sum(run.job.run_ns for run in exact.runs) / SECOND
    )


def random_jobs(seed: int, count: int) -> list[TraceJob]:
    chance = Chance(seed)
    jobs, at = [], 0
    for _ in range(count):
        at += chance.below(8)
        jobs.append(job(at, (1, 1, 1, 2, 4, 8)[chance.below(6)], 1 + chance.below(60),
                        "abc"[chance.below(3)]))  # fmt: skip
    return jobs


CLUSTER = cluster_of([("gpu", 11)], 4)


@pytest.mark.parametrize("policy", policies_of("all"), ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_holds_under_every_policy(policy: TracePolicy, seed: int) -> None:
    jobs = random_jobs(seed, 150)
    done = replay(jobs, CLUSTER, policy, ReplaySettings(restart_s=2))
    assert len(done.runs) == len(jobs) and not done.refused and not done.unfinished
    for run in done.runs:
        assert run.held_ns >= run.job.run_ns
        assert run.held_ns <= run.job.run_ns + run.preemptions * 2 * SECOND
        assert run.wait_ns >= 0
        assert run.first_wait_ns <= run.wait_ns
        assert policy.order != Order.FIFO or run.wait_ns <= run.bound_ns
    used = sum(run.held_ns * run.job.gpus for run in done.runs)
    assert used <= CLUSTER.gpus * max(run.end_ns or 0 for run in done.runs)


@pytest.mark.parametrize("policy", policies_of("all"), ids=lambda policy: policy.name)
def test_the_same_trace_gives_the_same_replay(policy: TracePolicy) -> None:
    jobs = random_jobs(7, 80)
    first, second = (replay(jobs, CLUSTER, policy, ReplaySettings(2, 0.5, 1)) for _ in range(2))
    assert ends(first) == ends(second)


def test_progress_is_told_in_steps() -> None:
    told: list[float] = []
    replay([job(0, 1, 1) for _ in range(600)], ONE_NODE, POLICIES["fifo"], progress=told.append)
    assert told == [256, 256]
