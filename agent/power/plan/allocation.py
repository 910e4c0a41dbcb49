# SPDX-License-Identifier: Apache-2.0
"""The division of a power budget among cards, so that their work per watt is highest.

Pure: menus and bounds in, clocks and limits out. Every card begins at its lowest clock. Steps up
are taken in the order of work per watt, over all cards, until the budget is spent. This is
water-filling: if each further watt of a menu gives less work, no other division of the same watts
gets more done.

Then steps are taken back to save energy, the least useful first. The rules say how much work may be
given up for that, and the work never falls below that of equal shares of the budget.
Invariant: the limits given out add up to no more than the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from stoker.agent.power.plan.model import ClockPoint

MARGIN: Final = 0.005
"""Margin of a limit above the draw that the model expects at the clock, as a share of the draw."""

HANDING_OVER: Final = 0.006
"""The share of the work that is lost while watts move from card to card; equal limits lose none."""


class Want(NamedTuple):
    """Operating points of one card, and the limits between which it may be set."""

    menu: Sequence[ClockPoint]
    floor_w: float
    roof_w: float


class PowerShare(NamedTuple):
    """The part of the budget that one card is given."""

    clock_mhz: float
    power_w: float
    """Expected draw at that clock."""
    limit_w: float
    held: bool
    """True if the clock is below the one that the budget would allow, to save energy."""


class _Step(NamedTuple):
    gain: float
    card: str
    upto: ClockPoint
    watts: float
    work: float


def allocate(wants: Mapping[str, Want], budget_w: float, give_up: float) -> dict[str, PowerShare]:
    """Return card -> share.

    `give_up` is the share of the work that may be given up to save energy. `budget_w` is at least
    the sum of the floors.
    """
    steps = sorted(
        (step for card, want in wants.items() for step in _steps(card, want)),
        key=lambda step: -step.gain,
    )
    begin = {card: want.menu[0] for card, want in wants.items()}
    best = _filled(begin, steps, wants, budget_w, None)
    most = sum(point.work for point in best.values())
    equal = equal_work(wants, budget_w) * (1 + HANDING_OVER)
    target = max(most * (1 - give_up), min(most, equal))
    chosen = _filled(begin, steps, wants, budget_w, target) if give_up else best
    return _limits(chosen, best, wants, budget_w)


def equal_work(wants: Mapping[str, Want], budget_w: float) -> float:
    """Work done if every card had the same limit."""
    limit = budget_w / len(wants)
    return sum(_under(want.menu, limit).work for want in wants.values())


def _under(menu: Sequence[ClockPoint], limit_w: float) -> ClockPoint:
    """The point of the menu at this power, interpolated."""
    last = menu[0]
    for point in menu[1:]:
        if point.power_w > limit_w:
            return _between(last, point, limit_w)
        last = point
    return last


def _between(low: ClockPoint, high: ClockPoint, power_w: float) -> ClockPoint:
    if high.power_w <= low.power_w:
        return high
    part = min(1.0, max(0.0, (power_w - low.power_w) / (high.power_w - low.power_w)))
    return ClockPoint(*(a + part * (b - a) for a, b in zip(low, high, strict=True)))


def _steps(card: str, want: Want) -> list[_Step]:
    """Steps up of one card within its roof; a gain is never higher than that of the step before."""
    made: list[_Step] = []
    last, gain = want.menu[0], float("inf")
    for point in want.menu[1:]:
        upto = point
        if point.power_w * (1 + MARGIN) > want.roof_w:
            upto = _between(last, point, want.roof_w / (1 + MARGIN))
        watts, work = upto.power_w - last.power_w, upto.work - last.work
        if work <= 0 and watts <= 0:
            break
        gain = min(gain, work / max(watts, 1e-9))
        made.append(_Step(gain, card, upto, watts, work))
        if upto is not point:
            break
        last = point
    return made


def _cost(point: ClockPoint, want: Want) -> float:
    return min(max(want.floor_w, point.power_w * (1 + MARGIN)), want.roof_w)


def _filled(
    begin: Mapping[str, ClockPoint],
    steps: Sequence[_Step],
    wants: Mapping[str, Want],
    budget_w: float,
    target: float | None,
) -> dict[str, ClockPoint]:
    """Steps in order until budget or target are reached; the last one in part."""
    at = dict(begin)
    costs = {card: _cost(point, wants[card]) for card, point in at.items()}
    left = budget_w - sum(costs.values())
    done = sum(point.work for point in at.values())
    stopped: set[str] = set()
    for step in steps:
        if step.card in stopped:
            continue
        if target is not None and done >= target:
            break
        cost = _cost(step.upto, wants[step.card])
        more = cost - costs[step.card]
        upto = step.upto
        if more > left:
            room = costs[step.card] + max(0.0, left)
            upto = _between(at[step.card], upto, room / (1 + MARGIN))
            cost = _cost(upto, wants[step.card])
            more = cost - costs[step.card]
            stopped.add(step.card)
        done += upto.work - at[step.card].work
        left -= more
        at[step.card], costs[step.card] = upto, cost
    return at


def _within(
    costs: Mapping[str, float], wants: Mapping[str, Want], budget_w: float
) -> dict[str, float]:
    """Return the costs, lowered towards the floors as far as the budget demands.

    Cards may draw more than the budget even at their lowest clocks, and some have one clock alone.
    Their limits then keep the budget.
    """
    floors = sum(want.floor_w for want in wants.values())
    above = sum(costs.values()) - floors
    part = 1.0 if above <= 0 else min(1.0, max(0.0, budget_w - floors) / above)
    return {
        card: wants[card].floor_w + part * (cost - wants[card].floor_w)
        for card, cost in costs.items()
    }


def _limits(
    chosen: Mapping[str, ClockPoint],
    best: Mapping[str, ClockPoint],
    wants: Mapping[str, Want],
    budget_w: float,
) -> dict[str, PowerShare]:
    """Give the rest of the budget to all cards, in proportion to the room below their maxima.

    A card whose load grows then need not wait until the limit of another card has fallen.
    """
    base = _within({card: _cost(p, wants[card]) for card, p in chosen.items()}, wants, budget_w)
    left = max(0.0, budget_w - sum(base.values()))
    away = {card: wants[card].roof_w - watts for card, watts in base.items()}
    total = sum(away.values())
    part = min(1.0, left / total) if total > 0 else 0.0
    return {
        card: PowerShare(
            point.clock_mhz,
            point.power_w,
            base[card] + part * away[card],
            point.clock_mhz < best[card].clock_mhz - 1e-6,
        )
        for card, point in chosen.items()
    }
