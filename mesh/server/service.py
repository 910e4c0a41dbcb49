# SPDX-License-Identifier: Apache-2.0
"""The job service: it turns a user's request into an event for the replica, or into a reply.

Without I/O. Owns who may see what: users see their own jobs, administrators see all. Guarantees
that a wrong request changes nothing and is answered with its error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from stoker.mesh.broker import users
from stoker.mesh.replica import gangs
from stoker.mesh.replica.events import (
    Admin,
    CancelRequested,
    Event,
    Get,
    JobSubmitted,
    NodeEviction,
    NodeRemoval,
    ReadRequested,
    Remove,
    RosterChange,
    Upgrade,
)
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works.work import AdminApplied, Removed
from stoker.mesh.server import (
    admin_record,
    administration,
    admission,
    after_names,
    cluster_views,
    explanation,
    job_list,
    job_views,
    roster_requests,
)
from stoker.mesh.wire import request_signature, schema
from stoker.mesh.wire.command import NodeReply
from stoker.mesh.wire.job_request import Afters
from stoker.mesh.wire.request_signature import RequestPolicy
from stoker.mesh.wire.schema import Message
from stoker.mesh.wire.subjects import (
    ALERT_ACK,
    ALERT_LIST,
    AUDIT_READ,
    LOOKS,
    READS,
    TELEMETRY_READ,
    UserRequest,
)
from stoker.native.errors import BadRequest, Denied, Refused, StokerError
from stoker.scheduler.book import Job
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import ENDED, Account
from stoker.scheduler.policies import USER, function_name

REASON_CHARS_MAX = 200
CANCELS_AT_ONCE = 4096
"""The most jobs of one cancel, which bounds its reply and the time of one step."""
PROXY_ANSWERS = (
    ("kernel", "list"),
    *LOOKS,
    ("telemetry", "list"),
    TELEMETRY_READ,
    ALERT_LIST,
    ALERT_ACK,
    AUDIT_READ,
)
"""The requests that nodes, the broker or files answer and that do not belong to one job."""
NS = 1_000_000_000
CLUSTER_UPGRADE = ("cluster", "upgrade")
ADMINISTERED = administration.HANDLERS.keys() | roster_requests.HANDLERS.keys() | {CLUSTER_UPGRADE}
"""The (noun, verb) of what an administrator changes by an entry of the log."""
Change = Admin | NodeEviction | NodeRemoval | RosterChange | Upgrade
_NO_DEMANDS = RequestPolicy()
_NO_HOMES: Mapping[int, str] = {}


class Caller(msgspec.Struct):
    """The sender of a request, and what the daemon needs for the reply."""

    reply: Any
    user: str
    noun: str
    verb: str
    admin: bool = False
    request: Message | None = None
    weight: int | None = None
    """The bytes that the request takes of its user's budget on the way into the log; None if it
    does not go there."""
    following: int | None = None
    """The job before which the next request goes on; None if this one is about all jobs."""

    @property
    def scope(self) -> str | None:
        """The user whose jobs this caller sees; None for all users."""
        return None if self.admin else self.user


class Proxied(msgspec.Struct):
    """A request that only the job's node can answer."""

    caller: Caller
    request: Message
    job: Job


