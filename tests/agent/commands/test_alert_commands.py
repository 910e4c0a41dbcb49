# SPDX-License-Identifier: Apache-2.0
"""`stoker alerts` as people type it, on files that an agent left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from stoker.agent.alerts import alert_files
from stoker.agent.alerts.alert import Alert
from stoker.agent.alerts.alert_files import AlertStatus, RuleStatus
from stoker.agent.alerts.judge import AlertBook
from stoker.agent.commands.alert_commands import alerts_command
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.native.errors import BadRequest, Corrupt, NotFound

FIRING = Alert(
    id=3,
    rule="hot",
    metric="hw.temperature",
    series=(("hw.id", "GPU-1"), ("hw.name", "L40S SIM"), ("hw.sensor_location", "memory")),
    state="firing",
    value=91.0,
    reason="hw.temperature is 91 Cel, above 85 for 30 s",
    fired_ns=time.time_ns() - 50 * 3600 * 10**9,  # the table rounds it down to days
    text="look\x1b[2J",
)
OVER = msgspec.structs.replace(
    FIRING, id=2, state="resolved", resolved_ns=FIRING.fired_ns + 10**9, reason="is 70 Cel"
)


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    state_folder.prepare(made)
    made.agent.mkdir(mode=0o700, exist_ok=True)
    alert_files.write_book(made.agent, AlertBook(4, (FIRING,), (OVER,)))
    return made


def alerts(where: StateFolder, *words: str) -> Result:
    first = words[:1] if words and not words[0].startswith("-") else ()
    return CliRunner().invoke(
        alerts_command, [*first, "--state", str(where.root), *words[len(first) :]]
    )


def test_the_list_says_which_why_since_when_and_that_it_is_simulated(where: StateFolder) -> None:
    lines = alerts(where).output.splitlines()
    assert lines[1].split()[:2] == ["a3", "firing"]
    assert lines[1].split()[-2:] == ["2d", "hot"]
    assert lines[2].strip() == "GPU-1 SIM hw.sensor_location=memory"
    assert lines[3].strip() == FIRING.reason
    assert lines[4].strip() == "look?[2J"
    assert lines[5] == "no agent judges alerts now: the node is down: stoker up"
    assert max(map(len, lines)) <= 80


def test_the_history_has_what_was_resolved(where: StateFolder) -> None:
    found = json.loads(alerts(where, "history", "-o", "json").output)
    assert [(each["id"], each["state"]) for each in found["alerts"]] == [(2, "resolved")]
    assert "is 70 Cel" in alerts(where, "history").output


@pytest.mark.parametrize("word", ["3", "a3", "hot", "all"])
def test_an_alert_is_acknowledged_by_any_of_its_names(where: StateFolder, word: str) -> None:
    done = alerts(where, "ack", word, "--reason", "a fan is coming")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("a3 hot: acknowledged\n")
    kept = alert_files.read_acknowledged(where.agent)
    assert [(id, each.why) for id, each in kept.items()] == [(3, "a fan is coming")]


def test_what_does_not_fire_cannot_be_acknowledged(where: StateFolder) -> None:
    done = alerts(where, "ack", "a2")
    assert isinstance(done.exception, NotFound)
    assert "Those that fire: a3" in str(done.exception)
    assert alert_files.read_acknowledged(where.agent) == {}
    assert isinstance(alerts(where, "ack", "a3", "--reason", "a\nb").exception, BadRequest)


def test_a_running_agent_says_what_watches_nothing_and_what_was_lost(where: StateFolder) -> None:
    where.run.mkdir(parents=True, exist_ok=True)
    rules = (RuleStatus("hot", "hw.temperature", 2), RuleStatus("x", "hw.power", 0))
    counters = {"alert_webhook_lost": 2, "alert_webhook_told": 9, "alert_bus_lost": 0}
    status = AlertStatus(time.time_ns() - 10**11, 5.0, AlertBook(), rules, counters)
    alert_files.write_status(where.run, status)
    try:
        assert alerts(where).output.splitlines() == [
            "no alert fires",
            "rule x watches nothing: this node has no such series hw.power",
            "the last judgement is 2m old",
            "not told or not kept: alert_webhook_lost 2",
        ]
        assert json.loads(alerts(where, "-o", "json").output)["counters"] == counters
    finally:
        (where.run / alert_files.STATUS).unlink()
        where.run.rmdir()


def test_a_damaged_book_and_a_missing_node_are_named(where: StateFolder) -> None:
    (where.agent / alert_files.BOOK).write_bytes(b"{}")
    assert isinstance(alerts(where).exception, Corrupt)
    missing = state_folder.locate(where.root.parent / "other")
    assert isinstance(alerts(missing).exception, NotFound)


def offered(where: StateFolder, begun: str) -> list[tuple[str, str]]:
    """Return the offers behind `stoker alerts ack --state ...`, as zsh asks."""
    words = ["stoker", "alerts", "ack", "--state", str(where.root), begun]
    done = subprocess.run(
        [Path(sys.executable).with_name("stoker")],
        env=os.environ
        | {
            "_STOKER_COMPLETE": "zsh_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    return list(zip(lines[1::3], lines[2::3], strict=True))


def test_a_shell_is_offered_the_alerts_that_fire_and_nobody_has_seen(where: StateFolder) -> None:
    newer = msgspec.structs.replace(FIRING, id=4, rule="loud", reason="a\nb\x1b[2J")
    alert_files.write_book(where.agent, AlertBook(5, (FIRING, newer), (OVER,)))
    assert [word for word, _ in offered(where, "")] == ["a4", "a3", "all"]
    assert offered(where, "a4") == [("a4", "loud: a?b?[2J")]
    assert alerts(where, "ack", "a4").exit_code == 0
    assert [word for word, _ in offered(where, "a")] == ["a3", "all"]
    assert alerts(where, "ack", "all").exit_code == 0
    assert offered(where, "") == []
    (where.agent / alert_files.BOOK).write_text("{")
    assert offered(where, "") == []
