# SPDX-License-Identifier: Apache-2.0
"""The scenarios that are played on simulated cards: whole, and told as a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from click.testing import CliRunner

from stoker.agent.health import sim_commands
from stoker.agent.health.scenarios import PROFILE, SCENARIOS, WAVES
from stoker.agent.health.signals import KINDS
from stoker.agent.health.table import ORDER, rules
from stoker.probes.simdriver import faults, profiles


def test_each_is_one_fault_of_one_card_and_has_its_rule() -> None:
    cards = len(profiles.load(PROFILE))
    assert len(SCENARIOS) >= 30
    assert max(Counter((each.wave, each.card) for each in SCENARIOS).values()) == 1
    assert max(Counter(each.name for each in SCENARIOS).values()) == 1
    assert {each.wave for each in SCENARIOS} == set(range(1, WAVES + 1))
    for each in SCENARIOS:
        assert each.expect in KINDS and 0 <= each.card < cards
        assert each.fault in faults.kinds()
        assert each.at < len(rules(each.expect, each.number))


def test_every_action_but_ignore_is_led_to() -> None:
    assert {each.action for each in SCENARIOS} == set(ORDER) - {"ignore"}


def report(**of_second: Any) -> dict[str, Any]:
    first, second = (each.told() for each in SCENARIOS[:2])
    rows = [first | {"ok": True, "after_s": 0.01, "reason": "Xid 13: x"}]
    rows.append(second | {"ok": True, "after_s": 0.02, "reason": "y"} | of_second)
    return {"faults": rows, "wrong": [row["name"] for row in rows if not row["ok"]]}


def test_a_line_for_each_and_what_went_wrong_is_the_exit(monkeypatch: Any) -> None:
    monkeypatch.setattr(sim_commands, "_run", lambda folder: report())
    done = CliRunner().invoke(sim_commands.sim_faults_command)
    assert done.exit_code == 0 and done.output.endswith("all 2 as the table says\n")
    assert "SIM" in done.output
    bad = report(ok=False, after_s=None)
    monkeypatch.setattr(sim_commands, "_run", lambda folder: bad)
    done = CliRunner().invoke(sim_commands.sim_faults_command)
    assert done.exit_code == 1 and "not restart" in done.output
    assert done.output.endswith("wrong: Xid 31\n")
    done = CliRunner().invoke(sim_commands.sim_faults_command, ["--json"])
    assert done.exit_code == 1 and '"wrong": [' in done.output
