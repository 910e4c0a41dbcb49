# SPDX-License-Identifier: Apache-2.0
"""Many runs as one report: work and energy beside the bound and the equal limits, what was broken.

Pure. Invariant: every figure covers all the runs that its name says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stoker.agent.power.sim.run import PowerResult

TARGETS: Final = {
    "work_of_bound_p5": 0.97,
    "energy_per_work_of_static_median": 0.95,
    "overshoot_c": 1.0,
    "overshoot_perturbed_c": 3.0,
}
"""Targets of the loop over all budgets together."""


class SimCase(NamedTuple):
    """One seed at one budget: the bound, and every policy's result."""

    seed: int
    budget_pct: float
    bound: float
    results: dict[str, PowerResult]
    """Policy -> result without a perturbation."""
    troubled: PowerResult | None
    """Result of the loop with one perturbation."""


def summary(cases: Sequence[SimCase]) -> dict[str, Any]:
    """Figures of the report."""
    budgets = sorted({case.budget_pct for case in cases})
    parts = {f"{pct:g}": [case for case in cases if case.budget_pct == pct] for pct in budgets}
    rows = {name: _rows(part) for name, part in {**parts, "all": list(cases)}.items()}
    troubles = _troubles(cases)
    return {"budgets": rows, "perturbations": troubles, "targets": _targets(rows["all"], troubles)}


def _rows(cases: Sequence[SimCase]) -> dict[str, dict[str, float]]:
    names = list(dict.fromkeys(name for case in cases for name in case.results))
    return {name: _row(cases, name) for name in names}


def _row(cases: Sequence[SimCase], policy: str) -> dict[str, float]:
    results = [case.results[policy] for case in cases]
    of_bound = np.array([r.work / case.bound for r, case in zip(results, cases, strict=True)])
    static = [case.results["static"] for case in cases]
    of_static = np.array([r.work / s.work for r, s in zip(results, static, strict=True)])
    energy = np.array(
        [r.energy_j / r.work / (s.energy_j / s.work) for r, s in zip(results, static, strict=True)]
    )
    return {
        "runs": len(results),
        "work_of_bound_p5": _figure(np.percentile(of_bound, 5)),
        "work_of_bound_median": _figure(np.median(of_bound)),
        "work_of_bound_min": _figure(of_bound.min()),
        "work_of_static_median": _figure(np.median(of_static)),
        "work_of_static_min": _figure(of_static.min()),
        "runs_with_less_work_than_static": int((of_static < 1).sum()),
        "energy_per_work_of_static_median": _figure(np.median(energy)),
        **_kept(results),
    }


def _kept(results: Sequence[PowerResult]) -> dict[str, float]:
    """Sums of what was kept and what was broken."""
    return {
        "seconds_over_budget": sum(r.over_seconds for r in results),
        "worst_second_over_pct": _figure(max(r.worst_over_pct for r in results)),
        "looks_with_limits_over_budget": sum(r.limits_over for r in results),
        "overshoot_c": _figure(max(r.overshoot_c for r in results)),
        "writes_per_card_and_s": _figure(float(np.mean([r.writes for r in results])) / 8 / 170),
        "reversals_per_run": _figure(float(np.mean([r.reversals for r in results]))),
    }


def _troubles(cases: Sequence[SimCase]) -> dict[str, dict[str, float]]:
    found: dict[str, list[SimCase]] = {}
    for case in cases:
        if case.troubled is not None:
            found.setdefault(case.troubled.run.trouble, []).append(case)
    return {name: _trouble(part) for name, part in sorted(found.items())}


def _trouble(cases: Sequence[SimCase]) -> dict[str, float]:
    results = [case.troubled for case in cases if case.troubled is not None]
    work = np.array(
        [r.work / case.results["stoker"].work for r, case in zip(results, cases, strict=True)]
    )
    return {
        "runs": len(results),
        "work_of_undisturbed_p5": _figure(np.percentile(work, 5)),
        "work_of_undisturbed_median": _figure(np.median(work)),
        **_kept(results),
    }


def _targets(
    row: dict[str, dict[str, float]], troubles: dict[str, dict[str, float]]
) -> dict[str, dict[str, Any]]:
    ours = row["stoker"]
    found = {name: ours[name] for name in TARGETS if name in ours}
    hottest = [trouble["overshoot_c"] for trouble in troubles.values()]
    if hottest:
        found["overshoot_perturbed_c"] = max(hottest)
    return {
        name: {"found": value, "target": TARGETS[name], "reached": _reached(name, value)}
        for name, value in found.items()
    }


def _reached(name: str, value: float) -> bool:
    least = name == "work_of_bound_p5"
    return value >= TARGETS[name] if least else value <= TARGETS[name]


def _figure(value: float | np.floating[Any]) -> float:
    return round(float(value), 4)
