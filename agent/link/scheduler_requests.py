# SPDX-License-Identifier: Apache-2.0
"""The agent's requests to the scheduler: hello, the desired state, outcomes.

Each request is one task that posts exactly one answer to the core, even if it fails; the core
decides when to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from stoker.agent.jobs import steps
from stoker.agent.jobs.steps import Event
from stoker.agent.link.agent_connection import AgentConnection
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import StokerError, Unavailable

REQUEST_S = 2.5
"""Seconds to wait for an answer, which follows a commit; repeating a request is safe."""

_encoder = msgspec.msgpack.Encoder()
_replies = msgspec.msgpack.Decoder(NodeReply)

Post = Callable[[Event], None]
Spawn = Callable[[Coroutine[Any, Any, None]], object]


class SchedulerRequests:
    """`begin` starts a request; `post` gets its answer, `spawn` runs its task."""

    def __init__(self, node: str, link: AgentConnection, post: Post, spawn: Spawn) -> None:
        self._node = node
        self._link = link
        self._post = post
        self._spawn = spawn

    def begin(self, effect: steps.SayHello | steps.RequestState | steps.SendOutcomes) -> None:
        """Send the request of an effect."""
        match effect:
            case steps.SendOutcomes():
                self._spawn(self._tell(effect))
            case steps.SayHello():
                self._spawn(self._hello(effect))
            case steps.RequestState():
                self._spawn(self._request_state(effect))

    async def _hello(self, hello: steps.SayHello) -> None:
        report = hello.report
        try:
            reply = await self._request(subjects.hello(self._node), report)
        except StokerError as error:
            self._post(steps.NotGreeted(error.message))
            return
        greeted = steps.Greeted(report, reply.term)
        self._post(greeted if reply.ok else steps.NotGreeted(reply.message))

    async def _tell(self, tell: steps.SendOutcomes) -> None:
        try:
            reply = await self._request(subjects.outcome(self._node), tell.outcomes)
        except StokerError as error:
            self._post(steps.NotCommitted(tell.number, error.message))
            return
        if reply.ok:
            self._post(steps.Committed(tell.number, reply.term))
        else:
            self._post(steps.NotCommitted(tell.number, reply.message, reply.code))

    async def _request_state(self, request: steps.RequestState) -> None:
        subject = subjects.log_range(self._node)
        try:
            data = await self._link.request(subject, _encoder.encode(request.request), REQUEST_S)
        except StokerError as error:
            self._post(steps.StateFailed(error.message))
            return
        refusal = _refusal(data)
        self._post(steps.StateFailed(refusal) if refusal else steps.StateReceived(data))

    async def _request(self, subject: str, payload: object) -> NodeReply:
        data = await self._link.request(subject, _encoder.encode(payload), REQUEST_S)
        try:
            return _replies.decode(data)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the scheduler's answer cannot be read: {error}") from None


def _refusal(data: bytes) -> str:
    """Return why the scheduler did not send a sealed state, or an empty string if it did."""
    try:
        reply = _replies.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return "" if reply.ok else reply.message or reply.code
