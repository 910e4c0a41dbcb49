# SPDX-License-Identifier: Apache-2.0
"""Each frame that enters a bad cable is counted once, and comes out when it is due."""

from __future__ import annotations

import random

import pytest

from stoker.tui.chaos import frame_queue
from stoker.tui.chaos.frame_queue import CableQuality, FrameQueue


def queue(*quality: float, seed: int = 1) -> FrameQueue:
    return FrameQueue(CableQuality(*quality), random.Random(seed))


def filled(made: FrameQueue, frames: int, apart_s: float = 0.001) -> FrameQueue:
    """Put frames in that say when: one after each `apart_s`."""
    for n in range(frames):
        made.put(str(n * apart_s).encode(), n * apart_s)
    return made


@pytest.mark.parametrize("seed", range(10))
def test_each_frame_has_one_fate(seed: int) -> None:
    chance = random.Random(seed)
    made = queue(chance.random(), 0.1 * chance.random(), seed=seed)
    out = 0
    for n in range(1000):
        made.put(b"x", n / 1000)
        out += len([*made.due(n / 1000)]) if chance.random() < 0.3 else 0
    counts = made.counts
    assert counts.frames == 1000 and counts.passed == out and counts.full == 0
    assert counts.frames == counts.passed + counts.lost + counts.under_way


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.3, 1.0])
def test_about_the_share_of_the_quality_gets_lost_and_one_seed_loses_the_same(loss: float) -> None:
    lost = filled(queue(loss), 10_000).counts.lost
    assert abs(lost / 10_000 - loss) < 0.02
    assert lost == filled(queue(loss), 10_000).counts.lost
    assert loss in (0.0, 1.0) or lost != filled(queue(loss, seed=2), 10_000).counts.lost


def test_a_frame_comes_out_between_the_least_and_the_most_delay_and_may_be_overtaken() -> None:
    made = filled(queue(0.0, 0.1, 0.05), 1000)
    order = []
    for step in range(2000):
        for frame in made.due(step / 1000):
            order.append(float(frame))
            assert 0.05 <= step / 1000 - float(frame) <= 0.151 + 1e-9
    assert len(order) == 1000 and order != sorted(order)
    assert made.next_s() is None and 0 < made.counts.late_s <= 0.001 + 1e-9


def test_without_jitter_frames_keep_their_order_and_nothing_waits_without_a_delay() -> None:
    slow, good = filled(queue(0.0, 0.1), 100), filled(queue(), 100)
    assert [float(frame) for frame in slow.due(10.0)] == [n * 0.001 for n in range(100)]
    assert good.next_s() == 0.0
    assert len([*good.due(0.099)]) == 100


def test_a_full_cable_drops_what_comes_and_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_queue, "FRAMES_MAX", 10)
    made = filled(queue(0.0, 60.0), 25)
    assert (made.counts.full, made.counts.under_way) == (15, 10)
