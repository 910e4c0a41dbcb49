# SPDX-License-Identifier: Apache-2.0
"""A planned stop ends what it hears last, and answers each request that only it can have heard."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.replica import events
from stoker.mesh.server import planned_stop
from stoker.mesh.server.planned_stop import PlannedStop
from stoker.mesh.server.request_intake import LATE_MAX, DaemonCalls, RequestIntake
from stoker.mesh.wire import subjects


class Sent:
    """A request of alice, with the answers to it."""

    def __init__(self) -> None:
        self.subject = subjects.user_request("alice", "job", "list")
        self.data = b"{}"
        self.headers = None
        self.answers: list[Any] = []

    async def respond(self, data: bytes) -> None:
        self.answers.append(msgspec.json.decode(data))


class Stopped:
    """A scheduler that is stopped; `happened` has each step."""

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.leads = True
        none: Any = None
        self.counted: list[str] = []
        calls = DaemonCalls(self.feed, none, self.counted.append, lambda: self.leads)
        self.intake = RequestIntake(none, none, calls, Budgets())
        users: Any = self
        self.stop = PlannedStop(self.feed, users, self.intake)

    async def feed(self, event: events.Event) -> None:
        assert isinstance(event, events.Leave)
        self.happened.append("leave")
        self.leads = False
        await self.stop.note_left(events.Left())

    async def nodes_end(self) -> None:
        self.happened.append("nodes end")

    async def drain(self) -> None:
        self.happened.append("users end")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    monkeypatch.setattr(planned_stop, "LINGER_S", 0.02)
    return Stopped()


async def test_users_are_heard_until_another_scheduler_leads(stopped: Stopped) -> None:
    await stopped.stop.hand_over(stopped.nodes_end, [])
    assert stopped.happened == ["nodes end", "leave", "users end"]
    assert stopped.stop.begun


async def test_a_request_that_comes_after_the_end_is_sent_again_by_its_client(
    stopped: Stopped,
) -> None:
    before, late = Sent(), Sent()
    stopped.leads = False
    await stopped.intake.receive(before)
    stopped.leads = True

    async def drain() -> None:
        await stopped.intake.receive(late)

    stopped.drain = drain  # type: ignore[method-assign]
    await stopped.stop.hand_over(stopped.nodes_end, [])
    assert [answer["error"]["code"] for answer in late.answers] == ["not_leader"]
    assert before.answers == [], "what a follower hears is the leader's"


async def test_no_more_are_kept_than_there_is_room_for(stopped: Stopped) -> None:
    stopped.leads = False
    stopped.intake.keep_late()
    sent = [Sent() for _ in range(LATE_MAX + 1)]
    for each in sent:
        await stopped.intake.receive(each)
    await stopped.intake.refuse_late()
    assert [len(each.answers) for each in sent] == [1] * LATE_MAX + [0]
    assert stopped.counted.count("request_late_dropped") == 1


async def test_a_handover_that_does_not_end_is_given_up(
    stopped: Stopped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_stop, "HAND_OVER_S", 0.05)

    async def hangs() -> None:
        await asyncio.Event().wait()

    await stopped.stop.hand_over(hangs, [])
    assert stopped.happened == []


async def test_what_was_kept_is_sent_back_by_a_handover_that_is_given_up(
    stopped: Stopped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned_stop, "HAND_OVER_S", 0.05)
    late = Sent()

    async def drain() -> None:
        await stopped.intake.receive(late)
        await asyncio.Event().wait()

    stopped.drain = drain  # type: ignore[method-assign]
    await stopped.stop.hand_over(stopped.nodes_end, [])
    assert [answer["error"]["code"] for answer in late.answers] == ["not_leader"]
