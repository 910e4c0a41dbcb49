# SPDX-License-Identifier: Apache-2.0
"""Chance is the same for a seed everywhere, and even."""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.scheduler.sim.chance import Chance


def test_the_stream_of_a_seed_never_changes() -> None:
    """The first numbers of seed 0 of that generator as its authors print them."""
    chance = Chance(0)
    assert [hex(chance.bits()) for _ in range(3)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_seeds_differ_and_repeat() -> None:
    assert Chance(1).bits() != Chance(2).bits()
    assert Chance(7).bits() == Chance(7).bits()


@pytest.mark.parametrize("bound", [1, 2, 3, 7])
def test_below_is_even(bound: int) -> None:
    chance = Chance(3)
    counts = Counter(chance.below(bound) for _ in range(3000))
    assert set(counts) == set(range(bound))
    assert all(abs(count - 3000 / bound) < 200 for count in counts.values())


def test_shuffle_keeps_everyone_and_reaches_every_order() -> None:
    chance = Chance(1)
    seen = set()
    for _ in range(200):
        items = [1, 2, 3]
        chance.shuffle(items)
        seen.add(tuple(items))
    assert len(seen) == 6


def test_gaps_have_their_mean() -> None:
    chance = Chance(5)
    gaps = [chance.gap(40.0) for _ in range(4000)]
    assert min(gaps) >= 0
    assert abs(sum(gaps) / 4000 - 40) < 3
    assert 0 <= chance.unit() < 1
