# SPDX-License-Identifier: Apache-2.0
"""A leader knows which servers outside the roster are there, and how far each has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.peers.applicants import AGAIN_NS, HEARD_NS, Applicants
from stoker.mesh.wire.peer_messages import Message, Witnessed, WitnessRequest
from tests.mesh.replica.peers.rosters import quorum

SERVERS = tuple(RosterMember(number, f"U{number}") for number in (1, 2, 3, 4))
NEW = 4
START = 10**12


class Asking:
    """The applicants of scheduler 1, which leads 1, 2 and 3 and holds as many entries as `end`."""

    def __init__(self, *, known: bool = True) -> None:
        self.end = 40
        self.now = START
        self.sent: list[tuple[int, Message]] = []
        tail: Any = SimpleNamespace(end=SimpleNamespace(index=self.end))
        self.tail = tail
        roster: Any = SimpleNamespace(opened=lambda member: f"key of {member.number}")
        self.applicants = Applicants(
            7, own=1, roster=roster, quorum=quorum(1, 2, 3), tail=tail,
            send=lambda to, message: self.sent.append((to, message)),
        )  # fmt: skip
        if known:
            self.applicants.know(SERVERS)

    def instant(self) -> Instant:
        return Instant(self.now, self.now)

    def ask(self, after_ns: int = AGAIN_NS) -> int:
        """Let time pass, and return the number of the question that is asked then; 0 of none."""
        self.now += after_ns
        self.sent.clear()
        self.applicants.tick(self.instant(), leads=True)
        for to, message in self.sent:
            assert to == NEW and isinstance(message, WitnessRequest)
            return message.number
        return 0

    def answers(self, question: int, last: int) -> bool:
        return self.applicants.told(NEW, Witnessed(question, 1, last, 0, b""), self.instant())

    def lack(self, number: int = NEW) -> str:
        return self.applicants.lack(number, self.instant())


def test_it_asks_those_outside_the_roster_once_a_second_while_it_leads() -> None:
    asking = Asking()
    first = asking.ask()
    assert first and not asking.ask(AGAIN_NS - 1) and asking.ask(1) == first + 1
    asking.sent.clear()
    asking.now += AGAIN_NS
    asking.applicants.tick(asking.instant(), leads=False)
    assert asking.sent == []


def test_who_has_what_the_leader_had_at_the_question_before_may_enter() -> None:
    asking = Asking()
    assert "does not answer" in asking.lack()
    assert asking.answers(asking.ask(), 40)
    assert asking.lack() == "that server has read entry 40 of 40", "one answer shows no pace"
    question = asking.ask()
    asking.tail.end.index = 45
    assert asking.answers(question, 39) and asking.lack() == "that server has read entry 39 of 45"
    assert asking.answers(question, 40) and asking.lack() == ""
    assert asking.applicants.answering(asking.now) == {NEW}


def test_who_is_silent_is_not_there_and_an_old_answer_is_none() -> None:
    asking = Asking()
    old = asking.ask()
    assert asking.answers(asking.ask(), 40) and asking.lack() == ""
    assert not asking.answers(old, 50)
    asking.now += HEARD_NS
    assert "does not answer" in asking.lack() and not asking.applicants.answering(asking.now)


def test_a_leader_that_was_deposed_begins_anew() -> None:
    asking = Asking()
    asking.ask()
    asking.answers(asking.ask(), 40)
    asking.applicants.tick(asking.instant(), leads=False)
    assert "does not answer" in asking.lack()
    assert asking.answers(asking.ask(), 40)
    assert asking.lack(), "what it had before it led is too old"


@pytest.mark.parametrize("known", [True, False])
def test_keys_are_those_of_servers_that_were_named(known: bool) -> None:
    asking = Asking(known=known)
    assert asking.applicants.key(NEW) == ("key of 4" if known else None)
    assert asking.applicants.key(9) is None
    assert bool(asking.lack()) is known, "who knows no servers has none to wait for"
