# SPDX-License-Identifier: Apache-2.0
"""One run in each of its forms, and the summary of several."""

from __future__ import annotations

import pickle

import pytest

from stoker.scheduler.sim.openb_run import (
    POLICIES,
    OpenbResult,
    OpenbRun,
    RunRules,
    Workload,
    _in_random_order,
    deviation,
    mean_curve,
    run,
    summary,
)
from tests.scheduler.sim.small import HALF, HOST, ONE, TWO, machine

MACHINES = [machine("a", 2), machine("b", 2, "G2")]
STAYING = [task._replace(created_s=0, deleted_s=60) for task in (ONE, HALF, HOST)]
WORKLOAD = Workload("mine", MACHINES, STAYING)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_the_same_twice_and_fills_the_cluster(policy: str) -> None:
    what = OpenbRun(WORKLOAD, policy, 42)
    result = run(what)
    assert result == run(pickle.loads(pickle.dumps(what)))
    assert result.alloc_pct >= 75
    assert result.curve[-1] == result.alloc_pct
    assert result.dropped < result.arrived


def test_departures_are_means_over_time() -> None:
    result = run(OpenbRun(WORKLOAD, "pack", 42, RunRules(50, departures=True)))
    assert result.arrived == len(STAYING)
    assert result.curve == []
    assert result.peak_pct is not None
    assert 0 < result.alloc_pct <= result.peak_pct <= 100


def test_migrations_are_counted_and_place_more() -> None:
    """Halves of one model's machines are in the way of a task of two GPUs."""
    tasks = [HALF, TWO, ONE]
    most = Workload("mine", [machine(name, 2) for name in "abcd"], tasks)
    still = [run(OpenbRun(most, "spread", seed)) for seed in range(20)]
    moved = [run(OpenbRun(most, "spread", seed, RunRules(migrations=50))) for seed in range(20)]
    assert sum(r.dropped for r in moved) <= sum(r.dropped for r in still)
    assert all(r.moves == 0 for r in still)
    assert all(r.moves <= 50 for r in moved)


def test_power_has_a_point_for_each_percent() -> None:
    result = run(OpenbRun(WORKLOAD, "pack", 42, RunRules(measure_power=True)))
    assert result.watts is not None
    assert len(result.watts) == len(result.curve)
    assert result.watts == sorted(result.watts)
    assert result.bound is not None
    assert all(low <= drawn for low, drawn in zip(result.bound, result.watts, strict=True))
    assert result.watts[0] == 15 + 15 + 2 * 10 + 2 * 30


def test_a_summary_is_mean_and_population_deviation() -> None:
    results = [
        OpenbResult("default", "fgd", seed, pct, 9, 2, [0.0, pct])
        for seed, pct in ((1, 90), (2, 94))
    ]
    row = summary(results, 6212, RunRules())
    assert (row["mean_alloc_pct"], row["sd_pct"]) == (92, 2)
    assert (row["published_fgd_pct"], row["above_published_pct"]) == (95.39, -3.39)
    assert row["curve_pct"] == [0, 92]
    assert [each["seed"] for each in row["runs"]] == [1, 2]
    assert summary(results, 6212, RunRules(migrations=1))["published_fgd_pct"] is None


def test_deviation_and_curves() -> None:
    assert deviation([1, 3]) == 1
    assert mean_curve([[1, 2, 3], [3, 4]]) == [2, 3]


def test_nodes_are_in_another_order_for_each_seed() -> None:
    machines = [machine(f"n{number:02}", 1) for number in range(20)]
    orders = [_in_random_order(Workload("w", machines, [ONE]), seed) for seed in (42, 42, 43)]
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order.machines) == machines for order in orders)