class Service:
    """The service of one replica."""

    def __init__(
        self,
        replica: Replica,
        requests: RequestPolicy = _NO_DEMANDS,
        check_function: Callable[[str], object] = function_name,
        homes: Mapping[int, str] = _NO_HOMES,
    ) -> None:
        self.replica = replica
        self.homes = homes
        """The node of each scheduler's host, by the scheduler's number."""
        self.log: schema.LogView | None = None
        """The brokers that keep the log, as they said last; None if they have not."""
        self.servers: Mapping[str, str] = {}
        """The public key of each server's scheduler, by the server's name."""
        self.requests = requests
        self._check_function = check_function
        self._handlers: dict[tuple[str, str], Callable[[Caller, Any, int], Any]] = {
            ("job", "submit"): self._submit,
            ("job", "get"): self._get,
            ("job", "list"): self._list,
            ("job", "cancel"): self._cancel,
            ("job", "remove"): self._remove,
            ("job", "logs"): self._proxied,
            ("job", "stdin"): self._proxied,
            ("job", "trace"): self._proxied,
            ("job", "tracing"): self._proxied,
            ("job", "explain"): self._explain,
            ("node", "list"): self._nodes,
            ("device", "list"): self._devices,
            ("queue", "list"): self._queues,
            ("cluster", "get"): self._cluster,
        }

    @property
    def users(self) -> Mapping[str, Account]:
        """The accounts of users, as the log has them."""
        return self.replica.state.accounts

    def authenticate(
        self, address: UserRequest, headers: Mapping[str, str] | None, data: bytes, real_ns: int
    ) -> None:
        """Raise Denied for an unknown user or a wrong signature, Unsigned for a missing one.

        `real_ns` is CLOCK_REALTIME.
        """
        user = self.users.get(address.user)
        if user is None:
            raise Denied(f"the scheduler does not know {address.user}")
        request = (address.noun, address.verb)
        required = self.requests.require_signature
        request_signature.check(user.public_key, request, headers, data, real_ns, required=required)

    def take(self, address: UserRequest, reply: Any, data: bytes, now_ns: int) -> Any:
        """Return what an authenticated request becomes.

        That is an Event for the replica, a Proxied or a Caller that nodes answer, or a reply as
        bytes. A StokerError is the refusal.
        """
        user = self.users[address.user]
        request = schema.decode_request(address.noun, address.verb, data)
        caller = Caller(reply, address.user, address.noun, address.verb, user.admin, request)
        chosen_audit = address.chosen and (address.noun, address.verb) == AUDIT_READ
        if not self.replica.right.serves(now_ns) and not chosen_audit:
            if address.chosen and self._is_read_here(caller, request):
                return self._read_here(caller, request, now_ns)
            raise self.replica.right.not_serving()
        if (address.noun, address.verb) in PROXY_ANSWERS:
            return caller
        if (address.noun, address.verb) in ADMINISTERED:
            return self._administer(caller, request)
        return self._handlers[address.noun, address.verb](caller, request, now_ns)

    def _is_read_here(self, caller: Caller, request: Any) -> bool:
        """True for a read that needs nothing but the replicated state."""
        traced = isinstance(request, schema.GetRequest) and request.trace
        is_read = (caller.noun, caller.verb) in READS
        return is_read and not traced and not self.replica.right.alone

    def _read_here(self, caller: Caller, request: Any, now_ns: int) -> Any:
        """Return what a read at this follower becomes: at once if it may be stale, or once the
        leader has confirmed a position."""
        if not request.stale:
            return ReadRequested(caller, caller.user)
        refusal = self.replica.reads.not_stale()
        if refusal is not None:
            raise refusal
        return self.confirmed(caller, now_ns)

    def confirmed(self, caller: Caller, now_ns: int) -> Any:
        """Return what a read becomes that the state of this replica, as it is now, may answer."""
        taken = self._handlers[caller.noun, caller.verb](caller, caller.request, now_ns)
        return taken._replace(here=True) if isinstance(taken, Get) else taken

    def encode(self, caller: Caller, value: Any) -> bytes:
        """Return the reply for a value of the replica."""
        if isinstance(value, StokerError):
            return schema.error_reply(value)
        if isinstance(value, Job):
            return _bounded(job_views.reply_view(self.replica, value))
        if isinstance(value, list) and caller.verb == "remove":
            gone = (schema.RemovedJob(job=r.job, changed=r.changed) for r in value)
            return schema.encode(schema.RemoveView(jobs=tuple(gone)))
        if isinstance(value, list):
            jobs = (
                schema.CancelledJob(
                    job=c.job, state=c.state, changed=c.changed, last=c.last or None
                )
                for c in value
            )
            return schema.encode(schema.CancelView(jobs=tuple(jobs), next=caller.following))
        if isinstance(value, AdminApplied):
            return schema.encode(schema.Done(changed=value.changed))
        assert isinstance(value, bytes | NodeReply), type(value)
        return value if isinstance(value, bytes) else msgspec.msgpack.encode(value)

    # --- one method per request -------------------------------------------------------------------

    def _administer(self, caller: Caller, request: Message) -> Event:
        if not caller.admin:
            raise Denied("only an administrator changes queues, nodes, devices and the cluster")
        event = self._change(caller, request)
        if isinstance(event, administration.LOST) or (isinstance(event, Admin) and event.is_empty):
            return event  # the reason in the log names who wants it
        named = f"{caller.noun}.{caller.verb}"
        return event._replace(says=admin_record.of(caller.user, named, request))

    def _change(self, caller: Caller, request: Message) -> Change:
        """Return the change that a request is about."""
        what, state = (caller.noun, caller.verb), self.replica.state
        if what == CLUSTER_UPGRADE:
            return Upgrade(caller, self.homes)
        if (change := roster_requests.HANDLERS.get(what)) is not None:
            event = change(caller, request, state, self.servers)
            if isinstance(request, schema.ClusterAdmitRequest) and isinstance(event, RosterChange):
                roster_requests.check_copy(request.server, self.log)
            return event
        if isinstance(request, schema.NodeRemoveRequest):
            request = self._removable(caller, request)
        if isinstance(request, schema.NodeDrainRequest):
            now_ns = self.replica.real_ns
            return administration.node_drain(caller, request, state, now_ns, caller.user)
        if isinstance(request, schema.NodeEvictRequest):
            now_ns = self.replica.real_ns
            return administration.node_evict(caller, request, state, now_ns, caller.user)
        return administration.HANDLERS[what](caller, request, state, self.replica.real_ns)

    def _removable(
        self, caller: Caller, request: schema.NodeRemoveRequest
    ) -> schema.NodeRemoveRequest:
        """Return the request with the name of its sender; Refused for a scheduler's host."""
        number = next((n for n, name in self.homes.items() if name == request.node), None)
        if number is not None:
            state = self.replica.state
            schedulers = state.config.schedulers if state.config is not None else ()
            roster_requests.refuse_server(request.node, number, schedulers)
        administration.check_reason(request.reason)
        reason = _signed_reason(caller, request.reason)
        return msgspec.structs.replace(request, reason=reason)

    def _submit(self, caller: Caller, request: schema.JobRequest, now_ns: int) -> Event:
        spec = admission.admit(request, self._afters(caller, request))
        if spec.placement.startswith(USER):
            self._check_function(spec.placement.removeprefix(USER))
        account = self.users[caller.user]
        if account.owner is None:
            raise Denied(account.why_not)
        key = admission.key_bytes(request.idempotency_key)
        return JobSubmitted(
            caller,
            account.owner,
            key,
            spec,
            request.array,
            request.idempotency_since_ns,
            admission.indexes_of(request),
        )

    def _get(self, caller: Caller, request: schema.GetRequest, now_ns: int) -> Any:
        job = self._refer(caller, request.job)
        if request.trace:
            return Proxied(caller, request, job)
        deadline_ns = now_ns + int(request.wait_s * NS)
        return Get(caller, job.job, request.until, deadline_ns, caller.user)

    def _list(self, caller: Caller, request: schema.ListRequest, now_ns: int) -> bytes:
        if not 0 < request.limit <= schema.LIST_MAX:
            raise BadRequest(f"limit is {request.limit}, from 1 to {schema.LIST_MAX}")
        scope = caller.scope
        if request.user:
            if not caller.admin and request.user != caller.user:
                raise Denied("only an administrator sees the jobs of others")
            scope = request.user
        return job_list.job_list(self.replica, request, scope, caller.user)

    def _cancel(self, caller: Caller, request: schema.CancelRequest, now_ns: int) -> Event:
        if len(request.reason) > REASON_CHARS_MAX or not request.reason.isprintable():
            raise BadRequest(f"reason has at most {REASON_CHARS_MAX} printable characters")
        book = self.replica.state.book
        ranges = book.ranges(request.select, caller.scope, caller.user)
        parts = tuple(book.arrays.parts(ranges, caller.scope))
        named = request.select != "all"
        found = (
            job
            for job, state in book.newest(caller.scope, request.before, [*map(_span, parts)])
            if _within(job, ranges) and (named or state not in ENDED)
        )
        jobs = list(islice(found, CANCELS_AT_ONCE))
        if next(found, None) is not None:
            caller.following = jobs[-1]
        why = _signed_reason(caller, request.reason)
        begins = () if request.before is not None else parts
        return CancelRequested(caller, sorted(jobs), why, caller.user, begins)

    def _remove(self, caller: Caller, request: schema.RemoveRequest, now_ns: int) -> Event:
        book = self.replica.state.book
        chosen = book.select(request.select, caller.scope, caller.user, removed=True)
        jobs = [job for job, _ in book.newest(caller.scope, kept=True) if chosen(job)]
        open_jobs = [job for job in jobs if book.live(job) is not None]
        ranges = book.ranges(request.select, caller.scope, caller.user, removed=True)
        open_jobs += book.arrays.that_wait(ranges, caller.scope)
        if open_jobs and request.select != "all":
            first = min(open_jobs)
            raise Refused(
                f"job {first} is {book.get(first).state}, and only jobs that are over are removed",
                hint=f"stop it first: stoker cancel {first}",
            )
        over = sorted(set(jobs).difference(open_jobs))
        gone = [job for job in book.removed(caller.scope) if chosen(job)]
        answer = [Removed(job, True) for job in over]
        if request.select != "all":
            answer += [Removed(job, False) for job in gone]
        return Remove(caller, over, sorted(answer), f"removed by {caller.user}", caller.user)

    def _explain(self, caller: Caller, request: schema.ExplainRequest, now_ns: int) -> bytes:
        job = self._refer(caller, request.job)
        gangs.check_rank(job, request.rank)
        view = explanation.explain_view(
            self.replica, job, self.replica.real_ns, request.rank, users.user_of, now_ns=now_ns
        )
        return schema.encode(view)

    def _proxied(self, caller: Caller, request: Any, now_ns: int) -> Proxied:
        return Proxied(caller, request, self._refer(caller, request.job))

    def _nodes(self, caller: Caller, request: schema.NodeRequest, now_ns: int) -> bytes:
        return schema.encode(cluster_views.node_list(self.replica, now_ns, request.after))

    def _queues(self, caller: Caller, request: schema.QueueRequest, now_ns: int) -> bytes:
        return schema.encode(cluster_views.queue_list(self.replica, self.replica.real_ns))

    def _cluster(self, caller: Caller, request: schema.ClusterRequest, now_ns: int) -> bytes:
        return schema.encode(cluster_views.cluster_view(self.replica, self.homes, self.log))

    def _devices(self, caller: Caller, request: schema.NodeRequest, now_ns: int) -> bytes:
        return schema.encode(cluster_views.device_list(self.replica, caller.scope, request.after))

    def _afters(self, caller: Caller, request: schema.JobRequest) -> Afters:
        """Return the numbers of the jobs to follow; NotFound for one that the user has not."""
        if not (request.after or request.after_any or request.after_fail):
            return admission.NO_AFTERS
        admission.check_afters_count(request)
        level = self.replica.state.level
        named = (request.after, request.after_any, request.after_fail)
        scope = caller.user, caller.admin
        book = self.replica.state.book
        return Afters(*(after_names.numbers(book, jobs, *scope, level) for jobs in named))

    def _refer(self, caller: Caller, reference: int | str) -> Job:
        book = self.replica.state.book
        return book.refer(reference, caller.user, all_users=caller.admin)


def _span(part: ArrayPart) -> tuple[int, int]:
    return part.low, part.high


def _within(job: int, ranges: Iterable[tuple[float, float]]) -> bool:
    return any(low <= job <= high for low, high in ranges)


def _signed_reason(caller: Caller, reason: str) -> str:
    by = f"by {caller.user}" if caller.admin else ""
    return ", ".join(part for part in (reason, by) if part)


def _bounded(view: schema.JobView) -> bytes:
    data = schema.encode(view)
    return data if len(data) <= schema.REPLY_BYTES_MAX else schema.encode(job_views.shortened(view))
