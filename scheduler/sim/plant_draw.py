# SPDX-License-Identifier: Apache-2.0
"""A node drawn from the ranges: its cards, their sensors, their jobs over time, their faults.

The same seed gives the same node on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.chance import Chance

LOAD_CHANGES_MAX: Final = 10_000


class CardLoad(NamedTuple):
    """The load of a card, as `struct sk_sim_load`."""

    compute: float
    memory: float
    bound: float


IDLE: Final = CardLoad(0.0, 0.0, 0.0)


class Change(NamedTuple):
    """The load of a card from `at_s` on."""

    at_s: float
    load: CardLoad


class DrawnCard(NamedTuple):
    """One card: the values of `struct sk_sim_physics` and `struct sk_sim_sensor`, and its jobs."""

    physics: dict[str, float]
    sensor: dict[str, float]
    changes: tuple[Change, ...]
    """The changes in order of time, the first at 0."""


class Trouble(NamedTuple):
    """A perturbation drawn for one seed."""

    name: str
    amount: float
    card: int
    """The index of the card, for a perturbation of a single one."""
    at_s: float


def _in(chance: Chance, range: ranges.Range) -> float:
    return range.low + (range.high - range.low) * chance.unit()


def draw_node(seed: int) -> list[DrawnCard]:
    """Return the `plant_ranges.CARDS` cards of one node."""
    chance = Chance(seed)
    busy = _in(chance, ranges.BUSY_SHARE)
    return [_draw_card(chance, chance.unit() < busy) for _ in range(ranges.CARDS)]


def _draw_card(chance: Chance, begins_busy: bool) -> DrawnCard:
    drawn = {name: _in(chance, each) for name, each in ranges.PHYSICS.items()}
    full_w = drawn.pop("full_share") * ranges.TDP_W
    leakage_60 = drawn["leakage_w"] * (1 + 35 * drawn["leakage_per_c"])
    drawn["dynamic_w"] = full_w - drawn["idle_w"] - leakage_60
    sensor = {name: _in(chance, each) for name, each in ranges.SENSOR.items()}
    return DrawnCard(drawn, sensor, _draw_changes(chance, begins_busy))


def _draw_changes(chance: Chance, busy: bool) -> tuple[Change, ...]:
    changes: list[Change] = []
    at = 0.0
    while at < ranges.RUN_S and len(changes) < LOAD_CHANGES_MAX:
        if busy:
            at = _draw_job(chance, at, changes)
        else:
            changes.append(Change(at, IDLE))
            at += _in(chance, ranges.IDLE_S)
        busy = not busy
    return tuple(change for change in changes if change.at_s < ranges.RUN_S)


def _draw_job(chance: Chance, at: float, changes: list[Change]) -> float:
    """Append the phases of one job; return its end."""
    kind = _draw_kind(chance)
    end = at + _in(chance, kind.length_s)
    while at < min(end, ranges.RUN_S):
        for phase in kind.phases:
            load = CardLoad(
                _in(chance, phase.compute), _in(chance, phase.memory), _in(chance, phase.bound)
            )
            if at < end:
                changes.append(Change(at, load))
            at = min(at + _in(chance, phase.length_s), end)
    return end


def _draw_kind(chance: Chance) -> ranges.JobKind:
    left = chance.unit()
    for kind in ranges.KINDS:
        left -= kind.weight
        if left < 0:
            return kind
    return ranges.KINDS[-1]


def draw_trouble(seed: int, name: str) -> Trouble:
    """Return the perturbation of this name for this seed; it begins in the middle of a run."""
    chance = Chance(seed ^ 0x7267_6E61)
    amount = _in(chance, ranges.PERTURBATIONS[name])
    card = chance.below(ranges.CARDS)
    return Trouble(name, amount, card, ranges.RUN_S * (0.3 + 0.3 * chance.unit()))


def breaks(cards: Sequence[DrawnCard]) -> list[float]:
    """Return the moments at which a load changes, in order, from 0 to the end of the run."""
    times = {change.at_s for card in cards for change in card.changes}
    return sorted(times | {0.0, ranges.RUN_S})


def load_at(card: DrawnCard, at_s: float) -> CardLoad:
    """Return the load of a card at this moment."""
    found = IDLE
    for change in card.changes:
        if change.at_s > at_s:
            break
        found = change.load
    return found
