# SPDX-License-Identifier: Apache-2.0
"""The scenarios that are played on simulated cards: whole, and told as a table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stoker.agent.health import sim_commands
from stoker.agent.health.rehearsal import Follower, summary
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
        assert 0 <= each.shows_s <= each.spread_s


def test_a_fault_that_takes_many_events_shows_with_the_last_that_its_rule_wants() -> None:
    shows = {each.name: each.shows_s for each in SCENARIOS if each.shows_s}
    assert shows == {
        "many corrected errors, AMD": 0.5 * 100 / 200,
        "link errors": 0.5 * 10 / 50,
        "Xid 31, 10000 times": 50 / 10_000,
    }


def test_every_action_but_ignore_is_led_to() -> None:
    assert {each.action for each in SCENARIOS} == set(ORDER) - {"ignore"}


def test_each_vendor_has_its_share_of_thirty_and_more() -> None:
    vendors = Counter(each.card // 4 if each.card < 4 else each.card // 2 for each in SCENARIOS)
    assert vendors[0] >= 20 and vendors[2] >= 6 and vendors[3] >= 5  # NVIDIA, AMD, Intel


def test_faults_of_one_card_do_not_hide_one_another() -> None:
    """A fault that leaves a card unreadable is found once: it counts as over some seconds later."""
    seen = Counter((s.card, s.expect, s.number, s.action) for s in SCENARIOS)
    assert [key for key, times in seen.items() if times > 1] == []


def lines(*said: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in said)


def test_a_log_is_followed_to_its_whole_lines(tmp_path: Path) -> None:
    path, follower = tmp_path / "agent.log", Follower(tmp_path / "agent.log")
    follower.follow()  # there is none yet
    raised = {"event": "device health: raised", "device": "a", "signal": "xid", "number": 31}
    raised |= {"action": "restart", "reason": "x", "read_ns": 5, "decided_ns": 7, "reported": True}
    done = {"event": "device health: committed", "decided_ns": 7, "committed_ns": 19}
    many = {"event": "device health: Xids without a line each", "count": 40}
    text = lines({"event": "other"}, raised, many)
    path.write_text(text + lines(done)[:-9])
    follower.follow()
    (found,) = follower.found
    assert (found.kind, found.read_ns, follower.committed(found)) == ("xid", 5, None)
    path.write_text(text + lines(done))
    follower.follow()
    assert (len(follower.found), follower.committed(found)) == (1, 19)
    assert (follower.lines, follower.untold) == (3, 40)


def test_the_worst_times_are_summed_up() -> None:
    rows = [
        {"period_ms": 100.0, "decided_ms": 3.0, "commit_ms": 9.0},
        {"period_ms": 100.0, "decided_ms": 80.0, "commit_ms": None},
        {"period_ms": 1000.0, "decided_ms": None, "commit_ms": None},
    ]
    assert summary(rows) == {
        "worst_decided_ms": {"100": 80.0},
        "commit_ms": {"median": 9.0, "most": 9.0},
    }
    assert summary([])["commit_ms"] == {}


def report(**of_second: Any) -> dict[str, Any]:
    times = {"decided_ms": 3.2, "commit_ms": 21.4, "period_ms": 100.0, "held_before": False}
    first, second = (each.told() for each in SCENARIOS[:2])
    rows = [first | times | {"ok": True, "reason": "Xid 13: x"}]
    rows.append(second | times | {"ok": True, "reason": "y"} | of_second)
    wrong = [row["name"] for row in rows if not row["ok"]]
    return {"faults": rows, "wrong": wrong, "late": []}


def test_a_line_for_each_and_what_went_wrong_is_the_exit(monkeypatch: Any) -> None:
    monkeypatch.setattr(sim_commands, "_run", lambda folder: report())
    done = CliRunner().invoke(sim_commands.sim_faults_command)
    assert done.exit_code == 0 and done.output.endswith("all 2 as the table says\n")
    assert "SIM" in done.output and "21 ms" in done.output
    bad = report(ok=False, decided_ms=None, commit_ms=None) | {"late": ["a fan"]}
    monkeypatch.setattr(sim_commands, "_run", lambda folder: bad)
    done = CliRunner().invoke(sim_commands.sim_faults_command)
    assert done.exit_code == 1 and "not restart" in done.output
    assert done.output.endswith("later than its period: a fan\nwrong: Xid 31\n")
    done = CliRunner().invoke(sim_commands.sim_faults_command, ["--json"])
    assert done.exit_code == 1 and '"wrong": [' in done.output
