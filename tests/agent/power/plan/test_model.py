# SPDX-License-Identifier: Apache-2.0
"""A card's model, learned from readings of a card whose truth is known."""

from __future__ import annotations

import pytest

from stoker.agent.power.plan.card import ClockRange, PowerCard, PowerRange, PowerSample
from stoker.agent.power.plan.model import CardModel

CARD = PowerCard("a", PowerRange(200, 700, 700), ClockRange(345, 1980, 15), 85.0)
TICK = 200_000_000


class Truth:
    """A load by its shares; the same step of a job at every clock."""

    def __init__(self, compute: float, memory: float, bound: float) -> None:
        self.compute, self.memory, self.bound = compute, memory, bound
        self.traffic, self.now = 0.0, 0

    def whole(self, clock: float) -> float:
        slow = self.bound + (1 - self.bound) * 1980 / clock
        return slow * self.compute + 1 - self.compute

    def power(self, clock: float) -> float:
        busy = 1 - (1 - self.compute) / self.whole(clock)
        dynamic = 600 * busy * (clock / 1980) ** 2.5
        return 90 + 150 * self.memory / self.whole(clock) + dynamic

    def tick(self, clock: float) -> PowerSample:
        self.now += TICK
        whole = self.whole(clock)
        self.traffic += 1e9 * self.compute / whole
        return PowerSample(
            "a",
            self.now,
            power_w=self.power(clock),
            clock_mhz=clock,
            busy=round(1 - (1 - self.compute) / whole, 2),
            memory_busy=round(self.memory / whole, 2),
            traffic_bytes=self.traffic,
        )


@pytest.mark.parametrize(
    ("compute", "memory", "bound"), [(0.95, 0.4, 0.15), (0.8, 0.6, 0.5), (0.5, 0.9, 0.92)]
)
def test_after_two_clocks_it_knows_what_a_third_would_do(
    compute: float, memory: float, bound: float
) -> None:
    model, truth = CardModel(CARD), Truth(compute, memory, bound)
    for clock in (1980.0, 1500.0):
        for _ in range(25):
            model.read(truth.tick(clock))
    for point in model.menu():
        if point.clock_mhz > 1200:
            exact = compute / truth.whole(point.clock_mhz)
            assert point.work == pytest.approx(exact, rel=0.03)
            assert point.power_w == pytest.approx(truth.power(point.clock_mhz), rel=0.06)


def test_another_load_is_noticed_and_the_same_at_another_clock_is_not() -> None:
    model, truth = CardModel(CARD), Truth(0.95, 0.4, 0.15)
    for _ in range(10):
        model.read(truth.tick(1980.0))
    assert not any(model.read(truth.tick(1400.0)) for _ in range(10))
    truth.compute, truth.memory, truth.bound = 0.5, 0.9, 0.92
    assert any(model.read(truth.tick(1400.0)) for _ in range(4))


def test_an_idle_card_does_nothing_and_draws_its_idle_power() -> None:
    model, truth = CardModel(CARD), Truth(0.9, 0.3, 0.2)
    for _ in range(5):
        model.read(truth.tick(1980.0))
    truth.compute = truth.memory = 0.0
    for _ in range(20):
        model.read(truth.tick(345.0))
    assert model.idle
    assert max(point.work for point in model.menu()) == 0
    assert max(point.power_w for point in model.menu()) < 120


def test_until_something_is_read_a_card_is_thought_to_be_busy() -> None:
    points = CardModel(CARD).menu()
    assert points[-1].power_w > 600 and points[-1].work == 1
    assert [point.work for point in points] == sorted(point.work for point in points)
