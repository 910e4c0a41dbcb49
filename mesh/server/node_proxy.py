# SPDX-License-Identifier: Apache-2.0
"""The proxy for requests that a job's node answers: output, stdin, traces, kernels.

Owns the bound on open requests, and the answers for a job that has no node yet, or never will.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import msgspec

from stoker.mesh.broker.budgets import PROXIED_MAX, Seats
from stoker.mesh.replica import departed_nodes, gangs
from stoker.mesh.replica.departed_nodes import entry_of
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import job_views, node_proxy_alerts, node_proxy_devices
from stoker.mesh.server.service import Caller, Proxied
from stoker.mesh.server.spooled_output import SpooledPart
from stoker.mesh.wire import output_spool, queries, schema, subjects
from stoker.mesh.wire.queries import LogsReply, Query, StdinReply, TraceReply
from stoker.mesh.wire.schema import (
    GetRequest,
    KernelRow,
    LogsRequest,
    ReadingsRequest,
    StdinRequest,
    TopologyRequest,
    TraceRequest,
    TracingRequest,
)
from stoker.mesh.wire.schema_alerts import AlertAckRequest, AlertRequest
from stoker.native.errors import BadRequest, NotFound, Refused, StokerError, Unavailable
from stoker.scheduler.book import ATTEMPTS_KEPT, Job
from stoker.scheduler.nouns import ENDED, Decision, TaskKey, Usage

ANSWER_S = 3.0
"""A node may take this long beyond the query's own wait."""
KERNELS_S = 2.0
TRACE_BYTES_MAX = 320 * 1024
"""The largest trace summary in a JobView; the timeline has its own request."""
KERNEL_ROWS_MAX = 1000

QueryNode = Callable[[str, str, bytes, float], Awaitable[bytes]]
"""Sends a query (node, what, payload, timeout_s); returns the reply or raises Unavailable."""
AnswerCaller = Callable[[Caller], Awaitable[bytes]]
"""Returns the reply to a request about telemetry, or about the trail of the log."""
AwaitJob = Callable[[int, str, float], Awaitable[Job]]
"""Waits for a job (job, until, wait_s) and returns it."""

ReadSpooled = Callable[[str, TaskKey, str, int, int], Awaitable[SpooledPart | None]]
"""Reads spooled output (node, key, stream, offset, limit)."""

R = TypeVar("R", LogsReply, StdinReply, TraceReply)
_rows = msgspec.json.Decoder(list[KernelRow])


class _Ran(NamedTuple):
    """One attempt that was placed; `silent` is true if it ended without output."""

    key: TaskKey
    node: str
    over: bool
    silent: bool
    decision: Decision
    """The decision that placed it; of a gang's earlier attempt that of its first rank."""


