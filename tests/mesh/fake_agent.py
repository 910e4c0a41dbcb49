# SPDX-License-Identifier: Apache-2.0
"""An agent that runs nothing: it obeys commands at once and answers queries from tables."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.identity.identity import Checks
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.wire import lease_messages, queries, subjects
from stoker.mesh.wire.command import (
    CommandAccepted,
    CommandChain,
    CommandGap,
    DesiredState,
    NodeReply,
    Position,
)
from stoker.mesh.wire.lease_messages import LeaseRequest
from stoker.native.errors import NotFound, StokerError
from stoker.scheduler.nouns import (
    DeviceInfo,
    DeviceSample,
    ForgetJob,
    NodeReport,
    Observation,
    Outcome,
    StartJob,
    StopJob,
    TaskKey,
    Usage,
)

encode = msgspec.msgpack.encode
_replies = msgspec.msgpack.Decoder(NodeReply)
RENEW_S = 0.25
HOLD = "hold"
"""The argv[0] of a job that runs until it is stopped."""


class FakeAgent:
    """An agent whose jobs end at once, except those called HOLD."""

    def __init__(
        self, nc: Connection, cluster: str, members: Sequence[Checks], node: str = "node1"
    ) -> None:
        self.nc = nc
        self.node = node
        self.chain = CommandChain(cluster, node, members, Position())
        self._members = members
        self.held: dict[TaskKey, StartJob] = {}
        self.started: Counter[TaskKey] = Counter()
        self.unreported: list[Outcome] = []
        self.forgotten: set[int] = set()
        self.output: dict[int, bytes] = {}
        self.stdin: dict[int, bytes] = {}
        self.summary: dict[int, bytes] = {}
        self.piece = 7
        """The bytes of a summary in one reply."""
        self.kernels = b"[]"
        self.looks: dict[str, bytes] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._reporting = asyncio.Lock()
        self._requesting = asyncio.Lock()

    async def start(self) -> FakeAgent:
        await self.nc.subscribe(subjects.command(self.node), cb=self._command)
        await self.nc.subscribe(subjects.lease_answer(self.node), cb=self._renewed)
        for what in subjects.QUERIES:
            await self.nc.subscribe(subjects.query(self.node, what), cb=self._queried)
        await self.hello()
        await self.reconcile()
        self._spawn(self._renew())
        return self

    async def hello(self) -> None:
        report = NodeReport(
            self.node,
            "boot-1",
            1,
            10**9,
            1 << 40,
            (DeviceInfo("gpu-0", "sim", "model", sim=True),),
        )
        while True:
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                reply = await self.nc.request(subjects.hello(self.node), encode(report), timeout=3)
                if _replies.decode(reply.data).ok:
                    return
            await asyncio.sleep(0.05)

    async def observe(self, number: int) -> None:
        device = DeviceSample("gpu-0", 0.5, None, 40.0, {"power_w": "no sensor"})
        sample = Observation(number, self.node, time.time_ns(), 250, 1 << 30, (device,))
        await self.nc.publish(subjects.observation(self.node), encode(sample))

    async def reconcile(self) -> None:
        async with self._requesting:
            done = await self._reconciled()
            while not done:
                await asyncio.sleep(0.05)
                done = await self._reconciled()

    async def _reconciled(self) -> bool:
        payload = encode(self.chain.state_request(tuple(self.held)))
        try:
            reply = await self.nc.request(subjects.log_range(self.node), payload, timeout=3)
        except (nats.errors.Error, TimeoutError):
            return False
        desired = self.chain.reconcile(reply.data)
        if not isinstance(desired, DesiredState):
            return False
        self._obey((*desired.starts, *desired.stops))
        return not desired.more

    async def _command(self, message: Msg) -> None:
        verdict = self.chain.offer(message.data)
        if isinstance(verdict, CommandAccepted):
            self._obey(verdict.command.actions)
        elif isinstance(verdict, CommandGap):
            self._spawn(self.reconcile())

    async def _renew(self) -> None:
        """Request the lease for ever; nothing here depends on having one."""
        while True:
            request = LeaseRequest(lease_messages.FORMAT, self.node, 0, boot_ns(), 1)
            with contextlib.suppress(nats.errors.Error):
                data = lease_messages.encode_request(request)
                await self.nc.publish(subjects.lease_request(self.node), data)
            await asyncio.sleep(RENEW_S)

    async def _renewed(self, message: Msg) -> None:
        """Request the state if the answer shows that a command was lost."""
        answer = lease_messages.open_answer(message.data, self._members)
        (grant,) = (grant for grant in answer.grants if grant.node == self.node)
        if self.chain.is_behind(Position(answer.term, grant.seq, grant.hash)):
            self._spawn(self.reconcile())

    def _obey(self, actions: tuple[Any, ...]) -> None:
        for action in actions:
            if isinstance(action, StartJob):
                self._start(action)
            elif isinstance(action, StopJob):
                self._stop(action.key)
            elif isinstance(action, ForgetJob):
                self.held.pop(TaskKey(action.job, 1, 0), None)
                self.forgotten.add(action.job)
        if self.unreported:
            self._spawn(self.report_outcomes())

    def _start(self, action: StartJob) -> None:
        attempt = action.key
        if attempt in self.held:
            return
        self.held[attempt] = action
        self.started[attempt] += 1
        self._outcome(action, "running")
        if action.spec.argv[0] != HOLD:
            self._outcome(action, "succeeded", exit_code=0, usage=Usage(1, 2, 3, 4))

    def _stop(self, attempt: TaskKey) -> None:
        action = self.held.get(attempt)
        if action is not None and action.spec.argv[0] == HOLD:
            self._outcome(action, "cancelled", signal=15)

    def _outcome(self, action: StartJob, state: Any, **fields: Any) -> None:
        self.unreported.append(
            Outcome(*action.key, action.decision.id, state, time.time_ns(), **fields)
        )

    async def report_outcomes(self) -> None:
        async with self._reporting:
            while self.unreported:
                batch = self.unreported[:256]
                with contextlib.suppress(nats.errors.Error, TimeoutError):
                    reply = await self.nc.request(
                        subjects.outcome(self.node), encode(batch), timeout=3
                    )
                    if _replies.decode(reply.data).ok:
                        del self.unreported[: len(batch)]
                        continue
                await asyncio.sleep(0.05)

    async def _queried(self, message: Msg) -> None:
        try:
            reply = queries.encode(self._answer(queries.decode_query(message.data)))
        except StokerError as error:
            reply = queries.encode_error(error)
        await self.nc.publish(message.reply, reply)

    def _answer(self, query: queries.Query) -> queries.Reply:
        if isinstance(query, queries.LogsQuery):
            whole = self.output.get(query.job, b"")
            data = whole[query.offset : query.offset + query.limit]
            end = query.offset + len(data)
            return queries.LogsReply(data, end, end >= len(whole))
        if isinstance(query, queries.StdinQuery):
            taken = self.stdin.get(query.job, b"")[: query.offset] + query.data
            self.stdin[query.job] = taken
            return queries.StdinReply(len(taken), query.eof)
        if isinstance(query, queries.DevicesQuery):
            return queries.DevicesReply(self.looks[query.what])
        return self._trace(query)

    def _trace(self, query: queries.TraceQuery) -> queries.TraceReply:
        if query.what == "kernels":
            return queries.TraceReply(self.kernels, len(self.kernels), True)
        whole = self.summary.get(query.job)
        if whole is None:
            raise NotFound("nothing was traced")
        data = whole[query.offset : query.offset + self.piece]
        end = query.offset + len(data)
        return queries.TraceReply(data, end, end >= len(whole), len(whole))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def close(self) -> None:
        """Cancel all tasks until they have ended.

        One cancel may be lost: wait_for of Python 3.11 swallows it if the request ends at the same
        time (python/cpython#86296).
        """
        while tasks := list(self.tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.5)
