# SPDX-License-Identifier: Apache-2.0
"""Policies to compare the power loop with: equal limits that never change, and a proportional loop.

Both see what the loop sees, and set limits through the same calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.plan.controller import Controller
from stoker.agent.power.plan.rules import PowerRules

NAMES: Final = ("stoker", "static", "naive")
NAIVE_GAIN: Final = 0.5
NAIVE_EVERY_NS: Final = 1_000_000_000


class PowerPolicy(Protocol):
    """A policy; called each tick, with readings if `looks` is true."""

    def looks(self, now_ns: int) -> bool: ...

    def step(self, readings: Sequence[PowerSample], now_ns: int) -> list[PowerAction]: ...


def make(name: str, cards: Sequence[PowerCard], rules: PowerRules) -> PowerPolicy:
    """The policy of this name."""
    if name == "static":
        return Static(cards, rules.budget_w)
    if name == "naive":
        return Naive(cards, rules.budget_w)
    return LoopPolicy(cards, rules, 0)


def _limit(card: PowerCard, watts: float, why: str) -> PowerAction:
    assert card.power is not None
    watts = min(max(watts, card.power.min_w), card.power.max_w)
    return PowerAction(card.id, "limit", watts, why, 0, None)


class LoopPolicy(Controller):
    """The product's controller."""

    def looks(self, now_ns: int) -> bool:
        return True


class Static:
    """Divides the budget in equal parts, once."""

    def __init__(self, cards: Sequence[PowerCard], budget_w: float) -> None:
        self._first = [_limit(card, budget_w / len(cards), "equal share") for card in cards]

    def looks(self, now_ns: int) -> bool:
        return False

    def step(self, readings: Sequence[PowerSample], now_ns: int) -> list[PowerAction]:
        first, self._first = self._first, []
        return first


class Naive:
    """Once a second, moves all limits by the same part of the node's distance from the budget."""

    def __init__(self, cards: Sequence[PowerCard], budget_w: float) -> None:
        self._cards, self._budget_w = cards, budget_w
        self._limits = {card.id: budget_w / len(cards) for card in cards}
        self._power = {card.id: 0.0 for card in cards}
        self._due_ns = 0

    def looks(self, now_ns: int) -> bool:
        return now_ns >= self._due_ns

    def step(self, readings: Sequence[PowerSample], now_ns: int) -> list[PowerAction]:
        for reading in readings:
            if reading.power_w is not None:
                self._power[reading.card] = reading.power_w
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + NAIVE_EVERY_NS
        off = (self._budget_w - sum(self._power.values())) / len(self._cards)
        made = []
        for card in self._cards:
            action = _limit(card, self._limits[card.id] + NAIVE_GAIN * off, "proportional")
            self._limits[card.id] = action.value
            made.append(action)
        return made
