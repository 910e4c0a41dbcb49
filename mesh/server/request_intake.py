# SPDX-License-Identifier: Apache-2.0
"""The intake of users' requests, which are served one at a time and fairly between users.

The daemon gives it every request, and the replica's replies. Guarantees that every request is
answered, also if it meets a defect, and that no request ends the process or delays its other work
for longer than one request takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.events import Event, Get, JobSubmitted, ReadPosition, ReadRequested
from stoker.mesh.replica.works.request_defects import Defects
from stoker.mesh.server.fair_queue import NS, FairQueue
from stoker.mesh.server.node_proxy import NodeProxy
from stoker.mesh.server.service import Caller, Proxied, Service
from stoker.mesh.wire import schema, subjects
from stoker.mesh.wire.subjects import UserRequest
from stoker.native.errors import Busy, Internal, NotLeader, Refused, StokerError
from stoker.native.structured_log import structlog

OWN_WEIGHT = 4
"""The weight of a byte of a reply that is made here, such as a list; a byte that is passed on
from a node takes a quarter of its time and has weight 1."""

LATE_MAX = 4096
"""The most requests that are kept while this scheduler hands over."""
PASS_NS = 1_000_000
"""Requests are served for this long before other work runs; a long request is served alone."""

_log = structlog.get_logger("scheduler")

Count = Callable[[str], None]
"""Adds one to the counter of this name."""


class Arrival(NamedTuple):
    """A request in its user's queue."""

    request: Any
    address: UserRequest


class DaemonCalls(NamedTuple):
    """The daemon's functions that the intake calls."""

    feed: Callable[[Event], Awaitable[None]]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    tally: Count
    answers: Callable[[], bool]
    """True if no other scheduler can answer a request that arrives now."""


async def respond(to: Any, data: bytes, count: Count) -> None:
    """Send a reply; if the connection is lost, the client repeats its request."""
    if len(data) > schema.PAYLOAD_BYTES_MAX:  # the broker would end the connection for it
        count("reply_too_large")
        most = schema.PAYLOAD_BYTES_MAX
        data = schema.error_reply(Refused(f"the answer has {len(data)} bytes, at most {most}"))
    try:
        await to.respond(data)
    except (OSError, ValueError) as error:
        count("reply_lost")
        _log.info("a reply is lost", error=repr(error))


