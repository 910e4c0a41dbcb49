# SPDX-License-Identifier: Apache-2.0
"""Sharing a budget out, against every other division that there is."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.agent.power.plan.allocation import MARGIN, Want, allocate, equal_work
from stoker.agent.power.plan.model import ClockPoint


def menu(k: float, dynamic_w: float, rest: float) -> list[ClockPoint]:
    """Return a menu such as a model makes."""
    made = []
    for i in range(12):
        clock = 800 + 100 * i
        x = 1900 / clock - 1
        whole = 1 + k * x
        busy = max(0.0, 1 - rest / whole)
        made.append(ClockPoint(clock, 100 + dynamic_w * busy * (1 + x) ** -2.5, (1 - rest) / whole))
    return made


menus = st.builds(menu, st.floats(0.02, 0.9), st.floats(100, 700), st.floats(0.0, 0.1))


@settings(max_examples=60)
@given(st.lists(menus, min_size=2, max_size=3), st.floats(0.3, 1.1))
def test_no_other_division_gets_more_done(
    given_menus: list[list[ClockPoint]], share: float
) -> None:
    wants = {str(i): Want(each, 50, 700) for i, each in enumerate(given_menus)}
    budget = max(share * 700 * len(wants), 105.0 * len(wants))
    shares = allocate(wants, budget, 0.0)
    assert sum(each.limit_w for each in shares.values()) <= budget + 1e-6
    found = sum(
        next(p.work for p in wants[id].menu if p.clock_mhz >= each.clock_mhz - 1e-6)
        for id, each in shares.items()
    )
    best = 0.0
    for choice in itertools.product(*(want.menu for want in wants.values())):
        costs = [max(50.0, p.power_w * (1 + MARGIN)) for p in choice]
        if sum(costs) <= budget and max(costs) <= 700:
            best = max(best, sum(p.work for p in choice))
    assert found >= best - 1e-6


@settings(max_examples=60)
@given(st.lists(menus, min_size=2, max_size=8), st.floats(0.3, 1.0), st.floats(0, 0.05))
def test_what_is_given_up_is_no_more_than_allowed_nor_below_equal_limits(
    given_menus: list[list[ClockPoint]], share: float, give_up: float
) -> None:
    wants = {str(i): Want(each, 50, 700) for i, each in enumerate(given_menus)}
    budget = max(share * 700 * len(wants), 105.0 * len(wants))

    def work(shares: dict[str, object]) -> float:
        total = 0.0
        for id, each in shares.items():
            clock = each.clock_mhz  # type: ignore[attr-defined]
            points = wants[id].menu
            for low, high in itertools.pairwise(points):
                if clock <= high.clock_mhz:
                    part = (clock - low.clock_mhz) / (high.clock_mhz - low.clock_mhz)
                    total += low.work + part * (high.work - low.work)
                    break
        return total

    most = work(allocate(wants, budget, 0.0))  # type: ignore[arg-type]
    kept = work(allocate(wants, budget, give_up))  # type: ignore[arg-type]
    assert kept >= (1 - give_up) * most - 1e-6
    assert kept >= min(most, equal_work(wants, budget)) - 1e-6


def test_floors_and_roofs_hold_and_the_rest_is_spread() -> None:
    wants = {
        "idle": Want([ClockPoint(1000, 80, 0.0), ClockPoint(1900, 90, 0.0)], 200, 700),
        "capped": Want(menu(0.9, 600, 0.0), 200, 300),
        "free": Want(menu(0.9, 600, 0.0), 200, 700),
    }
    shares = allocate(wants, 1400, 0.0)
    assert shares["idle"].limit_w >= 200
    assert shares["capped"].limit_w <= 300 + 1e-6
    assert shares["free"].limit_w == pytest.approx(700, abs=30)
    assert sum(each.limit_w for each in shares.values()) == pytest.approx(1400)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(60, 900), st.floats(60, 900)), min_size=1, max_size=8),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, 0.009]),
)
def test_limits_are_within_a_budget_that_the_lowest_clocks_are_not(
    powers: list[tuple[float, float]], share: float, give_up: float
) -> None:
    """Some cards have a menu of one point: their clocks cannot be held down."""
    wants = {
        str(i): Want(
            [ClockPoint(1000, each, 1.0) for each in sorted({low, high})][: 1 + i % 2], 50, 700
        )
        for i, (low, high) in enumerate(powers)
    }
    budget = (50 + share * 650) * len(wants)
    shares = allocate(wants, budget, give_up)
    assert sum(each.limit_w for each in shares.values()) <= budget + 1e-6
    assert all(50 - 1e-6 <= each.limit_w <= 700 + 1e-6 for each in shares.values())
