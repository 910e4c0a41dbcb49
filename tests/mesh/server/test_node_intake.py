# SPDX-License-Identifier: Apache-2.0
"""A node that floods a scheduler is read up to its rate, and one line tells of what was none."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from stoker.mesh.connection.heard_subject import HeardSubject
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.replica import events
from stoker.mesh.server.node_door import REQUESTS_PER_S
from stoker.mesh.server.node_intake import NodeIntake
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import NodeReply

HELLO = subjects.hello("n1")


class Broker:
    """A broker's connection that hands over what a test sends, and keeps what is answered."""

    def __init__(self) -> None:
        self.sent: list[NodeReply] = []
        self.told: list[Exception] = []

    async def subscribe(self, subject: str, *, cb: Any, admits: Any) -> HeardSubject:
        return HeardSubject(self, b"1", subject, "", cb, admits=admits)

    async def publish(self, subject: str, data: bytes) -> None:
        self.sent.append(msgspec.msgpack.decode(data, type=NodeReply))

    async def flush(self) -> None:
        """Everything is taken."""

    def forget(self, heard: HeardSubject) -> None:
        """Nothing more comes."""

    def tell(self, error: Exception) -> None:
        self.told.append(error)


class Intake:
    """An intake, and what it made of messages."""

    def __init__(self, answers: bool = True) -> None:
        self.broker, self.counted = Broker(), Counter[str]()
        self.fed: list[events.Event] = []
        self.intake = NodeIntake(self._feed, self._count, lambda: answers)

    async def _feed(self, event: events.Event) -> None:
        self.fed.append(event)

    def _count(self, name: str) -> None:
        self.counted[name] += 1

    async def hear(self, heard: HeardSubject, subject: str, *found: bytes) -> None:
        for data in found:
            heard.offer(Delivery(subject, data, "", "back"))
        for _ in range(5):
            await asyncio.sleep(0)
        heard.end()


@pytest.fixture
def intake() -> Intake:
    return Intake()


async def test_a_flood_of_what_is_no_message_is_answered_once(
    intake: Intake, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = await intake.intake.hear_requests(intake.broker)  # type: ignore[arg-type]
    await intake.hear(heard, HELLO, *([b"\xc1"] * 1000))
    read = intake.counted["node_bad_request"]
    assert REQUESTS_PER_S["hello"] <= read <= REQUESTS_PER_S["hello"] + 2
    assert intake.counted["node_message_unread"] == 1000 - read
    (reply,) = intake.broker.sent
    assert not reply.ok and not intake.fed and not intake.broker.told
    assert capsys.readouterr().out.count("a node's message is refused") == 1
    (row,) = intake.intake.due(0, 0)
    assert (row.what, row.node) == ("node.flooded", "n1")


async def test_a_flood_of_observations_leaves_those_of_others(intake: Intake) -> None:
    heard = await intake.intake.hear_observations(intake.broker)  # type: ignore[arg-type]
    flood = [Delivery(subjects.observation("n1"), b"\xc1", "") for _ in range(1000)]
    for delivery in (*flood, Delivery(subjects.observation("n2"), b"\xc1", "")):
        heard.offer(delivery)
    await intake.hear(heard, subjects.observation("n2"), b"\xc1")
    assert 20 <= intake.counted["observation_refused"] <= 25
    assert [row.node for row in intake.intake.due(0, 0)] == ["n1"]


async def test_who_does_not_lead_leaves_requests_to_the_leader() -> None:
    intake = Intake(answers=False)
    heard = await intake.intake.hear_requests(intake.broker)  # type: ignore[arg-type]
    await intake.hear(heard, HELLO, b"\xc1")
    assert intake.counted == {"node_left_to_the_leader": 1} and not intake.broker.sent