class NodeProxy:
    """The open requests to nodes."""

    def __init__(
        self,
        replica: Replica,
        query_node: QueryNode,
        await_job: AwaitJob,
        telemetry: AnswerCaller,
        audit: AnswerCaller,
    ) -> None:
        self._replica = replica
        self.read_spooled: ReadSpooled = _nothing_spooled
        self._telemetry = telemetry
        self._audit = audit
        self._query_node = query_node
        self._await_job = await_job
        each = replica.settings.budgets.proxied
        self._seats = Seats("proxied", "requests that nodes answer", each, PROXIED_MAX)

    async def answer(self, proxied: Proxied) -> bytes:
        """Return the reply to the user; a StokerError is the refusal."""
        user = proxied.caller.user
        self._seats.take(user)
        try:
            return schema.encode(await self._answer(proxied))
        finally:
            self._seats.leave(user)

    async def _answer(self, proxied: Proxied) -> schema.Message:
        request, job = proxied.request, proxied.job
        if isinstance(request, GetRequest):
            return await self._get(request, job)
        wait_s: float = request.wait_s  # type: ignore[attr-defined]  # all others have one
        if not _ran(job) and job.state not in ENDED and wait_s > 0:
            job = await self._await_job(job.job, "running", wait_s)
        if isinstance(request, LogsRequest):
            return await self._logs(request, job)
        if isinstance(request, StdinRequest):
            return await self._stdin(request, job)
        if isinstance(request, TracingRequest):
            return await self._tracing(request, job, proxied.caller.user)
        assert isinstance(request, TraceRequest), type(request)
        return await self._trace(request, job)

    async def _logs(self, request: LogsRequest, job: Job) -> schema.LogsView:
        limit = _limit(request.limit, request.offset)
        ran = _chosen(job, request.attempt, request.rank)
        over = job.state in ENDED if ran is None else ran.over
        nothing = schema.LogsView(
            job=job.job,
            stream=request.stream,
            data=b"",
            next_offset=request.offset,
            eof=over,
            waiting=not over,
            attempt=ran.key.attempt if ran is not None else 0,
            again=ran is not None and _goes_on(job, ran.key.attempt),
        )
        if ran is None or ran.silent:
            return nothing
        if (absent := self._out_of_reach(ran)) is not None:
            found = await self._from_spool(request, job, ran, nothing, absent.message)
            said = _not_spooled(job, request.stream, absent)
            return found or msgspec.structs.replace(nothing, absent=said)
        query = queries.LogsQuery(*ran.key, request.stream, request.offset, limit, request.wait_s)
        try:
            reply = await self._query(ran, "logs", query, LogsReply)
        except (NotFound, Unavailable) as error:
            found = await self._from_spool(request, job, ran, nothing, error.message)
            if found is None:
                raise
            return found
        if reply is None:
            return nothing
        return schema.LogsView(
            job=job.job,
            stream=request.stream,
            data=reply.data,
            next_offset=reply.next_offset,
            eof=reply.eof,
            dropped_bytes=reply.dropped,
            attempt=ran.key.attempt,
            again=_goes_on(job, ran.key.attempt),
        )

    async def _from_spool(
        self, request: LogsRequest, job: Job, ran: _Ran, nothing: schema.LogsView, why: str
    ) -> schema.LogsView | None:
        """Return what the cluster's spool has of output that its node does not give, for this
        reason; None if it has nothing, or nothing new of an attempt that goes on."""
        if not output_spool.bytes_of(job.decoded_spec().env):
            return None
        read = self.read_spooled(ran.node, ran.key, request.stream, request.offset, request.limit)
        part = await read
        if part is None or not (part.data or ran.over):
            return None
        return msgspec.structs.replace(
            nothing,
            data=part.data,
            next_offset=part.next_offset,
            eof=ran.over and part.over,
            waiting=False,
            spooled=f"{why}; {part.said}",
            lacks=part.lacks,
        )

    async def _stdin(self, request: StdinRequest, job: Job) -> schema.StdinView:
        if not job.decoded_spec().stdin:
            raise BadRequest(f"job {job.job} was submitted without stdin")
        if len(request.data) > queries.STDIN_BYTES_MAX or request.offset < 0:
            raise BadRequest(f"at most {queries.STDIN_BYTES_MAX} bytes of stdin at once")
        over = job.state in ENDED
        waiting = schema.StdinView(
            job=job.job, next_offset=request.offset, closed=over, waiting=not over
        )
        ran = _chosen(job)
        if ran is None or over:
            return waiting
        query = queries.StdinQuery(
            *ran.key, request.offset, request.data, request.eof, request.wait_s
        )
        reply = await self._query(ran, "stdin", query, StdinReply)
        begun = job.state not in ("pending", "starting")  # else its node may give it back
        if reply is None or (reply.closed and not begun):
            return waiting
        return schema.StdinView(job=job.job, next_offset=reply.next_offset, closed=reply.closed)

    async def _trace(self, request: TraceRequest, job: Job) -> schema.TraceView:
        limit = _limit(request.limit, request.offset)
        ran = _chosen(job, rank=request.rank)
        if ran is None:
            raise NotFound(f"job {job.job} has not run, so there is no trace")
        query = queries.TraceQuery(
            "perfetto",
            *ran.key,
            request.offset,
            limit,
            request.wait_s,
            request.window,
        )
        reply = await self._query(ran, "trace", query, TraceReply)
        if reply is None:
            raise NotFound(f"job {job.job} has no trace yet")
        return schema.TraceView(
            job=job.job,
            data=reply.data,
            next_offset=reply.next_offset,
            eof=reply.eof,
            size_bytes=reply.size,
        )

    async def _tracing(self, request: TracingRequest, job: Job, user: str) -> schema.Message:
        """Query or change the tracing of a running job; BadRequest or NotFound if it has none."""
        if request.do == "open":
            _check_window(request)
        if job.decoded_spec().trace == "off":
            raise BadRequest(f"job {job.job} was submitted with --trace off: it has no tracer")
        ran = _chosen(job, rank=request.rank)
        if ran is None:
            raise NotFound(f"job {job.job} has not run, so nothing of it can be traced")
        if ran.over and request.do in ("mode", "open"):
            raise BadRequest(
                f"job {job.job} is over: nothing of it can be traced any more",
                hint=f"`stoker trace {job.job}` writes what was kept of it",
            )
        query = queries.TracingQuery(
            *ran.key,
            request.do,
            user,
            request.mode,
            request.seconds if request.do == "open" else 0.0,
            request.window,
            request.records,
            request.wait_s,
        )
        reply = await self._query(ran, "trace", query, TraceReply)
        if reply is None:
            raise NotFound(
                f"no process of job {job.job} has used a device through an API that is traced yet"
            )
        try:
            view = schema.decode_reply("job", "tracing", reply.data)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the node's answer cannot be read: {error}") from None
        return msgspec.structs.replace(view, subject=subjects.records(user, ran.node, job.job))

    async def _get(self, request: GetRequest, job: Job) -> schema.JobView:
        """Return the job with its node's trace summary, or with the reason why there is none."""
        if request.until:
            job = await self._await_job(job.job, request.until, request.wait_s)
        view = job_views.reply_view(self._replica, job)
        try:
            data = await self._summary(job, request.rank)
        except StokerError as error:
            return msgspec.structs.replace(view, trace_absent=error.message)
        # `_summary` has checked that the data is JSON.
        return _fitted(msgspec.structs.replace(view, trace=msgspec.Raw(data)))

    async def _summary(self, job: Job, rank: int) -> bytes:
        ran = _chosen(job, rank=rank)
        if ran is None:
            raise NotFound("it has not run")
        data = b""
        while len(data) <= TRACE_BYTES_MAX:
            query = queries.TraceQuery("summary", *ran.key, len(data))
            reply = await self._query(ran, "trace", query, TraceReply)
            if reply is None:
                raise NotFound("its node has no trace of it")
            data += reply.data
            if reply.eof or not reply.data:
                return _as_json(data)
        raise Refused(f"the summary has more than {TRACE_BYTES_MAX} bytes: stoker trace has it all")

    async def _query(self, ran: _Ran, what: str, query: Query, kind: type[R]) -> R | None:
        """Return the node's reply; None if the node does not know a running attempt yet."""
        if (absent := self._out_of_reach(ran)) is not None:
            raise absent
        payload = queries.encode(query)
        data = await self._query_node(ran.node, what, payload, query.wait_s + ANSWER_S)
        try:
            reply = queries.decode_reply(data)
        except NotFound:
            if ran.over:
                raise
            return None
        if not isinstance(reply, kind):
            raise Unavailable(f"the node answered with {type(reply).__name__}")
        return reply

    def _out_of_reach(self, ran: _Ran) -> NotFound | None:
        """Return the answer about an attempt whose host is given up or removed, so that nobody
        waits for it; None for a host that may be asked."""
        book = self._replica.state.book
        if (left := book.departures.after(ran.node, entry_of(ran.decision))) is not None:
            return departed_nodes.missing(left)
        if ran.over and ran.node in book.evicted:
            hint = "What its jobs wrote and traced can be read when that host is back"
            return NotFound(f"node {ran.node} is given up", hint=hint)
        return None

    async def cluster(self, caller: Caller) -> bytes:
        """Return the reply to a request about no job; a StokerError is the refusal."""
        self._seats.take(caller.user)
        try:
            return await self._cluster(caller)
        finally:
            self._seats.leave(caller.user)

    async def _cluster(self, caller: Caller) -> bytes:
        request = caller.request
        if caller.noun == "telemetry":
            return await self._telemetry(caller)
        if caller.noun == "audit":
            return await self._audit(caller)
        if isinstance(request, ReadingsRequest | TopologyRequest):
            payload = queries.encode(node_proxy_devices.query_of(self._replica, request))
            found = await self._query_node(
                request.node, "devices", payload, node_proxy_devices.ANSWER_S
            )
            return node_proxy_devices.answer(found, request, admin=caller.admin)
        if isinstance(request, AlertRequest):
            return schema.encode(
                await node_proxy_alerts.listed(
                    self._replica, self._query_node, request, admin=caller.admin
                )
            )
        if isinstance(request, AlertAckRequest):
            return schema.encode(
                await node_proxy_alerts.acknowledge(
                    self._replica, self._query_node, request, caller.user, admin=caller.admin
                )
            )
        return await self.kernels(caller)

    async def kernels(self, caller: Caller) -> bytes:
        """Return the kernels of the caller's jobs on all nodes, by total time."""
        request = caller.request
        assert isinstance(request, schema.KernelRequest)
        book = self._replica.state.book
        only = None
        if request.job is not None:
            only = book.refer(request.job, caller.user, all_users=caller.admin).job
        nodes = sorted(book.nodes)
        payload = queries.encode(queries.TraceQuery("kernels", job=only or 0))
        found = await asyncio.gather(*(self._node_kernels(node, payload) for node in nodes))
        rows: list[KernelRow] = []
        absent: dict[str, str] = {}
        for node, answer in zip(nodes, found, strict=True):
            if isinstance(answer, str):
                absent[node] = answer
            else:
                rows += [row for row in answer if self._may_see(row, only, caller)]
        rows.sort(key=lambda row: -row.total_ns)
        return schema.encode(
            schema.KernelList(kernels=tuple(rows[:KERNEL_ROWS_MAX]), absent=absent)
        )

    async def _node_kernels(self, node: str, payload: bytes) -> list[KernelRow] | str:
        try:
            reply = queries.decode_reply(await self._query_node(node, "trace", payload, KERNELS_S))
            return _rows.decode(reply.data) if isinstance(reply, TraceReply) else "no rows"
        except StokerError as error:
            return error.message
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return f"unreadable: {error}"

    def _may_see(self, row: KernelRow, only: int | None, caller: Caller) -> bool:
        try:
            self._replica.state.book.get(row.job, caller.scope)
        except NotFound:
            return False
        return only in (None, row.job)


