# SPDX-License-Identifier: Apache-2.0
"""The bound on waiting in strict order of arrival, in cases worked out by hand."""

from __future__ import annotations

import pytest

from stoker.scheduler.sim.jct import ReplaySettings, replay
from stoker.scheduler.sim.jct_cluster import cluster_of
from stoker.scheduler.sim.jct_policy import POLICIES
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob

TWO_NODES = cluster_of([("gpu", 8)], 4)


def job(at: int, gpus: int, runs: int) -> TraceJob:
    return TraceJob("", "a", at * SECOND, gpus, runs * SECOND)


def bounds(jobs: list[TraceJob], policy: str = "fifo") -> list[int]:
    """Return the bounds in seconds, rounded up."""
    done = replay(jobs, TWO_NODES, POLICIES[policy], ReplaySettings(restart_s=0))
    return [-(-run.bound_ns // SECOND) for run in done.runs]


def test_work_ahead_is_spread_over_what_must_be_busy() -> None:
    """One device waits while all 8 are busy, a whole node while one device of each is."""
    assert bounds([job(0, 1, 80), job(16, 1, 8), job(16, 1, 8)]) == [0, 64 // 8, 72 // 8]
    assert bounds([job(0, 4, 80), job(10, 4, 5)]) == [0, 280 // 2]


def test_the_most_demanding_one_so_far_counts() -> None:
    assert bounds([job(0, 4, 80), job(10, 1, 8)]) == [0, 280 // 2]


def test_a_gang_over_all_nodes_waits_for_any_busy_device() -> None:
    assert bounds([job(0, 1, 30), job(0, 8, 5)]) == [0, 30]


def test_what_ended_or_was_done_is_no_work_ahead() -> None:
    assert bounds([job(0, 8, 30), job(40, 8, 5)]) == [0, 0]


def test_work_that_a_stopped_job_has_done_is_not_ahead() -> None:
    """At 20 the first has done 10 of its 100 s, as it made room for the second."""
    jobs = [job(0, 8, 100), job(10, 8, 10), job(20, 8, 50)]
    assert bounds(jobs, "srtf") == [0, 8 * 90, 8 * 90]


@pytest.mark.parametrize("policy", ["sjf", "default"])
def test_other_orders_are_held_against_the_same_bound(policy: str) -> None:
    assert bounds([job(0, 8, 30), job(1, 8, 5)], policy) == [0, 8 * 29]
