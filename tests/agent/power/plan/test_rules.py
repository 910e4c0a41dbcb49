# SPDX-License-Identifier: Apache-2.0
"""Rules that an operator may not set, and the messages that refuse them."""

from __future__ import annotations

import pytest

from stoker.agent.power.plan.card import PowerCard, PowerRange
from stoker.agent.power.plan.rules import CardRule, PowerRules, check
from stoker.native.errors import BadRequest, NotFound

CARDS = [
    PowerCard("gpu-0", PowerRange(200, 700, 700), None, 85.0),
    PowerCard("gpu-1", PowerRange(100, 350, 400), None, 80.0),
    PowerCard("bare", None, None, 85.0),
]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (PowerRules(budget_w=-5), "the power budget is -5"),
        (PowerRules(budget_w=float("nan")), "the power budget is nan"),
        (PowerRules(budget_w=250), "300 to 1100 W can be kept"),
        (PowerRules(cards={"gpu-0": CardRule(at_most_w=150)}), "the device takes 200 to 700 W"),
        (PowerRules(cards={"gpu-1": CardRule(at_most_w=401)}), "the device takes 100 to 400 W"),
        (PowerRules(cards={"gpu-0": CardRule(at_least_w=800)}), "the device takes 200 to 700 W"),
        (PowerRules(cards={"gpu-0": CardRule(300, 400)}), "at least 400 W and at most 300 W"),
        (PowerRules(cards={"bare": CardRule(300)}), "bare takes no power limit"),
        (PowerRules(budget_w=600, cards={"gpu-0": CardRule(0, 600)}), "700 to 1100 W can be kept"),
        (
            PowerRules(tenants={"eve": 50.0}),
            "possible are 100 W, the lowest limit of a card, to 1100 W",
        ),
        (PowerRules(tenants={"eve": float("inf")}), "possible are 100 W"),
        (PowerRules(ceiling_c=82), "gpu-1 takes 40 to 80 C"),
        (PowerRules(ceiling_c=20), "takes 40 to 85 C"),
        (PowerRules(give_up=0.7), "from 0 to below 0.5"),
        (PowerRules(declared={"bare": -3.0}), "possible are 1 to 10000 W"),
        (PowerRules(tenants={f"u{i}": 300.0 for i in range(257)}), "more than 256"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_can(rules: PowerRules, says: str) -> None:
    with pytest.raises(BadRequest, match=says.replace(".", r"\.")):
        check(rules, CARDS)


def test_an_unknown_card_is_named_with_those_there_are() -> None:
    with pytest.raises(NotFound, match="gpu-0, gpu-1, bare"):
        check(PowerRules(cards={"gpu-7": CardRule(300)}), CARDS)


def test_what_cannot_be_capped_counts_against_the_budget() -> None:
    check(PowerRules(budget_w=400), CARDS, uncapped_w=90)
    with pytest.raises(BadRequest, match="450 to 1250 W can be kept"):
        check(PowerRules(budget_w=400), CARDS, uncapped_w=150)


def test_rules_that_can_be_kept_pass() -> None:
    check(
        PowerRules("on", 700, 75, 0.0, {"gpu-0": CardRule(500, 250)}, {"eve": 300.0}),
        CARDS,
    )