def _ran(job: Job) -> bool:
    """Return True if any attempt of the job was placed."""
    return job.decision is not None or bool(job.attempts)


def _chosen(job: Job, attempt: int = 0, rank: int = 0) -> _Ran | None:
    """Return an attempt of a rank; attempt 0 is the last one that was placed.

    None if no attempt was placed, NotFound if the attempt is not kept or there is no such rank.
    """
    gangs.check_rank(job, rank)
    if attempt and job.decision is not None and attempt == job.attempt:
        attempt = 0
    if not attempt and job.decision is not None:
        return _present(job, job.decision, rank)
    for each in reversed(job.attempts):
        if attempt in (0, each.attempt) and each.decision is not None:
            key = TaskKey(job.job, each.attempt, rank, each.decision.placing)
            node = each.nodes[rank] if each.nodes else each.decision.node
            return _Ran(key, node, True, not each.nodes and _silent(each.usage), each.decision)
    if attempt:
        raise NotFound(
            f"attempt {attempt} of job {job.job} is not known",
            hint=f"It has had {job.attempt}; the newest {ATTEMPTS_KEPT + 1} are known",
        )
    return None


def _present(job: Job, decision: Decision, rank: int) -> _Ran:
    """Return a rank of the last attempt. What a rank of a gang wrote is there once it has ended,
    though others go on."""
    key = TaskKey(job.job, job.attempt, rank, decision.placing)
    if not job.ranks:
        over = job.state in ENDED
        return _Ran(key, decision.node, over, over and _silent(job.usage), decision)
    each = job.ranks[rank]
    over = each.state in ENDED
    return _Ran(key, each.decision.node, over, over and _silent(each.usage), each.decision)


