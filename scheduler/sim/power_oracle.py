# SPDX-License-Identifier: Apache-2.0
"""An upper bound on the work of any division of a power budget, even with full knowledge.

Let l(t) >= 0 be a price of a watt at each moment. Then the work of any policy that keeps the budget
B is at most

integral of l B + sum over cards of the integral of max over clocks (work - l x power),

because the budget's own term, l x (B - all power), is never negative. This holds for every l;
water-filling at each moment gives an l that makes it tight.

Power rises with the die's temperature through leakage. A die is never cooler than it would be with
its fan at full speed all the time, and with that cooling its temperature is linear in the past
power. So a watt's share in later leakage is a price too (the adjoint of the temperature, `_later`),
and the maximum still splits into moments and cards. Clocks are those of the card within its highest
power limit at its coolest. The bound ignores temperature limits, and the lowest power limit of idle
cards. The simulated card itself is native/sim/card/plant.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.plant_draw import DrawnCard, breaks, load_at

Numbers = NDArray[np.float64]

STEP_S: Final = 2.0
BISECTIONS: Final = 36
PRICE_MAX: Final = 0.05
"""The highest price tried, in work per second and watt: far above any card's best."""


class Bound(NamedTuple):
    """The upper bound for one drawn node."""

    work: float
    """The work of all cards from the end of the warm-up to the end of the run."""
    mean_price: float


class _Table(NamedTuple):
    """Work, and power without leakage by temperature, by moment, card and clock."""

    length_s: Numbers
    cold_w: Numbers
    work: Numbers


def bound(cards: Sequence[DrawnCard], budget_w: float) -> Bound:
    """Return the bound for these cards, jobs and budget.

    A later rise of the ambient temperature only lowers the true maximum.
    """
    table = _table(cards)
    leak = _each(cards, "leakage_w") * (1 - 25 * _each(cards, "leakage_per_c"))
    gain = _each(cards, "leakage_w") * _each(cards, "leakage_per_c")
    cooling = 1 / _each(cards, "thermal_c_per_w")
    rate = (cooling - gain) / _each(cards, "capacity_j_per_c")
    coolest = _coolest(cards, leak, gain, cooling)
    heat = np.repeat(coolest[None, :], len(table.length_s), axis=0)
    allowed = _within_limit(table, leak + gain * coolest)
    price = np.zeros(len(table.length_s))
    for _ in range(3):
        price = _prices(table, allowed, budget_w - (leak + gain * heat).sum(axis=1))
        chosen = _chosen(table, allowed, price[:, None])
        drawn = np.take_along_axis(table.cold_w, chosen[..., None], 2)[..., 0] + leak
        heat = _heat(cards, table.length_s, drawn, rate, coolest)
    idle_heat = _heat(cards, table.length_s, np.zeros_like(heat) + leak, rate, coolest)
    toll = price[:, None] + _later(price, table.length_s, gain, rate, cards)
    best = _best(table, allowed, toll)
    fixed = price * (budget_w - (leak + gain * idle_heat).sum(axis=1))
    work = float((table.length_s * (fixed + best.sum(axis=1))).sum())
    return Bound(work, float((price * table.length_s).sum() / table.length_s.sum()))


def _each(cards: Sequence[DrawnCard], name: str) -> Numbers:
    return np.array([card.physics[name] for card in cards])


def _moments(cards: Sequence[DrawnCard]) -> list[float]:
    """Return the moments between which no load changes."""
    times = {t for t in breaks(cards) if t > ranges.WARM_S} | {ranges.WARM_S}
    count = int((ranges.RUN_S - ranges.WARM_S) / STEP_S)
    return sorted(times | {ranges.WARM_S + STEP_S * i for i in range(count + 1)})


def clocks() -> Numbers:
    """Return the clocks of a card as parts of its highest."""
    low, high, step = ranges.CLOCK_MHZ
    return np.arange(high, low - 1, -step)[::-1] / high


