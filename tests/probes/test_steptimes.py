# SPDX-License-Identifier: Apache-2.0
"""What a job's pace says of tracing, and when it says nothing."""

from __future__ import annotations

import random

import pytest

from stoker.probes.steptimes import STEPS_KEPT, STEPS_NEEDED, Step, StepTimes


def paces(slower: float, noise: float, count: int, seed: int = 1) -> StepTimes:
    chance = random.Random(seed)
    found = StepTimes()
    for i in range(count):
        length = (1.0 + slower * (i % 2)) * 1e6 * chance.lognormvariate(0, noise)
        found.add([Step(bool(i % 2), int(length))])
    return found


def test_too_few_steps_say_nothing() -> None:
    assert paces(0.5, 0.0, 2 * STEPS_NEEDED - 1).slowdown_ppm() is None
    assert paces(0.5, 0.0, 2 * STEPS_NEEDED).slowdown_ppm() == 500_000


def test_it_never_says_more_than_the_truth_but_rarely() -> None:
    said = [paces(0.02, 0.05, 200, seed).slowdown_ppm() or 0 for seed in range(200)]
    assert sum(ppm > 20_000 for ppm in said) <= 12  # 2.5 % of 200 is 5
    assert sum(said) / len(said) < 15_000


def test_no_difference_is_no_cost() -> None:
    assert sum((paces(0, 0.1, 200, seed).slowdown_ppm() or 0) > 0 for seed in range(200)) <= 12


def test_newer_steps_take_the_place_of_older_ones() -> None:
    found = paces(0.5, 0.0, 400)
    found.add(Step(traced, 1_000_000) for traced in (True, False) for _ in range(STEPS_KEPT))
    assert found.slowdown_ppm() == 0


def test_steps_without_a_length_and_forgotten_ones_do_not_count() -> None:
    found = paces(0.5, 0.0, 100)
    found.add([Step(True, 0), Step(False, -1)])
    assert found.slowdown_ppm() == pytest.approx(500_000, rel=1e-6)
    found.forget()
    assert found.slowdown_ppm() is None
