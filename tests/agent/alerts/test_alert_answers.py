# SPDX-License-Identifier: Apache-2.0
"""A node's answers about its alerts: what its files say, acknowledgements at once, bounded."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from stoker.agent.alerts import alert_answers, alert_files
from stoker.agent.alerts.alert import Acknowledgement, Alert
from stoker.agent.alerts.alert_files import AlertStatus, RuleStatus
from stoker.agent.alerts.judge import AlertBook
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.wire.queries import CHUNK_BYTES_MAX, AlertsQuery
from stoker.mesh.wire.schema_alerts import ALERT_REASON_MAX, ALERTS_OF_NODE_MAX, NodeAlerts
from stoker.native.errors import BadRequest, NotFound, StokerError

SECOND = 10**9
SERIES = (("hw.id", "GPU-1"), ("hw.name", "L40S SIM"))
HOT = Alert(3, "hot", "hw.temperature", SERIES, "firing", 91.0, "it is 91", 30 * SECOND)
OLDER = msgspec.structs.replace(HOT, id=2, fired_ns=20 * SECOND)
OVER = msgspec.structs.replace(HOT, id=1, state="resolved", resolved_ns=9 * SECOND)


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    state_folder.prepare(made)
    made.agent.mkdir(mode=0o700, exist_ok=True)
    alert_files.write_book(made.agent, AlertBook(4, (OLDER, HOT), (OVER,)))
    return made


def listed(where: StateFolder) -> NodeAlerts:
    reply = alert_answers.answer(where, "n1", AlertsQuery("list"))
    assert len(reply.data) <= CHUNK_BYTES_MAX and not reply.changed
    return msgspec.json.decode(reply.data, type=NodeAlerts)


def test_what_fires_comes_first_the_newest_first_and_says_sim(where: StateFolder) -> None:
    found = listed(where)
    assert [each.alert for each in found.alerts] == [3, 2, 1]
    first = found.alerts[0]
    assert (first.node, first.sim, first.about) == ("n1", True, "GPU-1 SIM")
    assert first.series == dict(SERIES) and found.judged is None


def test_an_acknowledgement_is_seen_before_the_agent_has_taken_it_over(where: StateFolder) -> None:
    query = AlertsQuery("acknowledge", (3,), "ada", "a fan is coming")
    assert alert_answers.answer(where, "n1", query).changed
    found = listed(where)
    assert [each.alert for each in found.alerts] == [2, 3, 1], "what nobody has seen is first"
    seen = found.alerts[1].acknowledged
    assert seen is not None and (seen.by, seen.why) == ("ada", "a fan is coming")
    later = AlertsQuery("acknowledge", (3,), "bob")
    assert not alert_answers.answer(where, "n1", later).changed
    assert listed(where).alerts[1].acknowledged == seen, "the first one stays"


def test_the_newest_judgement_says_its_age_and_which_rules_watch_nothing(
    where: StateFolder,
) -> None:
    where.run.mkdir(parents=True, exist_ok=True)
    rules = (RuleStatus("hot", "hw.temperature", 2), RuleStatus("x", "hw.power", 0))
    made = time.time_ns() - 60 * SECOND
    alert_files.write_status(where.run, AlertStatus(made, 5.0, AlertBook(4, (HOT,)), rules))
    try:
        found = listed(where)
    finally:
        (where.run / alert_files.STATUS).unlink()
        where.run.rmdir()
    assert found.judged is not None and found.judged.silent == ("x",)
    assert found.judged.age_ns >= 60 * SECOND and found.judged.interval_ns == 5 * SECOND


def test_more_than_an_answer_may_have_is_counted(where: StateFolder) -> None:
    many = tuple(
        msgspec.structs.replace(HOT, id=at, reason="x" * 3000, fired_ns=at * SECOND)
        for at in range(1, 1001)
    )
    alert_files.write_book(where.agent, AlertBook(1001, many))
    found = listed(where)
    assert 0 < len(found.alerts) < ALERTS_OF_NODE_MAX
    assert found.alerts[0].alert == 1000 and len(found.alerts) + found.left_out == 1000


@pytest.mark.parametrize(
    ("query", "kind", "says"),
    [
        (AlertsQuery("acknowledge", (1,), "ada"), NotFound, "a1 does not fire"),
        (AlertsQuery("acknowledge", (), "ada"), BadRequest, "0 alerts at once"),
        (AlertsQuery("acknowledge", (3,), "ada", "a\nb"), BadRequest, "one line"),
        (AlertsQuery("acknowledge", (3,), "ada", "x" * (ALERT_REASON_MAX + 1)), BadRequest, "200"),
    ],
)
def test_what_is_wrong_changes_nothing(
    where: StateFolder, query: AlertsQuery, kind: type[StokerError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        alert_answers.answer(where, "n1", query)
    assert alert_files.read_acknowledged(where.agent) == {}


def test_an_acknowledgement_of_what_is_over_is_forgotten_with_the_next(where: StateFolder) -> None:
    old = Acknowledgement("ada", 1, "")
    alert_files.write_acknowledged(where.agent, {1: old})
    alert_answers.answer(where, "n1", AlertsQuery("acknowledge", (2,), "bob"))
    assert set(alert_files.read_acknowledged(where.agent)) == {2}


def test_a_damaged_book_is_a_refusal_and_no_defect(where: StateFolder) -> None:
    (where.agent / alert_files.BOOK).write_bytes(b"{}")
    with pytest.raises(StokerError, match="its book of alerts cannot be read"):
        listed(where)
