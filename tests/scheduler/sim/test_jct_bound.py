# SPDX-License-Identifier: Apache-2.0
"""The bound on waiting: what it is in cases worked out by hand, and where there is none."""

from __future__ import annotations

import pytest

from stoker.scheduler.policies import Order
from stoker.scheduler.sim.jct import Settings, replay
from stoker.scheduler.sim.jct_cluster import cluster_of
from stoker.scheduler.sim.jct_policy import Policy
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob

FIFO = Policy("fifo", Order.FIFO, "")
CONSERVATIVE = Policy("conservative", Order.CONSERVATIVE, "")
TWO_NODES = cluster_of([("gpu", 8)], 4)


def job(at: int, gpus: int, runs: int) -> TraceJob:
    return TraceJob("", "a", at * SECOND, gpus, runs * SECOND)


def bounds(jobs: list[TraceJob], policy: Policy, settings: Settings = Settings()) -> list[object]:  # noqa: B008
    """In seconds, rounded up."""
    return [
        run.bound_ns if run.bound_ns is None else -(-run.bound_ns // SECOND)
        for run in replay(jobs, TWO_NODES, policy, settings).runs
    ]


def test_work_ahead_is_spread_over_what_must_be_busy() -> None:
    """One device waits while all 8 are busy, four on a node while one of each node is."""
    jobs = [job(0, 4, 80), job(10, 1, 8), job(10, 4, 5)]
    assert bounds(jobs, CONSERVATIVE) == [0, 280 // 8, -(-288 // 2)]


def test_in_strict_order_the_most_demanding_one_so_far_counts() -> None:
    jobs = [job(0, 4, 80), job(10, 1, 8), job(10, 4, 5)]
    assert bounds(jobs, FIFO) == [0, 280 // 2, 288 // 2]


def test_a_gang_over_all_nodes_waits_for_any_busy_device() -> None:
    assert bounds([job(0, 1, 30), job(0, 8, 5)], CONSERVATIVE) == [0, 30]


def test_what_ended_is_no_work_ahead() -> None:
    assert bounds([job(0, 8, 30), job(40, 8, 5)], FIFO) == [0, 0]


@pytest.mark.parametrize("order", [Order.ANY, Order.BACKFILL, Order.SHORTEST])
def test_other_orders_promise_nothing(order: Order) -> None:
    assert bounds([job(0, 8, 30), job(1, 8, 5)], Policy("x", order, "")) == [None, None]


def test_wrong_estimates_void_reservations_and_not_the_order_of_arrival() -> None:
    jobs, wrong = [job(0, 8, 30), job(1, 8, 5)], Settings(estimate_error=0.5)
    assert bounds(jobs, CONSERVATIVE, wrong) == [None, None]
    assert bounds(jobs, FIFO, wrong) == [0, 8 * 29]
