# SPDX-License-Identifier: Apache-2.0
"""Means over time by hand."""

from __future__ import annotations

from stoker.scheduler.sim.arrivals import Stay
from stoker.scheduler.sim.steady_state import replay_stays
from tests.scheduler.sim.small import HALF, ONE, cluster, machine


def test_what_is_given_out_is_weighted_by_time() -> None:
    """One GPU: whole until 10, free until 20, half from 20 to 40, free until the last at 50."""
    tasks = [ONE, HALF]
    there = [Stay(0, 0, 10)]
    later = [Stay(1, 20, 40), Stay(0, 30, 130), Stay(1, 50, 60)]
    done = replay_stays(cluster([machine("a", 1)], tasks), tasks, there, later, 1000)
    assert (done.arrived, done.dropped) == (3, 1)
    assert done.mean_pct == 100 * (10 + 10) / 50
    assert done.peak_pct == 100
    assert done.dropped_demand_pct == 100 * 100 / (10 + 100 + 5)


def test_the_first_fill_is_not_counted() -> None:
    tasks = [ONE]
    there = [Stay(0, 0, 100), Stay(0, 0, 100)]
    done = replay_stays(cluster([machine("a", 1)], tasks), tasks, there, [Stay(0, 100, 101)], 1000)
    assert (done.arrived, done.dropped, done.mean_pct) == (1, 0, 100)
