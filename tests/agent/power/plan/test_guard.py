# SPDX-License-Identifier: Apache-2.0
"""The thermal guard on dies that are not as it thinks."""

from __future__ import annotations

import pytest

from stoker.agent.power.plan.guard import Guard

S = 1_000_000_000


@pytest.mark.parametrize("resistance", [0.042, 0.06, 0.078])
@pytest.mark.parametrize("capacity", [840.0, 1560.0])
def test_a_die_that_obeys_stays_below_the_ceiling(resistance: float, capacity: float) -> None:
    """700 W would take it to 90 C and more; then the inlet gets 10 C warmer at once."""
    guard, die, inlet = Guard(80.0, 700.0), 45.0, 90.0 - 700 * resistance
    hottest = {False: 0.0, True: 0.0}
    for second in range(600):
        warmer = second >= 300
        power = min(700.0, max(200.0, guard.allowed_w(second * S)))
        ambient = inlet + 10 * warmer
        for _ in range(10):
            die += 0.1 * (power - (die - ambient) / resistance) / capacity
        guard.read((second + 1) * S, power, float(round(die)))
        hottest[warmer] = max(hottest[warmer], die)
    assert hottest[False] <= 81.0
    assert hottest[True] <= 83.0
    assert die == pytest.approx(78.5, abs=1.5)


def test_a_cool_card_is_not_held_down() -> None:
    guard = Guard(85.0, 700.0)
    for second in range(120):
        guard.read(second * S, 650.0, 62.0)
    assert guard.allowed_w(120 * S) > 700


def test_without_temperatures_it_allows_less_and_less() -> None:
    guard = Guard(85.0, 700.0)
    guard.read(0, 300.0, 60.0)
    allowed = []
    for second in range(1, 40):
        guard.read(second * S, 300.0, None)
        allowed.append(guard.allowed_w(second * S))
    assert allowed[3] > 690
    assert allowed[-1] < 100
