# SPDX-License-Identifier: Apache-2.0
"""The tables of signals and Xids: whole, consistent, and on the page that operators read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.health.signals import KINDS, NODE, RESET
from stoker.agent.health.table import HOLDING, ORDER, RULES, document, rules
from stoker.agent.health.xids import LAST, XIDS, xid

PAGE = Path(__file__).parents[3] / "docs/operator/health.md"


def test_every_kind_has_a_rule_and_the_mildest_comes_first() -> None:
    assert {*RULES, "xid", "recovery"} == set(KINDS)
    for kind in RULES:
        order = [ORDER.index(rule.action) for rule in rules(kind)]
        assert order == sorted(set(order)), kind
        assert all(rule.clean_s > 0 for rule in rules(kind))


def test_every_xid_of_the_catalogue_has_one_row() -> None:
    assert list(XIDS) == list(range(1, LAST + 1))
    assert all(row.number == number and row.text for number, row in XIDS.items())


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (13, "restart"),
        (31, "restart"),
        (43, "ignore"),
        (45, "ignore"),
        (48, "reset"),
        (54, "cordon"),
        (63, "warn"),
        (64, "reset"),
        (74, "cordon"),
        (79, "reset"),
        (94, "restart"),
        (95, "reset"),
        (109, "reset"),
        (119, "reset"),
        (149, "cordon"),
        (154, "warn"),
        (9999, "warn"),
    ],
)
def test_xids_that_matter(number: int, action: str) -> None:
    assert xid(number).action == action
    assert rules("xid", number)[0].ends == (action in ("restart", "reset"))


def test_programs_that_fail_one_after_the_other_cordon_the_card() -> None:
    assert [rule.action for rule in rules("xid", 31)] == ["restart", "cordon"]
    assert [rule.action for rule in rules("xid", 79)] == ["reset"]


def test_what_a_driver_asks_for() -> None:
    assert rules("recovery", RESET)[0].action == "reset"
    assert rules("recovery", NODE)[0].action == "drain"
    assert "drain" in HOLDING


def test_the_page_has_the_tables_as_they_are() -> None:
    assert document() in PAGE.read_text()
