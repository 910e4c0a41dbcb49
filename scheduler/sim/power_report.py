# SPDX-License-Identifier: Apache-2.0
"""Cluster power by placement at equal allocation, for the report of `stoker sim power`.

Pure. Two placements are compared at the same share of allocated GPUs, so that placing less is no
saving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stoker.scheduler.sim.openb_run import OpenbResult, mean, mean_curve
from stoker.scheduler.sim.power import MeanDraw, saving_pct

BASELINE: Final = "fgd"
STEP_PCT: Final = 5
"""The step between the points of the comparison, in percent."""
LOW_LOAD_PCT: Final = 50
"""The largest share of allocated GPUs that counts as low load."""


def draw(results: Sequence[OpenbResult]) -> MeanDraw:
    """Return the mean over seeds of one workload under one placement."""
    return MeanDraw(
        mean_curve([result.curve for result in results]),
        mean_curve([result.watts or [] for result in results]),
    )


def bound(results: Sequence[OpenbResult]) -> MeanDraw:
    """Return a lower bound on the draw of any placement of the tasks that this one placed."""
    return MeanDraw(
        mean_curve([result.curve for result in results]),
        mean_curve([result.bound or [] for result in results]),
    )


def comparison(name: str, by_policy: Mapping[str, Sequence[OpenbResult]]) -> dict[str, Any]:
    """Return the baseline of one workload, and the savings of each other placement."""
    draws = {policy: draw(results) for policy, results in by_policy.items()}
    rows = [_row(policy, found, draws.get(BASELINE)) for policy, found in draws.items()]
    if BASELINE in draws:
        possible = savings(bound(by_policy[BASELINE]), draws[BASELINE])
        return {"name": name, "policies": rows, "possible": possible}
    return {"name": name, "policies": rows}


def _row(policy: str, found: MeanDraw, baseline: MeanDraw | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "policy": policy,
        "final_alloc_pct": round(found.allocation_pct[-1], 4),
        "idle_kw": round(found.watts[0] / 1000, 3),
        "final_kw": round(found.watts[-1] / 1000, 3),
        "curve": [
            {"arrived_pct": at, "alloc_pct": round(alloc, 4), "kw": round(watts / 1000, 3)}
            for at, (alloc, watts) in enumerate(zip(found.allocation_pct, found.watts, strict=True))
        ],
    }
    if baseline is not None and policy != BASELINE:
        row |= savings(found, baseline)
    return row


def savings(found: MeanDraw, baseline: MeanDraw) -> dict[str, Any]:
    """Return the savings against the baseline; null at an allocation that not both reach."""
    points = []
    for pct in range(STEP_PCT, 100, STEP_PCT):
        saved, ours = saving_pct(found, baseline, pct), found.at_allocation(pct)
        theirs = baseline.at_allocation(pct)
        if saved is not None and ours is not None and theirs is not None:
            points.append(
                {
                    "alloc_pct": pct,
                    "kw": round(ours / 1000, 3),
                    f"{BASELINE}_kw": round(theirs / 1000, 3),
                    "saving_pct": round(saved, 3),
                }
            )
    saved_all = [point["saving_pct"] for point in points]
    low = [point["saving_pct"] for point in points if point["alloc_pct"] <= LOW_LOAD_PCT]
    return {
        "at_equal_allocation": points,
        "low_load_saving_pct": round(mean(low), 3) if low else None,
        "best_saving_pct": max(saved_all, default=None),
        "worst_saving_pct": min(saved_all, default=None),
    }
