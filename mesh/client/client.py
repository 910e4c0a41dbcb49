# SPDX-License-Identifier: Apache-2.0
"""The client library: every public request as a typed call that survives restarts of the node.

Owns two promises. Every failure is one StokerError that says whether anything was changed. A
request is repeated only when that is harmless: reads, cancels, offsets, and submits under their
idempotency key. A client polls if the node holds no more requests of its user.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from stoker.mesh.client.read_choice import AT_THE_LEADER, ReadChoice
from stoker.mesh.connection import context as contexts
from stoker.mesh.connection.client_connection import ClientConnection, connect
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema, schema_audit, schema_telemetry
from stoker.mesh.wire.schema_alerts import AlertList, AlertRequest
from stoker.native.errors import (
    BadRequest,
    Busy,
    NotFound,
    StokerError,
    Unavailable,
    Unsigned,
)
from stoker.scheduler.nouns import ENDED

REPLY_S = 3.0
"""A request is sent again if its answer takes longer than its `wait_s` plus this time."""
PATIENCE_S = 15.0
"""The default time for which a request is repeated while broker or scheduler are away."""
OPEN_S = 2.0
"""The longest time for which the first connection may be refused by a node that has an endpoint;
its broker may be restarting at another port."""
ATTEMPTS_MIN = 3
"""The fewest attempts at a first connection that may be waited for."""
NOTICE_S = 5.0
"""`on_trouble` is called after an outage of this length."""
HOLD_S = 2.0
"""The `wait_s` of one held request; a lost answer is noticed after this time plus REPLY_S."""
BACK_OFF_S = (0.02, 0.5)

T = TypeVar("T", bound=schema.Message)
Find = Callable[[], Context]


def new_key() -> str:
    """Return an idempotency key of 128 random bits."""
    return os.urandom(16).hex()


def _chance() -> float:
    """Return a number from 0 to 1, so that clients that failed together do not retry together."""
    return int.from_bytes(os.urandom(2), "little") / 0xFFFF


class Client:
    """A client of one node. It connects when needed, and again after a loss, at the node's present
    address."""

    def __init__(
        self, find: Find, patience_s: float = PATIENCE_S, reads: ReadChoice = AT_THE_LEADER
    ) -> None:
        self._find = find
        self.patience_s = patience_s
        self.reads = reads
        self.on_trouble: Callable[[StokerError], None] | None = None
        """Called once per outage that lasts NOTICE_S, to tell a person why nothing happens."""
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._was_there = False
        self._signs = False
        """True if this node accepts changes only with the user's signature."""

    @property
    def user(self) -> str:
        """The name of the user whose key is used."""
        return self._find().user

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        where: Context | str | None = None,
        *,
        patience_s: float = PATIENCE_S,
        reads: ReadChoice = AT_THE_LEADER,
    ) -> AsyncIterator[Client]:
        """Yield a connected client; `where` is a context, a state folder, or None for the default
        order of `contexts.find`. `reads` chooses the scheduler that reads are sent to."""
        find: Find = (lambda: where) if isinstance(where, Context) else _finder(where)
        client = cls(find, patience_s, reads)
        try:
            await client._first(min(patience_s, OPEN_S))
            yield client
        finally:
            await client.close()

    async def _first(self, patience_s: float) -> None:
        """Connect for the first time, and wait `patience_s` for a broker that restarts.

        A busy machine may use up all of that in one attempt, so there are ATTEMPTS_MIN of them.
        """
        deadline = time.monotonic() + patience_s
        for attempt in itertools.count(1):
            try:
                await self._live()
                return
            except Unavailable:
                late = time.monotonic() + BACK_OFF_S[0] > deadline
                if late and (attempt >= ATTEMPTS_MIN or not patience_s):
                    raise
            await asyncio.sleep(BACK_OFF_S[0])

    async def close(self) -> None:
        """Close the connection; may be called twice."""
        client, self._connection = self._connection, None
        if client is not None:
            await client.close()

    # --- jobs -------------------------------------------------------------------------------------

    async def submit(self, request: schema.JobRequest) -> schema.JobView:
        """Submit a job exactly once; an idempotency key is made if the request has none."""
        if not request.idempotency_key:
            request = msgspec.structs.replace(request, idempotency_key=new_key())
        try:
            since = msgspec.structs.replace(request, idempotency_since_ns=time.time_ns())
            return await self._call("job", "submit", request, schema.JobView, repeat=since)
        except Unavailable as error:
            raise Unavailable(
                f"{error.message}; the job may or may not exist",
                hint="repeating is safe and makes one job: "
                f"--idempotency-key {request.idempotency_key}",
            ) from None

    async def get(
        self,
        job: schema.JobRef,
        *,
        until: str = "",
        wait_s: float = 0.0,
        trace: bool = False,
        rank: int = 0,
    ) -> schema.JobView:
        """Return one job; `until` waits up to `wait_s` for `running` or `ended`. `rank`: the one of
        a gang whose trace is included."""
        request = schema.GetRequest(job=job, until=until, wait_s=wait_s, trace=trace, rank=rank)  # type: ignore[arg-type]
        return await self._call("job", "get", request, schema.JobView, wait_s)

    async def wait(self, job: schema.JobRef, until: str = "ended") -> schema.JobView:
        """Wait without limit until a job has ended, or runs; return it."""
        while True:
            started = time.monotonic()
            view = await self.get(job, until=until, wait_s=HOLD_S)
            if view.state in ENDED or (until == "running" and view.times.started_ns is not None):
                return view
            await _no_faster_than(started, 0.1)

    async def list(self, request: schema.ListRequest) -> schema.JobList:
        """Return one page of jobs, newest first."""
        return await self._call("job", "list", request, schema.JobList)

    async def pages(self, request: schema.ListRequest) -> AsyncIterator[schema.JobList]:
        """Yield all pages of jobs, newest first."""
        while True:
            page = await self.list(request)
            yield page
            if page.next is None:
                return
            request = msgspec.structs.replace(request, before=page.next)

    async def list_all(self, request: schema.ListRequest) -> AsyncIterator[schema.JobView]:
        """Yield the jobs of all pages."""
        async for page in self.pages(request):
            for job in page.jobs:
                yield job

    async def cancel(self, select: str, reason: str = "") -> schema.CancelView:
        """Stop the selected jobs that are not over."""
        request = schema.CancelRequest(select=select, reason=reason)
        page = await self._call("job", "cancel", request, schema.CancelView)
        jobs = page.jobs
        while page.next is not None:
            request = msgspec.structs.replace(request, before=page.next)
            page = await self._call("job", "cancel", request, schema.CancelView)
            jobs = page.jobs + jobs
        return schema.CancelView(jobs=jobs)

    async def remove(self, select: str) -> schema.RemoveView:
        """Forget the selected ended jobs and delete their output."""
        request = schema.RemoveRequest(select=select)
        return await self._call("job", "remove", request, schema.RemoveView)

    async def logs(self, request: schema.LogsRequest) -> schema.LogsView:
        """Return one piece of a job's output."""
        return await self._call("job", "logs", request, schema.LogsView, request.wait_s)

    async def stdin(self, request: schema.StdinRequest) -> schema.StdinView:
        """Send one piece of a job's input."""
        return await self._call("job", "stdin", request, schema.StdinView, request.wait_s)

    async def explain(self, job: schema.JobRef, rank: int = 0) -> schema.ExplainView:
        """Explain why a job waits, or why it, or one rank of a gang, was placed where it is."""
        request = schema.ExplainRequest(job=job, rank=rank)
        return await self._call("job", "explain", request, schema.ExplainView)

    async def trace(self, request: schema.TraceRequest) -> schema.TraceView:
        """Return one piece of a job's timeline file."""
        return await self._call("job", "trace", request, schema.TraceView, request.wait_s)

    async def tracing(self, request: schema.TracingRequest) -> schema.TracingView:
        """Return how a running job is traced, or change it; repeating is safe."""
        return await self._call("job", "tracing", request, schema.TracingView, request.wait_s)

    # --- the cluster ------------------------------------------------------------------------------

    async def nodes(self) -> schema.NodeList:
        """Return all nodes; `position` is that of the first page."""
        page = whole = await self._call("node", "list", schema.NodeRequest(), schema.NodeList)
        while page.next is not None:
            following = schema.NodeRequest(after=page.next)
            page = await self._call("node", "list", following, schema.NodeList)
            whole = msgspec.structs.replace(whole, nodes=whole.nodes + page.nodes, next=None)
        return whole

    async def devices(self) -> schema.DeviceList:
        """Return all devices."""
        page = whole = await self._call("device", "list", schema.NodeRequest(), schema.DeviceList)
        while page.next is not None:
            following = schema.NodeRequest(after=page.next)
            page = await self._call("device", "list", following, schema.DeviceList)
            whole = schema.DeviceList(devices=whole.devices + page.devices)
        return whole

    async def readings(
        self, node: str, device: str, history: tuple[str, ...] = (), since_ns: int = 0
    ) -> schema.ReadingsView:
        """Return all readings of one device, and the past minute of the fields in `history`."""
        request = schema.ReadingsRequest(
            node=node, device=device, history=history, since_ns=since_ns
        )
        return await self._call("device", "readings", request, schema.ReadingsView)

    async def topology(self, node: str) -> schema.TopologyView:
        """Return the topology of one node."""
        request = schema.TopologyRequest(node=node)
        return await self._call("node", "topology", request, schema.TopologyView)

    async def queues(self) -> schema.QueueList:
        """Return all queues."""
        return await self._call("queue", "list", schema.QueueRequest(), schema.QueueList)

    async def cluster(self) -> schema.ClusterView:
        """Return the configuration of the cluster."""
        return await self._call("cluster", "get", schema.ClusterRequest(), schema.ClusterView)

    async def telemetry(
        self, request: schema_telemetry.TelemetryReadRequest
    ) -> schema_telemetry.TelemetryView:
        """Return kept telemetry of one kind."""
        return await self._call("telemetry", "read", request, schema_telemetry.TelemetryView)

    async def audit(self, request: schema_audit.AuditReadRequest) -> schema_audit.AuditView:
        """Return entries of the log behind a place, for administrators."""
        return await self._call("audit", "read", request, schema_audit.AuditView)

    async def trail(self, after: int = 0) -> AsyncIterator[schema_audit.AuditView]:
        """Yield the pages of a scheduler's entries behind a place, up to their end."""
        more = True
        while more:
            view = await self.audit(schema_audit.AuditReadRequest(after=after))
            more = view.more
            after = view.entries[-1].place if view.entries else after
            yield view

    async def telemetry_streams(self) -> schema_telemetry.TelemetryList:
        """Return the kinds of telemetry that are kept, and what is kept of each."""
        request = schema_telemetry.TelemetryRequest()
        return await self._call("telemetry", "list", request, schema_telemetry.TelemetryList)

    async def settle(self, noun: str, verb: str, request: schema.Message) -> schema.Done:
        """Send one of `subjects.ADMIN_REQUESTS`; repeating is safe."""
        return await self._call(noun, verb, request, schema.Done)

    async def alerts(self, *, counts: bool = False) -> AlertList:
        """Return the alerts of all nodes, for administrators, or only how many fire."""
        request = AlertRequest(counts=counts)
        return await self._call("alert", "list", request, AlertList)

    async def kernels(self, job: schema.JobRef | None = None) -> schema.KernelList:
        """Return the GPU kernels of the caller's running jobs, or of one job."""
        request = schema.KernelRequest(job=job)
        return await self._call("kernel", "list", request, schema.KernelList)

    # --- one request ------------------------------------------------------------------------------

    async def _call(
        self,
        noun: str,
        verb: str,
        request: schema.Message,
        kind: type[T],
        wait_s: float = 0.0,
        *,
        repeat: schema.Message | None = None,
    ) -> T:
        """Send a request until it is answered; from the second time on, send `repeat` instead."""
        subject, request = self.reads.applied(noun, verb, request)
        data = _encoded(request)
        began = time.monotonic()
        deadline, notice = began + wait_s + self.patience_s, began + wait_s + NOTICE_S
        back_off = BACK_OFF_S[0]
        while True:
            try:
                reply = await self._request(subject, data, wait_s + REPLY_S)
                return _decoded(noun, verb, reply, kind)
            except Unsigned:
                if self._signs:
                    raise
                self._signs = True
                continue
            except (Unavailable, Busy) as error:
                now = time.monotonic()
                if now + back_off > deadline:
                    raise error from None
                if now > notice and self.on_trouble is not None:
                    notice = deadline
                    self.on_trouble(error)
                if isinstance(error, Busy) and wait_s:  # no more are held: do not wait
                    wait_s = 0.0
                    data = _encoded(msgspec.structs.replace(request, wait_s=0.0))
            if repeat is not None:
                data = _encoded(repeat)
            await asyncio.sleep(back_off * (0.5 + _chance()))
            back_off = min(back_off * 2, BACK_OFF_S[1])

    async def _request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """Send one request on a live connection; Unavailable for failures that may pass."""
        client = await self._live()
        client.signs = self._signs
        most = client.max_payload
        if len(data) > most:
            raise BadRequest(
                f"the request has {len(data)} bytes and the node takes {most}",
                hint="put large data into a file that the job reads, or send it as stdin",
            )
        return await client.request(subject, data, timeout_s)

    async def _live(self) -> ClientConnection:
        """Return a live connection; make one if there is none."""
        if self._connection is not None and self._connection.live:
            return self._connection
        async with self._connecting:
            if self._connection is None or not self._connection.live:
                await self.close()
                try:
                    self._connection = await connect(self._find())
                except NotFound as error:
                    # A node that was found before may be restarting.
                    if not self._was_there:
                        raise
                    raise Unavailable(error.message) from None
                self._was_there = True
            return self._connection


def _finder(state: str | None) -> Find:
    return lambda: contexts.find(state)


def _encoded(request: schema.Message) -> bytes:
    try:
        return schema.encode(request)
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{ascii(error.object)[:80]} is not valid UTF-8, which JSON needs"
        ) from None


def _decoded(noun: str, verb: str, data: bytes, kind: type[T]) -> T:
    try:
        reply: Any = schema.decode_reply(noun, verb, data)
    except msgspec.MsgspecError as error:
        raise StokerError(
            f"the node's answer to {noun}.{verb} cannot be read: {error}",
            hint="is it another version of stoker?",
        ) from None
    assert isinstance(reply, kind)
    return reply


async def _no_faster_than(started: float, period_s: float) -> None:
    """Sleep until `period_s` after `started`, which bounds the rate of polling."""
    await asyncio.sleep(max(0.0, started + period_s - time.monotonic()))