async def _nothing_spooled(
    node: str, key: TaskKey, stream: str, offset: int, limit: int
) -> SpooledPart | None:
    return None


def _not_spooled(job: Job, stream: str, absent: NotFound) -> str:
    """Return why the output of a host that is gone cannot be read, and what helps the next job."""
    if output_spool.bytes_of(job.decoded_spec().env):
        name = {"out": "stdout", "err": "stderr"}[stream]
        return f"{absent}. Nothing of its {name} had reached the spool of the cluster"
    return f"{absent}. Submit with --spool-output to keep output with the cluster as well"


def _goes_on(job: Job, attempt: int) -> bool:
    """Return True if another attempt has followed this one, or may."""
    if job.attempt > attempt or job.state == "pending":
        return True
    return job.state not in ENDED and job.decoded_spec().may_run_again


def _silent(usage: Usage | None) -> bool:
    """Return True if an attempt ended without output, so that its node may have no data of it."""
    return usage is not None and not usage.output_bytes and not usage.output_dropped_bytes


def _limit(limit: int, offset: int) -> int:
    if offset < 0 or not 0 < limit <= schema.LOGS_BYTES_MAX:
        raise BadRequest(f"offset {offset}, limit {limit}: from 1 to {schema.LOGS_BYTES_MAX} bytes")
    return limit


def _check_window(request: TracingRequest) -> None:
    low, high = schema.WINDOW_S_MIN, schema.WINDOW_S_MAX
    if not low <= request.seconds <= high:
        raise BadRequest(f"a window has {low:g} to {high:g} s, not {request.seconds:g}")
    if request.window < 1:
        raise BadRequest("a window has a number of the caller's choice, from 1")


def _fitted(view: schema.JobView) -> schema.JobView:
    """Return a view with a trace; the job is shortened if both do not fit into one reply."""
    if len(schema.encode(view)) <= schema.REPLY_BYTES_MAX:
        return view
    return job_views.shortened(view)


def _as_json(data: bytes) -> bytes:
    try:
        msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        return data
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unavailable(f"the node's summary is not JSON: {error}") from None
