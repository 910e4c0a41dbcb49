# SPDX-License-Identifier: Apache-2.0
"""The client library: every public request as a typed call that survives restarts.

Owns two promises: whatever goes wrong is one StokerError that says whether anything was changed,
and a request is repeated only when repeating it is harmless (reads, cancels, offsets, and submits
under their idempotency key). Where no more requests of this user are held back, it asks again and
again instead.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from stoker.mesh.connection import context as contexts
from stoker.mesh.connection.client_connection import ClientConnection, connect
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema, subjects
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
"""How long past its own `wait_s` an answer may take before the request is sent again."""
PATIENCE_S = 15.0
"""How long a request is repeated while broker or scheduler are away, unless told otherwise."""
OPEN_S = 2.0
"""How long a node that says where it is may refuse the first connection: its broker may just be
coming back, at another port."""
NOTICE_S = 5.0
HOLD_S = 2.0
"""`wait_s` of one held request: the longest that a lost answer goes unnoticed, plus REPLY_S."""
BACK_OFF_S = (0.02, 0.5)

T = TypeVar("T", bound=schema.Message)
Find = Callable[[], Context]


def new_key() -> str:
    """An idempotency key that nobody else has: 128 random bits."""
    return secrets.token_hex(16)


class Client:
    """A connection that is made when needed, and made again when lost, wherever the node now is."""

    def __init__(self, find: Find, patience_s: float = PATIENCE_S) -> None:
        self._find = find
        self.patience_s = patience_s
        self.on_trouble: Callable[[StokerError], None] | None = None
        """Told once per outage that lasts NOTICE_S, so that a person knows why nothing happens."""
        self._link: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._was_there = False
        self._signs = False
        """Whether this node has said that it takes no change without its user's signature."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, where: Context | str | None = None, *, patience_s: float = PATIENCE_S
    ) -> AsyncIterator[Client]:
        """A connected client; `where` is a context, a state folder, or None to look in order."""
        find: Find = (lambda: where) if isinstance(where, Context) else _finder(where)
        client = cls(find, patience_s)
        try:
            await client._first(min(patience_s, OPEN_S))
            yield client
        finally:
            await client.close()

    async def _first(self, patience_s: float) -> None:
        """The first connection: a broker that is being started again is waited for, briefly."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                await self._live()
                return
            except Unavailable:
                if time.monotonic() + BACK_OFF_S[0] > deadline:
                    raise
            await asyncio.sleep(BACK_OFF_S[0])

    async def close(self) -> None:
        """Give the connection back; safe to call twice."""
        link, self._link = self._link, None
        if link is not None and not link.connection.is_closed:
            await link.connection.close()

    # --- jobs -------------------------------------------------------------------------------------

    async def submit(self, request: schema.JobRequest) -> schema.JobView:
        """Submit once, however often it must be sent; a key is chosen if the request has none."""
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
        self, job: schema.JobRef, *, until: str = "", wait_s: float = 0.0, trace: bool = False
    ) -> schema.JobView:
        """One job; with `until` held back up to `wait_s` for `running` or `ended`."""
        request = schema.GetRequest(job=job, until=until, wait_s=wait_s, trace=trace)  # type: ignore[arg-type]
        return await self._call("job", "get", request, schema.JobView, wait_s)

    async def wait(self, job: schema.JobRef, until: str = "ended") -> schema.JobView:
        """One job when it has ended (or runs), however long that takes."""
        while True:
            started = time.monotonic()
            view = await self.get(job, until=until, wait_s=HOLD_S)
            if view.state in ENDED or (until == "running" and view.times.started_ns is not None):
                return view
            await _no_faster_than(started, 0.1)

    async def list(self, request: schema.ListRequest) -> schema.JobList:
        """One page of jobs, newest first."""
        return await self._call("job", "list", request, schema.JobList)

    async def list_all(self, request: schema.ListRequest) -> AsyncIterator[schema.JobView]:
        """All pages, job by job."""
        while True:
            page = await self.list(request)
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            request = msgspec.structs.replace(request, before=page.next)

    async def cancel(self, select: str, reason: str = "") -> schema.CancelView:
        """Stop the selected jobs; those that are over stay as they are."""
        request = schema.CancelRequest(select=select, reason=reason)
        return await self._call("job", "cancel", request, schema.CancelView)

    async def remove(self, select: str) -> schema.RemoveView:
        """Forget the selected jobs, which are over, and delete their output."""
        request = schema.RemoveRequest(select=select)
        return await self._call("job", "remove", request, schema.RemoveView)

    async def logs(self, request: schema.LogsRequest) -> schema.LogsView:
        """One piece of output."""
        return await self._call("job", "logs", request, schema.LogsView, request.wait_s)

    async def stdin(self, request: schema.StdinRequest) -> schema.StdinView:
        """One piece of input."""
        return await self._call("job", "stdin", request, schema.StdinView, request.wait_s)

    async def explain(self, job: schema.JobRef) -> schema.ExplainView:
        """Why a job is where it is."""
        request = schema.ExplainRequest(job=job)
        return await self._call("job", "explain", request, schema.ExplainView)

    async def trace(self, request: schema.TraceRequest) -> schema.TraceView:
        """One piece of a job's timeline file."""
        return await self._call("job", "trace", request, schema.TraceView, request.wait_s)

    async def tracing(self, request: schema.TracingRequest) -> schema.TracingView:
        """How a running job is traced; what is asked for can be repeated."""
        return await self._call("job", "tracing", request, schema.TracingView, request.wait_s)

    # --- the cluster ------------------------------------------------------------------------------

    async def nodes(self) -> schema.NodeList:
        """All nodes."""
        return await self._call("node", "list", schema.NodeRequest(), schema.NodeList)

    async def devices(self) -> schema.DeviceList:
        """All devices."""
        return await self._call("device", "list", schema.NodeRequest(), schema.DeviceList)

    async def readings(
        self, node: str, device: str, history: tuple[str, ...] = (), since_ns: int = 0
    ) -> schema.ReadingsView:
        """Everything that is read of one device, and the past minute of some fields."""
        request = schema.ReadingsRequest(
            node=node, device=device, history=history, since_ns=since_ns
        )
        return await self._call("device", "readings", request, schema.ReadingsView)

    async def topology(self, node: str) -> schema.TopologyView:
        """Who is near whom on one node."""
        request = schema.TopologyRequest(node=node)
        return await self._call("node", "topology", request, schema.TopologyView)

    async def queues(self) -> schema.QueueList:
        """All queues."""
        return await self._call("queue", "list", schema.QueueRequest(), schema.QueueList)

    async def settle(self, noun: str, verb: str, request: schema.Message) -> schema.Done:
        """A request of an administrator, one of `subjects.ADMIN_REQUESTS`; repeating is safe."""
        return await self._call(noun, verb, request, schema.Done)

    async def kernels(self, job: schema.JobRef | None = None) -> schema.KernelList:
        """GPU kernels of the caller's running jobs, or of one job."""
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
        """`repeat` is sent instead of `request` from the second time on."""
        subject = subjects.request(noun, verb)
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
                if isinstance(error, Busy) and wait_s:  # too many are held: ask without waiting
                    wait_s = 0.0
                    data = _encoded(msgspec.structs.replace(request, wait_s=0.0))
            if repeat is not None:
                data = _encoded(repeat)
            await asyncio.sleep(back_off * (0.5 + secrets.randbelow(1000) / 1000))
            back_off = min(back_off * 2, BACK_OFF_S[1])

    async def _request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """One request on a live connection; whatever may pass is Unavailable."""
        link = await self._live()
        link.signs = self._signs
        most = link.connection.max_payload
        if len(data) > most:
            raise BadRequest(
                f"the request has {len(data)} bytes and the node takes {most}",
                hint="put large data into a file that the job reads, or send it as stdin",
            )
        return await link.request(subject, data, timeout_s)

    async def _live(self) -> ClientConnection:
        if self._link is not None and self._link.connection.is_connected:
            return self._link
        async with self._connecting:
            if self._link is None or not self._link.connection.is_connected:
                await self.close()
                try:
                    self._link = await connect(self._find())
                except NotFound as error:
                    # A node that was there a moment ago may be restarting.
                    if not self._was_there:
                        raise
                    raise Unavailable(error.message) from None
                self._was_there = True
            return self._link


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
    """A node that answers a held request at once must not be asked in a busy loop."""
    await asyncio.sleep(max(0.0, started + period_s - time.monotonic()))
