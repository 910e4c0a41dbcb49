# SPDX-License-Identifier: Apache-2.0
"""Faults come steadily, or in spells with a calm after each."""

from __future__ import annotations

import random

import pytest

from stoker.agent.sim import fault_pace
from stoker.agent.sim.fault_pace import FaultPace, Wait


def waits(seed: int, count: int = 60) -> list[Wait]:
    pace = FaultPace(random.Random(seed))
    return [pace.first(), *(pace.next() for _ in range(count))]


def test_a_share_of_seeds_has_spells() -> None:
    with_calm = [any(each.calm_ns for each in waits(seed)) for seed in range(400)]
    assert 0.65 < sum(with_calm) / len(with_calm) < 0.85


@pytest.mark.parametrize("seed", range(20))
def test_a_spell_is_short_and_a_calm_follows_it(seed: int) -> None:
    first, *rest = waits(seed)
    if first.calm_ns is None:
        low, high = fault_pace.STEADY_NS
        assert all(low <= each.fault_ns <= high and not each.ends for each in (first, *rest))
        return
    fewest, most = fault_pace.SPELL_FAULTS
    in_spell = 1
    for each in rest:
        if each.calm_ns is None:
            assert each.fault_ns <= fault_pace.SPELL_NS[1]
            in_spell += 1
        else:
            assert fewest <= in_spell <= most
            assert each.fault_ns - each.calm_ns >= fault_pace.CALM_NS[0]
            in_spell = 1
