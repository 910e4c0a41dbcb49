# SPDX-License-Identifier: Apache-2.0
"""`stoker power` as people type it: its table has short ids, and every form has all cards."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner, Result

from stoker.agent.commands import power_commands
from stoker.agent.power import status
from stoker.agent.power.plan.rules import PowerRules

CARD = "GPU-e3e70682-c209-4cac-a29f-6fbed82c07cd"
FOUND = status.Status(
    time.time_ns(), "observe", "no budget is set", PowerRules(), None,
    (status.CardStatus(CARD, 700.0, (200.0, 700.0, 700.0), 350.0, 40.0, 92.0),),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_commands, "_status", lambda state: FOUND)


def power(*words: str) -> Result:
    return CliRunner().invoke(power_commands.power_command, ["--state", "/nowhere", *words])


def test_the_table_has_the_id_that_every_verb_takes_and_wide_the_whole_one() -> None:
    shown = power().output
    assert CARD[:12] in shown and CARD not in shown
    assert CARD in power("-o", "wide").output


@pytest.mark.parametrize("words", [("-o", "json"), ("status", "-o", "json")])
def test_the_verb_alone_has_the_forms_of_its_status(words: tuple[str, ...]) -> None:
    found = json.loads(power(*words).output)
    assert [card["id"] for card in found["cards"]] == [CARD]