def _table(cards: Sequence[DrawnCard]) -> _Table:
    times = _moments(cards)
    share = clocks()
    loads = np.array([[load_at(card, t) for card in cards] for t in times[:-1]])
    compute, memory, bound_ = (loads[..., i, None] for i in range(3))
    slow = bound_ + (1 - bound_) / share
    whole = slow * compute + 1 - compute
    exponent = _each(cards, "exponent")[None, :, None]
    dynamic = _each(cards, "dynamic_w")[None, :, None] * slow * compute / whole * share**exponent
    cold = _each(cards, "idle_w")[None, :, None] + dynamic
    cold = cold + _each(cards, "memory_w")[None, :, None] * memory / whole
    return _Table(np.diff(np.array(times)), cold, compute / whole)


def _coolest(cards: Sequence[DrawnCard], leak: Numbers, gain: Numbers, cooling: Numbers) -> Numbers:
    """Return the temperature at rest with the fan at full speed."""
    at_rest = _each(cards, "idle_w") + leak + cooling * _each(cards, "ambient_c")
    return np.asarray(at_rest / (cooling - gain))


def _within_limit(table: _Table, leakage_w: Numbers) -> NDArray[np.bool_]:
    fits = table.cold_w + leakage_w[None, :, None] <= ranges.TDP_W
    fits[..., 0] = True
    return np.asarray(fits)


def _score(table: _Table, allowed: NDArray[np.bool_], toll: Numbers) -> Numbers:
    """Return work less the price of power; `toll` is by moment, or by moment and card."""
    wide = toll[:, None, None] if toll.ndim == 1 else toll[..., None]
    return np.where(allowed, table.work - wide * table.cold_w, -np.inf)


def _chosen(table: _Table, allowed: NDArray[np.bool_], toll: Numbers) -> NDArray[np.intp]:
    return np.asarray(_score(table, allowed, toll).argmax(axis=2))


def _best(table: _Table, allowed: NDArray[np.bool_], toll: Numbers) -> Numbers:
    return np.asarray(_score(table, allowed, toll).max(axis=2))


def _prices(table: _Table, allowed: NDArray[np.bool_], budget_w: Numbers) -> Numbers:
    """Return the lowest price of each moment at which all cards together keep to the budget."""
    low, high = np.zeros(len(budget_w)), np.full(len(budget_w), PRICE_MAX)
    for round_ in range(BISECTIONS):
        middle = low if round_ == 0 else (low + high) / 2
        chosen = _chosen(table, allowed, middle)
        drawn = np.take_along_axis(table.cold_w, chosen[..., None], 2)[..., 0].sum(axis=1)
        fits = drawn <= budget_w
        high = np.where(fits, middle, high)
        low = np.where(fits, low, middle)
    return high


def _heat(
    cards: Sequence[DrawnCard], length_s: Numbers, drawn_w: Numbers, rate: Numbers, begin: Numbers
) -> Numbers:
    """Return the mean die temperature of each moment at full fan speed.

    `drawn_w` is without the leakage by temperature.
    """
    ambient, capacity = _each(cards, "ambient_c"), _each(cards, "capacity_j_per_c")
    cooling = 1 / _each(cards, "thermal_c_per_w")
    at, made = begin, []
    for length, watts in zip(length_s, drawn_w, strict=True):
        end = (watts + cooling * ambient) / (capacity * rate)
        left = -np.expm1(-rate * length) / (rate * length)
        made.append(end + (at - end) * left)
        at = end + (at - end) * np.exp(-rate * length)
    return np.array(made)


def _later(
    price: Numbers, length_s: Numbers, gain: Numbers, rate: Numbers, cards: Sequence[DrawnCard]
) -> Numbers:
    """Return the cost of a watt in later leakage by moment and card.

    It is the least within the moment, so that the result stays an upper bound.
    """
    capacity = _each(cards, "capacity_j_per_c")
    after, made = np.zeros(len(gain)), []
    for length, now in zip(length_s[::-1], price[::-1], strict=True):
        fade = np.exp(-rate * length)
        before = after * fade + now * (1 - fade) / rate
        made.append(np.minimum(after, before) * gain / capacity)
        after = before
    return np.array(made[::-1])
