# SPDX-License-Identifier: Apache-2.0
"""The bound: nothing that keeps the budget beats it, and something comes near it."""

from __future__ import annotations

import pytest

from stoker.native import _sim
from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.plant_draw import CardLoad, Change, DrawnCard, draw_node
from stoker.scheduler.sim.power_oracle import bound, clocks

TDP_W = ranges.TDP_W
LOADS = (CardLoad(1.0, 0.3, 0.1), CardLoad(0.6, 0.9, 0.85), CardLoad(0.9, 0.5, 0.4))


def steady(seed: int) -> list[DrawnCard]:
    """Cards of a drawn node that do the same all the time."""
    cards = draw_node(seed)[: len(LOADS)]
    return [
        card._replace(changes=(Change(0.0, load),)) for card, load in zip(cards, LOADS, strict=True)
    ]


def steps(card: DrawnCard) -> list[tuple[float, float]]:
    """(power, work) of each clock at the hottest that the die can be: what can be had surely."""
    p, load = card.physics, card.changes[0].load
    leakage = p["leakage_w"] * (1 + p["leakage_per_c"] * (ranges.TEMPERATURE_C[0] - 25))
    made = []
    for share in clocks():
        slow = load.bound + (1 - load.bound) / share
        whole = slow * load.compute + 1 - load.compute
        dynamic = p["dynamic_w"] * slow * load.compute / whole * share ** p["exponent"]
        power = p["idle_w"] + leakage + dynamic + p["memory_w"] * load.memory / whole
        made.append((float(power), float(load.compute / whole)))
    return [step for step in made if step[0] <= TDP_W] or made[:1]


def best(cards: list[DrawnCard], budget_w: float) -> float:
    """Try every 4th clock of two cards and give the third what is left."""
    a, b, c = (steps(card) for card in cards)
    found = 0.0
    for power_a, work_a in a[::4]:
        for power_b, work_b in b[::4]:
            left = [work for power, work in c if power + power_a + power_b <= budget_w]
            if left:
                found = max(found, work_a + work_b + max(left))
    return found * (ranges.RUN_S - ranges.WARM_S)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [0.55, 0.7, 0.9])
def test_no_choice_of_clocks_beats_it_and_one_comes_near(seed: int, share: float) -> None:
    cards, budget_w = steady(seed), share * TDP_W * len(LOADS)
    most, had = bound(cards, budget_w).work, best(cards, budget_w)
    assert 0.96 * most <= had <= most


def test_more_budget_is_never_less_work_and_none_is_no_more_than_full_clocks() -> None:
    cards = draw_node(4)
    works = [bound(cards, share * TDP_W * len(cards)).work for share in (0.5, 0.7, 0.9, 1.5)]
    assert works == sorted(works)
    assert bound(cards, 1e6).work == pytest.approx(works[-1], rel=1e-9)


def test_power_and_work_are_those_of_the_simulated_plant() -> None:
    """The bound's own formulas against native/sim's."""
    from stoker.agent.power.sim.plant import model_of

    card = steady(2)[2]
    model = model_of(0, card)
    hot = float(ranges.TEMPERATURE_C[0])
    for share, (power, work) in zip(clocks(), steps(card), strict=False):
        clock = share * ranges.CLOCK_MHZ[1]
        load = card.changes[0].load
        assert _sim.power_at(model, *load, clock, hot) == pytest.approx(power)
        assert _sim.work_at(model, *load, clock) == pytest.approx(work)
