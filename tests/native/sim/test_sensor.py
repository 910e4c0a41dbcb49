# SPDX-License-Identifier: Apache-2.0
"""A driver's answers about a simulated card, against the truth looked at millisecond by
millisecond."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fakes.cards.simulated_card import MS, S, alone, card

from stoker.native import _sim


def watch(
    node: _sim.Node, seconds: float, chance: random.Random, *, step_ms: int = 5
) -> list[tuple[int, float, float]]:
    """(end, mean power, power then) of every step, under a load that changes now and then."""
    seen, before = [], node.truth(0)["now"]
    for _ in range(round(seconds * 1000 / step_ms)):
        if chance.random() < 0.03:
            node.set_load(0, chance.random(), chance.random(), chance.random())
        node.advance(step_ms * MS)
        state = node.truth(0)["now"]
        joules = state["energy_j"] - before["energy_j"]
        seen.append((node.now_ns, joules / (step_ms * 1e-3), state["power_w"]))
        before = state
    return seen


def reading(node: _sim.Node) -> dict[str, int]:
    told = node.sensor(0)
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("window_ms", "sampled_ms", "delay_ms", "gain", "offset_w"),
    [
        (1000, 25, 0, 1.0, 0.0),
        (100, 25, 0, 1.0, 0.0),
        (500, 100, 200, 1.03, -2.0),
        (100, 0, 100, 0.95, 5.0),
        (50, 25, 0, 1.0, 0.0),
    ],
)
def test_power_is_the_mean_of_what_was_looked_at_within_the_window(
    window_ms: int, sampled_ms: int, delay_ms: int, gain: float, offset_w: float
) -> None:
    told = {
        "window_ns": window_ms * MS,
        "sampled_ns": sampled_ms * MS,
        "delay_ns": delay_ms * MS,
        "gain": gain,
        "offset_w": offset_w,
    }
    node = alone(card(sensor=told))
    chance = random.Random(window_ms)
    seen: list[tuple[int, float, float]] = []
    for _ in range(5):
        seen += watch(node, 0.7, chance)
        newest = (node.now_ns - delay_ms * MS) // (100 * MS) * 100 * MS
        looked = [
            watts
            for end, watts, _ in seen
            if newest - max(window_ms, 100) * MS < end <= newest
            and -(-end // MS) % 100 in (*range(100 - (sampled_ms or 100) + 1, 100), 0)
        ]
        if newest < window_ms * MS:
            continue  # the time before the first sample is not looked at
        mean = sum(looked) / len(looked) * gain + offset_w
        assert reading(node)["power_mw"] == pytest.approx(mean * 1000, abs=2)
        then = [now for end, _, now in seen if end == newest]
        expected = (then[0] * gain + offset_w) * 1000
        assert reading(node)["power_instant_mw"] == pytest.approx(expected, abs=1)


def test_a_quarter_of_the_time_can_miss_a_whole_burst() -> None:
    """The error that arXiv 2312.02741 describes: bursts of 50 ms in each 100, never looked at."""
    node = alone(card())
    for _ in range(30):
        node.set_load(0, 1.0, 1.0, 0.0)
        node.advance(50 * MS)
        node.set_load(0, 0.0, 0.0, 0.0)
        node.advance(50 * MS)
    state = node.truth(0)["now"]
    assert reading(node)["power_mw"] / 1000 < 120
    assert state["energy_j"] / 3 > 300
    assert reading(node)["energy_mj"] == pytest.approx(state["energy_j"] * 1000, abs=1)


def test_the_energy_counter_counts_everything_at_its_period() -> None:
    node = alone(card(sensor={"energy_period_ns": 40 * MS}))
    node.set_load(0, 0.8, 0.5, 0.1)
    joules = {}
    for step in range(1, 50):
        node.advance(10 * MS)
        joules[step] = node.truth(0)["now"]["energy_j"]
        counted = joules.get(step // 4 * 4, 0.0)
        assert reading(node)["energy_mj"] == int(counted * 1000)


def test_temperature_is_as_old_as_its_period() -> None:
    node = alone(card(sensor={"temperature_period_ns": 500 * MS}))
    node.set_load(0, 1.0, 1.0, 0.0)
    node.advance(2000 * MS)
    then = node.truth(0)["now"]["die_c"]
    node.advance(499 * MS)
    assert reading(node)["temperature_mc"] == round(then * 1000)
    assert node.truth(0)["now"]["die_c"] > then + 1
    node.advance(1 * MS)
    assert reading(node)["temperature_mc"] > then * 1000 + 1000


def test_utilisation_is_that_of_the_newest_period() -> None:
    node = alone(card())
    node.lock_clocks(0, 1800, 1800)
    node.advance(MS)
    node.set_load(0, 0.5, 0.25, 0.0)
    node.advance(S)
    assert reading(node)["busy_percent"] == 50
    assert reading(node)["memory_busy_percent"] == 25
    node.set_load(0, 0.0, 0.0, 0.0)
    node.advance(250 * MS)
    assert reading(node)["busy_percent"] == 0


def test_a_long_rest_leaves_the_sensors_as_steps_would() -> None:
    """Skipping an hour and living through it give the same answers."""
    skipped, lived = alone(card()), alone(card())
    for node in (skipped, lived):
        node.set_load(0, 1.0, 0.5, 0.0)
        node.advance(3 * S)
        node.set_load(0, 0.0, 0.0, 0.0)
    skipped.advance(600 * S)
    for _ in range(600):
        lived.advance(1 * S)
    one, other = reading(skipped), reading(lived)
    assert {key for key in one if abs(one[key] - other[key]) > 1e-6 * abs(other[key]) + 1} == set()


def samples(node: _sim.Node) -> list[Any]:
    return [reading(node)[key] for key in ("power_mw", "power_instant_mw")]


def test_a_stuck_sensor_keeps_its_value_and_lets_go() -> None:
    node = alone(card())
    node.advance(5 * S)
    node.inject("stuck", 0, until_ns=10 * S)
    node.advance(1)
    held = samples(node)
    node.set_load(0, 1.0, 1.0, 0.0)
    node.advance(4 * S)
    assert samples(node) == held
    node.advance(2 * S)
    assert min(samples(node)) > 500_000
