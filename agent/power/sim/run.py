# SPDX-License-Identifier: Apache-2.0
"""One run of one policy on one drawn node: the work done, the energy it took, the rules broken.

The simulated node is in this process and in virtual time. Invariant: the same run gives the same
result.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.sim.plant import Plant, S, Truth, cards
from stoker.agent.power.sim.policies import make
from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.plant_draw import draw_node, draw_trouble

TICK_NS: Final = 100_000_000
CEILING_C: Final = float(ranges.TEMPERATURE_C[0])
WARM_NS: Final = int(ranges.WARM_S * S)
RUN_NS: Final = int(ranges.RUN_S * S)
OVER_W: Final = 0.01
"""The excess of a sum of limits that is taken as rounding to milliwatts."""


class PowerRun(NamedTuple):
    """Options of one run."""

    seed: int
    budget_pct: float
    policy: str
    trouble: str = ""


class PowerResult(NamedTuple):
    """Results from the end of the warm-up to the end of the run."""

    run: PowerRun
    work: float
    energy_j: float
    over_seconds: int
    """Seconds whose mean true power was above the budget."""
    worst_over_pct: float
    """The largest excess, as a share of the budget."""
    limits_over: int
    """Ticks at which the limits on the devices added up to more than the budget."""
    overshoot_c: float
    """Hottest die above the ceiling; negative if it stayed below."""
    writes: int
    reversals: int
    """Limits that turned back within 2 s, by more than 5 % of the card's highest limit."""
    curve: tuple[tuple[float, float, float], ...]
    """(second, true power, sum of limits); empty unless asked for."""


def run(what: PowerRun, curve: bool = False) -> PowerResult:
    """Run it and return the result."""
    drawn = draw_node(what.seed)
    trouble = draw_trouble(what.seed, what.trouble) if what.trouble else None
    plant = Plant(drawn, what.seed, trouble)
    budget = what.budget_pct / 100 * ranges.TDP_W * ranges.CARDS
    policy = make(what.policy, cards(), PowerRules(control="on", budget_w=budget))
    meter = _Meter(budget, curve)
    turns = _Turns()
    for now_ns in range(0, RUN_NS + 1, TICK_NS):
        plant.advance(now_ns)
        meter.look(now_ns, plant)
        readings = plant.readings() if policy.looks(now_ns) else []
        for action in policy.step(readings, now_ns):
            _carry_out(plant, action)
            turns.count(now_ns, action)
    return meter.result(what, turns)


def _carry_out(plant: Plant, action: PowerAction) -> None:
    index = int(action.card.removeprefix("sim-"))
    if action.what == "limit":
        plant.node.set_limit(index, int(action.value * 1000))
    elif action.value >= ranges.CLOCK_MHZ[1]:
        plant.node.lock_clocks(index, 0, 0)
    else:
        plant.node.lock_clocks(index, ranges.CLOCK_MHZ[0], int(action.value))


class _Turns:
    """Counts changes of direction of the limits."""

    def __init__(self) -> None:
        self.writes = self.reversals = 0
        self._last: dict[str, tuple[int, float, float]] = {}

    def count(self, now_ns: int, action: PowerAction) -> None:
        if now_ns < WARM_NS:
            return
        self.writes += 1
        if action.what != "limit":
            return
        at_ns, watts, moved = self._last.get(action.card, (0, action.value, 0.0))
        move = action.value - watts
        big = 0.05 * ranges.TDP_W
        if move * moved < 0 and min(abs(move), abs(moved)) > big and now_ns - at_ns < 2 * S:
            self.reversals += 1
        self._last[action.card] = (now_ns, action.value, move)


class _Meter:
    """Sums of the true figures, second by second."""

    def __init__(self, budget_w: float, curve: bool) -> None:
        self._budget_w = budget_w
        self._begin: Truth | None = None
        self._second: Truth | None = None
        self._over = self._limits_over = 0
        self._worst = 0.0
        self._hottest = -273.0
        self._curve: list[tuple[float, float, float]] | None = [] if curve else None

    def look(self, now_ns: int, plant: Plant) -> None:
        if now_ns < WARM_NS or now_ns % S:
            return
        truth = plant.truth()
        if self._begin is None:
            self._begin = self._second = truth
            return
        assert self._second is not None
        watts = truth.energy_j - self._second.energy_j
        self._second = truth
        self._over += watts > self._budget_w
        self._worst = max(self._worst, watts / self._budget_w - 1)
        self._limits_over += truth.limits_w > self._budget_w + OVER_W
        self._hottest = max(self._hottest, truth.hottest_c)
        if self._curve is not None:
            self._curve.append((now_ns / S, watts, truth.limits_w))

    def result(self, what: PowerRun, turns: _Turns) -> PowerResult:
        assert self._begin is not None and self._second is not None
        return PowerResult(
            what,
            self._second.work - self._begin.work,
            self._second.energy_j - self._begin.energy_j,
            self._over,
            100 * self._worst,
            self._limits_over,
            self._hottest - CEILING_C,
            turns.writes,
            turns.reversals,
            tuple(self._curve or ()),
        )
