# SPDX-License-Identifier: Apache-2.0
"""Each request to the scheduler ends with one event, which tells a refusal from an answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from stoker.agent.jobs import steps
from stoker.agent.link.scheduler_requests import SchedulerRequests
from stoker.mesh.wire import command
from stoker.mesh.wire.command import NO_HASH, DesiredState, NodeReply, Position, StateRequest
from tests.fakes.orders import Seal


class Answering:
    """Stands for the connection; every request gets the same answer."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        return self.answer


async def answered(answer: bytes) -> list[steps.Event]:
    """Return what a state request posts if this is the answer to it."""
    posted: list[steps.Event] = []
    tasks: list[asyncio.Task[None]] = []
    requests = SchedulerRequests(
        "n1",
        cast(Any, Answering(answer)),
        posted.append,
        lambda work: tasks.append(asyncio.ensure_future(work)),
    )
    requests.begin(steps.RequestState(StateRequest(1, Position())))
    await asyncio.gather(*tasks)
    return posted


async def test_a_scheduler_that_does_not_lead_has_no_state() -> None:
    refusal = NodeReply(False, "not_leader", "this scheduler does not lead")
    assert await answered(msgspec.msgpack.encode(refusal)) == [
        steps.StateFailed("this scheduler does not lead")
    ]


async def test_a_sealed_state_is_given_to_the_core() -> None:
    desired = DesiredState(command.FORMAT, "c", "n1", 1, 0, NO_HASH, 1, 5)
    sealed = command.seal(desired, Seal())
    assert await answered(sealed) == [steps.StateReceived(sealed)]