class RequestIntake:
    """All requests of users: `receive` queues one, `run` serves them, `reply` answers one."""

    def __init__(
        self, service: Service, proxy: NodeProxy, daemon: DaemonCalls, budgets: Budgets
    ) -> None:
        self._service = service
        self._proxy = proxy
        self._daemon = daemon
        self._queue: FairQueue[Arrival] = FairQueue(budgets)
        self._offered = asyncio.Event()
        self._keeps_late = False
        self._late: list[Any] = []
        self._idle = asyncio.Event()
        """Set while no request waits."""
        self._idle.set()
        self.defects = Defects()

    async def receive(self, request: Any) -> bool:
        """Put a request into its user's queue; refuse it if that is full.

        Returns True if this user sends more than can be refused. A request that another scheduler
        may answer is left to it, since a refusal from here could come before its answer. A read
        that came to this scheduler alone is answered here.
        """
        if not subjects.is_read(request.subject) and not self._daemon.answers():
            self._leave(request)
            return False
        try:
            address = subjects.parse_user_request(request.subject)
            self._queue.offer(address.user, Arrival(request, address), len(request.data))
            self._idle.clear()
        except Busy as error:
            if not self._queue.answers_refusal(address.user, time.monotonic_ns()):
                self._daemon.tally("request_dropped")
                return True
            self._daemon.tally("request_busy")
            await respond(request, schema.error_reply(error), self._daemon.tally)
        except StokerError as error:
            self._daemon.tally(f"request_{error.code}")
            await respond(request, schema.error_reply(error), self._daemon.tally)
        else:
            self._offered.set()
        return False

    def _leave(self, request: Any) -> None:
        """Leave a request to the leader, and keep it if it may have reached nobody else."""
        self._daemon.tally("request_left_to_the_leader")
        if self._keeps_late and len(self._late) < LATE_MAX:
            self._late.append(request)
        elif self._keeps_late:
            self._daemon.tally("request_late_dropped")

    def keep_late(self) -> None:
        """Keep the requests that are left to the leader from now on, until `refuse_late`."""
        self._keeps_late = True

    async def refuse_late(self) -> None:
        """Have the clients of what was kept send it again: those whom the next leader has answered
        do not hear this any more."""
        late, self._late = self._late, []
        data = schema.error_reply(NotLeader("this scheduler does not lead any more"))
        for each in late:
            await respond(each, data, self._daemon.tally)

    async def settle(self) -> None:
        """Return once no request waits to be served."""
        await self._idle.wait()

    async def run(self) -> None:
        """Serve requests for ever; let other work run after each PASS_NS."""
        began_ns = 0
        while True:
            self._offered.clear()
            now_ns = time.monotonic_ns()
            if now_ns - began_ns > PASS_NS:
                await asyncio.sleep(0)
                now_ns = began_ns = time.monotonic_ns()
            following = self._queue.next(now_ns)
            if following.item is not None:
                await self._serve(following.item)
            else:
                if not following.at_ns:
                    self._idle.set()
                await self._until(following.at_ns)
                began_ns = time.monotonic_ns()

    async def _until(self, at_ns: int) -> None:
        """Wait until `at_ns` or until a request arrives."""
        left_s = (at_ns - time.monotonic_ns()) / NS if at_ns else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._offered.wait()

    async def _serve(self, arrival: Arrival) -> None:
        request, address = arrival
        try:
            data, headers = request.data, request.headers
            self._service.authenticate(address, headers, data, time.time_ns())
            taken = self._service.take(address, request, data, boot_ns())
        except StokerError as error:
            await self._send(address.user, request, schema.error_reply(error))
        except Exception as error:
            await self._send(address.user, request, self._defect(error, request.subject))
        else:
            await self._pass_on(arrival, taken)

    async def _pass_on(self, arrival: Arrival, taken: Any) -> None:
        request, address = arrival
        if isinstance(taken, bytes):
            await self._send(address.user, request, taken, OWN_WEIGHT)
        elif isinstance(taken, Proxied):
            self._daemon.spawn(self._answer_later(taken.caller, self._proxy.answer(taken)))
        elif isinstance(taken, Caller):
            self._daemon.spawn(self._answer_later(taken, self._proxy.cluster(taken)))
        else:
            if not isinstance(taken, Get | ReadRequested):
                jobs = len(taken.array) if isinstance(taken, JobSubmitted) else 1
                taken.token.weight = len(request.data) * max(jobs, 1)
                self._queue.begin(address.user, taken.token.weight)
            await self._daemon.feed(taken)

    async def _answer_later(self, caller: Caller, answer: Awaitable[bytes]) -> None:
        """Send an answer when it is there; an exception becomes the answer."""
        try:
            data = await answer
        except StokerError as error:
            data = schema.error_reply(error)
        except Exception as error:
            data = self._defect(error, _title(caller))
        await self._send(caller.user, caller.reply, data)

    async def reply(self, caller: Caller, value: Any) -> None:
        """Send the replica's answer to a request."""
        if isinstance(value, ReadPosition):
            await self._read(caller)
            return
        try:
            data = self._service.encode(caller, value)
            if isinstance(value, Internal) and value.__cause__ is not None:
                data = self._defect(value.__cause__, _title(caller))
        except Exception as error:
            data = self._defect(error, _title(caller))
        if caller.weight is not None:
            self._queue.end(caller.user, caller.weight)
            self._offered.set()
        await self._send(caller.user, caller.reply, data)

    async def _read(self, caller: Caller) -> None:
        """Answer a read from the state, which has all that it must reflect by now."""
        try:
            taken = self._service.confirmed(caller, boot_ns())
        except StokerError as error:
            await self._send(caller.user, caller.reply, schema.error_reply(error))
        except Exception as error:
            await self._send(caller.user, caller.reply, self._defect(error, _title(caller)))
        else:
            if isinstance(taken, bytes):
                await self._send(caller.user, caller.reply, taken, OWN_WEIGHT)
            else:
                await self._daemon.feed(taken)

    async def _send(self, user: str, to: Any, data: bytes, weight: int = 1) -> None:
        self._queue.replied(user, len(data) * weight, time.monotonic_ns())
        await respond(to, data, self._daemon.tally)

    def _defect(self, error: BaseException, request: str) -> bytes:
        self._daemon.tally("request_defect")
        return schema.error_reply(self.defects.met(error, request))


def _title(caller: Caller) -> str:
    return f"{caller.noun}.{caller.verb} of {caller.user}"
