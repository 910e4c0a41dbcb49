# SPDX-License-Identifier: Apache-2.0
"""Figures of replays that can be worked out by hand."""

from __future__ import annotations

import pytest

from stoker.scheduler.sim import jct_report
from stoker.scheduler.sim.jct import replay
from stoker.scheduler.sim.jct_cluster import cluster_of
from stoker.scheduler.sim.jct_policy import POLICIES
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob

ONE_GPU = cluster_of([("gpu", 1)], 1)


def job(at: int, runs: int, tenant: str) -> TraceJob:
    return TraceJob("", tenant, at * SECOND, 1, runs * SECOND)


def test_figures_of_two_jobs_on_one_device() -> None:
    """The first runs 0 to 30, the second waits from 10 to 30 and ends at 90."""
    told = jct_report.figures(
        replay([job(0, 30, "a"), job(10, 60, "b")], ONE_GPU, POLICIES["fifo"])
    )
    assert (told.jobs, told.refused, told.unfinished, told.preemptions) == (2, {}, 0, 0)
    assert (told.avg_jct_s, told.p50_jct_s, told.p99_jct_s) == (55, 30, 80)
    assert (told.makespan_s, told.utilisation) == (90, 1.0)
    assert (told.avg_wait_s, told.longest_wait_s) == (10, 20)
    assert (told.bound_s, told.bound_used, told.bound_broken) == (20, 1.0, 0)
    assert told.gpu_hours == told.useful_gpu_hours == pytest.approx(90 / 3600)
    assert (told.worst_tenant, told.worst_slowdown) == ("b", pytest.approx(80 / 60))
    assert told.jain == pytest.approx((1 + 0.75) ** 2 / (2 * (1 + 0.75**2)))
    assert [(t.name, t.jobs, t.avg_wait_s, t.slowdown) for t in told.tenants] == [
        ("a", 1, 0, 1.0), ("b", 1, 20, pytest.approx(80 / 60)),
    ]  # fmt: skip


def test_waiting_longer_than_strict_order_allows_is_counted() -> None:
    """The second is passed by a shorter job that comes later: 15 s of waiting, 10 were the most."""
    jobs = [job(0, 20, "a"), job(10, 30, "a"), job(15, 5, "a")]
    told = jct_report.figures(replay(jobs, ONE_GPU, POLICIES["sjf"]))
    assert (told.bound_s, told.bound_used, told.bound_broken) == (10, 1.5, 1)
    assert told.longest_first_wait_s == 15


def test_nothing_that_ended_gives_no_figures() -> None:
    too_large = TraceJob("", "a", 0, 2, SECOND)
    told = jct_report.figures(replay([too_large], ONE_GPU, POLICIES["fifo"]))
    assert sum(told.refused.values()) == 1
    for value in (told.avg_jct_s, told.p99_jct_s, told.makespan_s, told.jain, told.utilisation,
                  told.worst_tenant, told.longest_wait_s, told.p99_slowdown):  # fmt: skip
        assert value is None


@pytest.mark.parametrize(
    ("shares", "index"), [([1.0, 1.0], 1.0), ([1.0, 0.0], 0.5), ([2.0, 1.0, 1.0], 16 / 18)]
)
def test_jain(shares: list[float], index: float) -> None:
    assert jct_report.jain(shares) == pytest.approx(index)


def test_jain_of_nobody() -> None:
    assert jct_report.jain([]) is None


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (50, 50), (99, 99), (100, 100)])
def test_percentiles_are_values_that_were_seen(percent: int, value: int) -> None:
    assert jct_report.percentile(range(100, 0, -1), percent) == value


def test_the_slow_down_of_a_job_of_a_second_is_bounded() -> None:
    done = replay([job(0, 19, "a"), job(0, 1, "a")], ONE_GPU, POLICIES["fifo"])
    assert [jct_report.slowdown(run) for run in done.runs] == [1.0, 2.0]


def test_the_curve_goes_up_to_every_job() -> None:
    jobs = [job(i, 1 + i % 7, "a") for i in range(1000)]
    points = jct_report.curve(replay(jobs, ONE_GPU, POLICIES["fifo"]).runs)
    assert points == sorted(points) and points[-1][1] == 100
    assert len(points) <= jct_report.CURVE_POINTS + 1
