# SPDX-License-Identifier: Apache-2.0
"""Parts of a card's power, learned from loads whose true parts are known."""

from __future__ import annotations

import pytest

from stoker.agent.power.plan.draw import GAIN_MOST, CardDraw, Shares

TRUE: Shares = (120.0, 130.0, 620.0)
LOADS: list[Shares] = [(1.0, 0.0, 0.0), (1.0, 0.3, 0.9), (1.0, 0.9, 0.4), (1.0, 0.5, 0.5)]


def true_w(shares: Shares) -> float:
    return sum(part * share for part, share in zip(TRUE, shares, strict=True))


def learned(gain: float = 1.0, rounds: int = 30) -> CardDraw:
    draw = CardDraw(95.0, 150.0, 560.0, 700.0)
    for _ in range(rounds):
        for shares in LOADS:
            draw.read(gain * true_w(shares), shares)
    return draw


def test_before_anything_is_read_it_is_the_guess() -> None:
    assert CardDraw(95.0, 150.0, 560.0, 700.0).at((1.0, 0.5, 1.0)) == pytest.approx(730.0)


def test_a_load_that_was_never_seen_is_known_from_others() -> None:
    shares = (1.0, 0.2, 0.7)
    assert learned().at(shares) == pytest.approx(true_w(shares), rel=0.01)


def test_a_sensor_that_is_off_is_found_out_at_the_limit() -> None:
    draw = CardDraw(95.0, 150.0, 560.0, 700.0)
    for _ in range(60):
        draw.limited(1.04 * 0.99 * 500.0, 500.0)
    assert draw.gain == pytest.approx(1.04, abs=0.002)
    for _ in range(200):
        draw.limited(1000.0, 500.0)  # nothing that a sensor could be
    assert draw.gain <= 1 + GAIN_MOST + 1e-9


def test_what_is_off_for_now_is_followed_and_bounded() -> None:
    draw, shares = learned(), LOADS[1]
    for _ in range(60):
        draw.follow(true_w(shares) + 30.0, shares)
    assert draw.offset_w == pytest.approx(30.0, abs=2.0)
    for _ in range(60):
        draw.follow(10_000.0, shares)
    assert draw.offset_w <= 70.0


def test_no_part_is_ever_negative() -> None:
    draw = CardDraw(95.0, 150.0, 560.0, 700.0)
    for _ in range(100):
        draw.read(0.0, (1.0, 0.8, 0.1))
        draw.read(600.0, (1.0, 0.0, 1.0))
    assert min(draw.parts) >= 0
