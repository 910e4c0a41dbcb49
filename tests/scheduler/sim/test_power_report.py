# SPDX-License-Identifier: Apache-2.0
"""The comparison of draws by hand."""

from __future__ import annotations

from stoker.scheduler.sim.openb_run import OpenbResult
from stoker.scheduler.sim.power import MeanDraw
from stoker.scheduler.sim.power_report import comparison, savings


def result(policy: str, seed: int, *points: tuple[float, float]) -> OpenbResult:
    curve, watts = [alloc for alloc, _ in points], [draw for _, draw in points]
    return OpenbResult(
        "w", policy, seed, curve[-1], 9, 0, curve, watts=watts, bound=[700.0] * len(watts)
    )


def test_seeds_are_averaged_before_they_are_compared() -> None:
    found = comparison(
        "w",
        {
            "fgd": [
                result("fgd", 1, (0, 1000), (10, 3000)),
                result("fgd", 2, (0, 1000), (10, 5000)),
            ],
            "power": [result("power", 1, (0, 1000), (20, 5000))],
        },
    )
    fgd, power = found["policies"]
    assert "best_saving_pct" not in fgd
    assert (fgd["idle_kw"], fgd["final_kw"], fgd["final_alloc_pct"]) == (1, 4, 10)
    assert [p["alloc_pct"] for p in power["at_equal_allocation"]] == [5, 10]
    assert power["at_equal_allocation"][0] == {
        "alloc_pct": 5, "kw": 2.0, "fgd_kw": 2.5, "saving_pct": 20.0,
    }  # fmt: skip
    assert found["possible"]["best_saving_pct"] == 100 * (1 - 0.7 / 4)
    assert power["low_load_saving_pct"] == (20 + 25) / 2
    assert power["worst_saving_pct"] == 20
    assert power["curve"][1] == {"arrived_pct": 1, "alloc_pct": 20, "kw": 5}


def test_low_load_ends_at_half_of_the_gpus() -> None:
    theirs = MeanDraw([0, 50, 100], [100, 200, 400])
    ours = MeanDraw([0, 50, 100], [100, 100, 420])
    found = savings(ours, theirs)
    assert found["best_saving_pct"] == 50
    assert found["worst_saving_pct"] < 0
    assert found["low_load_saving_pct"] > 20


def test_nothing_in_common_is_no_saving() -> None:
    found = savings(MeanDraw([0, 1], [1, 2]), MeanDraw([0, 1], [1, 2]))
    assert found["at_equal_allocation"] == []
    assert found["low_load_saving_pct"] is None
    assert found["best_saving_pct"] is None
