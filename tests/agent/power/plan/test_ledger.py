# SPDX-License-Identifier: Apache-2.0
"""Reserved watts of a card without limits: as measured, and the most known once it is silent."""

from __future__ import annotations

import pytest

from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.plan.ledger import LOST_NS, UNCAPPED_ERROR, UNCAPPED_OFFSET_W, Ledger

S = 1_000_000_000


def counted(watts: float) -> float:
    return watts * (1 + UNCAPPED_ERROR) + UNCAPPED_OFFSET_W


def test_what_takes_no_limit_counts_as_measured_while_it_is_measured() -> None:
    ledger = Ledger([PowerCard("a", None, None, 85.0, most_w=500.0)], 0)
    ledger.read(PowerSample("a", S, power_w=300.0))
    ledger.read(PowerSample("a", 2 * S, power_w=120.0))
    assert ledger.counted_w("a", 2 * S) == pytest.approx(counted(120))


def test_a_silent_one_counts_with_the_most_it_ever_drew_or_can_draw() -> None:
    cards = [PowerCard("a", None, None, 85.0), PowerCard("b", None, None, 85.0, most_w=500.0)]
    ledger = Ledger(cards, 0)
    for id in "ab":
        ledger.read(PowerSample(id, S, power_w=300.0))
        ledger.read(PowerSample(id, 2 * S, power_w=120.0))
    late = 2 * S + LOST_NS + 1
    ledger.read(PowerSample("a", late))  # it answers, but not this
    assert ledger.counted_w("a", late) == pytest.approx(counted(300))
    assert ledger.counted_w("b", late) == pytest.approx(500)
    assert ledger.uncapped_w(late) == pytest.approx(counted(300) + 500)
    ledger.read(PowerSample("a", late, power_w=110.0))
    assert ledger.counted_w("a", late) == pytest.approx(counted(110))


def test_one_that_was_never_measured_counts_with_what_it_can_draw() -> None:
    ledger = Ledger([PowerCard("a", None, None, 85.0, most_w=500.0)], 0)
    assert ledger.committed_w(1) == 500
