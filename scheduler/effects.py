# SPDX-License-Identifier: Apache-2.0
"""What the core hands out: effects of applied commands, rejections, explanations and views.

Fields are plain numbers or names of `nouns`; sentences are made on request and never stored.
Mirrors `native/core/wire.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from stoker.scheduler.nouns import JobState
from stoker.scheduler.policies import Kind
from stoker.scheduler.reasons import BENIGN, RETRY, sentence
from stoker.scheduler.records import (
    HAS_EXIT_CODE,
    HAS_SIGNAL,
    STATES,
    Shares,
    unpack_shares,
)
from stoker.scheduler.remedies import REMEDIES, Remedy
from stoker.scheduler.submit import Submit, Submitter, unpack_ask

_REJECTED = Struct("<IHHQQQ")
_EFFECT = Struct("<HHHHIIQQQ4QiiIHH64s")
_EXPLAIN = Struct("<HHIQQQQ")
_JOB = Struct("<7Q4Q5Q4IiiI10H240s")
_NODE = Struct("<9Q3IHHHHI")
_LABEL = Struct("<QQII")
_DEVICE = Struct("<4Q7HBB")
_QUOTA = Struct("<4Q")
_QUEUE = Struct("<6Q3IHHII256s")
_TASK = Struct("<QQIHHHHI64s")

SIZES: Final[dict[str, int]] = {
    "rejected": _REJECTED.size,
    "effect": _EFFECT.size,
    "explain": _EXPLAIN.size,
    "job": _JOB.size,
    "node": _NODE.size,
    "device": _DEVICE.size,
    "task": _TASK.size,
    "label": _LABEL.size,
    "queue": _QUEUE.size,
}
"""Bytes of what comes out; `_core.VIEW_SIZES` must say the same."""


class Rejected(NamedTuple):
    """A request that became no command. The state is as if it had not been asked."""

    request: int
    """Its position among the requests."""
    kind: int
    """A kind of `records`, e.g. records.SUBMIT."""
    reason: int
    job: int
    """The job it is about; for DUPLICATE the job that the key made, perhaps in this very batch:
    answer only when the batch is committed."""
    asked: int
    have: int

    @property
    def benign(self) -> bool:
        """A repeated report that only needs an acknowledgement."""
        return self.reason in BENIGN

    @property
    def retry(self) -> bool:
        """Nothing is wrong with it: put it into the next batch."""
        return self.reason in RETRY

    def text(self) -> str:
        """One sentence, e.g. "asks for 4 devices, the largest node has 1"."""
        return sentence(self.reason, asked=self.asked, have=self.have, job=self.job)


class StateChanged(NamedTuple):
    """The job is now in `state`. state "pending" is the commit of the Submit at `command`."""

    command: int
    """Position of the cause in the batch; a decision's id is log sequence x 65536 + this."""
    job: int
    attempt: int
    state: JobState
    reason: int
    node: int
    """Of the task that made the change; 0 where none did."""
    exit_code: int | None
    signal: int | None


class Start(NamedTuple):
    """Tell `node` to start this task of this attempt, once."""

    command: int
    job: int
    attempt: int
    task: int
    tasks: int
    node: int
    shares: Shares
    reason: int
    latency_ns: int
    observations: tuple[int, ...]


class Stop(NamedTuple):
    """Tell `node` to end this task, which then becomes `state`."""

    command: int
    job: int
    attempt: int
    task: int
    node: int
    state: JobState
    reason: int


class Forgotten(NamedTuple):
    """The core knows the job no more: drop what belongs to it. `node` ran task 0, or is 0."""

    command: int
    job: int
    node: int
    reason: int


class Duplicate(NamedTuple):
    """The Submit at `command` repeated a key; `job` is the first one's."""

    command: int
    job: int


class Ignored(NamedTuple):
    """The command changed nothing; it is counted under its reason."""

    command: int
    kind: int
    job: int
    reason: int


Effect = StateChanged | Start | Stop | Forgotten | Duplicate | Ignored

_STATE, _START, _STOP, _FORGET, _DUPLICATE, _IGNORED = range(1, 7)


class Explained(NamedTuple):
    """One line of an explanation, the most telling first; unused figures are 0."""

    reason: int
    number: int
    """How many (nodes, devices, jobs) it is true of."""
    node: int
    job: int
    asked: int
    have: int
    detail: int = 0
    """More on the reason: for PLACED_ON why there, for ENDED the state's code, for a node that is
    kept out the refusal, for QUEUE_AT_LIMIT how deep the queue is, for a placement its policy."""

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would help, the least intrusive first; empty where nothing need be done."""
        return REMEDIES.get(self.reason, ())

    def text(self, node_name: Callable[[int], str] = str) -> str:
        """One sentence; `node_name` turns the core's node id into a name."""
        node = node_name(self.node) if self.node else ""
        return sentence(
            self.reason,
            asked=self.asked,
            have=self.have,
            job=self.job,
            node=node,
            count=self.number,
        )


class JobInfo(NamedTuple):
    """What the core knows of a job. Times are the now_ns of the entries that caused them, or 0."""

    job: int
    client: int
    spec_hash: int
    memory_bytes: int
    submit_ns: int
    place_ns: int
    end_ns: int
    latency_ns: int
    observations: tuple[int, ...]
    node: int
    """Of task 0 in the last attempt; 0 where never placed."""
    uid: int
    tenant: int
    gpu_milli: int
    cpu_milli: int
    attempt: int
    exit_code: int | None
    signal: int | None
    priority: int
    tasks: int
    tasks_live: int
    """Placed and not ended."""
    state: JobState
    reason: int
    place_reason: int
    candidates: int
    attained_ns: int
    """Device time of the attempts that ended."""
    charged_ns: int
    """Of this attempt, as reported while it runs."""
    spent_ns: int
    """Of this attempt, by its tasks that ended."""
    not_before_ns: int
    retried: int
    preemptions: int
    hold: int
    """Why it is not in its queue though pending: 1 until not_before_ns, 2 until `after` has ended,
    3 that ended badly."""
    ask: Submit
    """All that was asked for; the key is not kept."""


class NodeInfo(NamedTuple):
    """A node and its ledger. used may exceed the total after a node came back smaller."""

    node: int
    boot: int
    incarnation: int
    memory_bytes: int
    memory_used: int
    cpu_used: int
    cpu_milli: int
    tasks: int
    up: bool
    reason: int
    """Why it is down; 0 while up."""
    devices: int
    devices_free: int
    """Available and entirely free."""
    domain: int
    reserve_from_ns: int
    reserve_until_ns: int
    """0: not reserved."""
    reserve_queue: int
    labels: int


class Label(NamedTuple):
    """A label or taint of a node; `label` is the hash of "key=value"."""

    label: int
    value: int
    taint: bool
    cost: bool


class QuotaInfo(NamedTuple):
    """What a queue and those below it may hold of one device model (0: of all), and hold."""

    model: int
    guaranteed_milli: int
    limit_milli: int
    used_milli: int


class QueueInfo(NamedTuple):
    """A queue; what it holds counts those below it."""

    queue: int
    parent: int
    weight: int
    order: int
    placement: int
    depth: int
    used_milli: int
    cpu_used: int
    memory_used: int
    usage_ns: int
    """Device time, decayed up to now."""
    pending: int
    live: int
    """Its own pending and placed jobs."""
    quotas: tuple[QuotaInfo, ...]


class DeviceState(NamedTuple):
    """One device's ledger: capacity = used + free while available, else used + unavailable."""

    memory_bytes: int
    owner: int
    capacity_milli: int
    used_milli: int
    available: bool
    reason: int
    memory_used: int
    model: int
    link: int
    bus: int
    numa: int
    kind: int = Kind.GPU
    vendor: int = 0


class TaskInfo(NamedTuple):
    """One placed task that has not ended."""

    job: int
    node: int
    attempt: int
    task: int
    state: JobState
    job_state: JobState
    shares: Shares


def unpack_rejected(raw: bytes) -> list[Rejected]:
    return [Rejected(*fields) for fields in _REJECTED.iter_unpack(raw)]


def unpack_effects(raw: bytes) -> list[Effect]:
    return [_effect(fields) for fields in _EFFECT.iter_unpack(raw)]


def _effect(f: tuple[Any, ...]) -> Effect:
    kind, state, reason, task, attempt, command, job, node = f[:8]
    if kind == _STATE:
        flags = f[15]
        return StateChanged(
            command,
            job,
            attempt,
            STATES[state - 1],
            reason,
            node,
            f[13] if flags & HAS_EXIT_CODE else None,
            f[14] if flags & HAS_SIGNAL else None,
        )
    if kind == _START:
        return _start(f)
    if kind == _STOP:
        return Stop(command, job, attempt, task, node, STATES[state - 1], reason)
    if kind == _FORGET:
        return Forgotten(command, job, node, reason)
    if kind == _DUPLICATE:
        return Duplicate(command, job)
    return Ignored(command, state, job, reason)


def _start(f: tuple[Any, ...]) -> Start:
    _, _, reason, task, attempt, command, job, node, latency = f[:9]
    observations = tuple(filter(None, f[9:13]))
    shares = unpack_shares(f[17], f[18])
    return Start(command, job, attempt, task, f[16], node, shares, reason, latency, observations)


def unpack_explained(raw: bytes) -> list[Explained]:
    return [
        Explained(reason, number, node, job, asked, have, detail)
        for reason, detail, number, node, job, asked, have in _EXPLAIN.iter_unpack(raw)
    ]


def unpack_job(raw: bytes) -> JobInfo:
    (
        job, client, spec_hash, submit_ns, place_ns, end_ns, latency_ns, o1, o2, o3, o4, node,
        attained, charged, spent, not_before, uid, tenant, attempt, flags, exit_code, signal,
        candidates, live, state, reason, place_reason, retried, preemptions, hold, _, _, _, raw_ask,
    ) = _JOB.unpack(raw)  # fmt: skip
    ask = unpack_ask(raw_ask, Submitter(client, b"", spec_hash, uid, tenant))
    return JobInfo(
        job, client, spec_hash, ask.memory_bytes, submit_ns, place_ns, end_ns, latency_ns,
        tuple(filter(None, (o1, o2, o3, o4))), node, uid, tenant, ask.gpu_milli, ask.cpu_milli,
        attempt, exit_code if flags & HAS_EXIT_CODE else None,
        signal if flags & HAS_SIGNAL else None, ask.priority, ask.tasks, live, STATES[state - 1],
        reason, place_reason, candidates, attained, charged, spent, not_before, retried,
        preemptions, hold, ask,
    )  # fmt: skip


def unpack_node(raw: bytes) -> NodeInfo:
    (
        node, boot, incarnation, memory, memory_used, cpu_used, domain, since, until, queue, cpu,
        tasks, up, reason, devices, free, labels,
    ) = _NODE.unpack(raw)  # fmt: skip
    return NodeInfo(
        node, boot, incarnation, memory, memory_used, cpu_used, cpu, tasks, bool(up), reason,
        devices, free, domain, since, until, queue, labels,
    )  # fmt: skip


def unpack_labels(raw: bytes) -> list[Label]:
    return [
        Label(label, value, bool(flags & 2), bool(flags & 4))
        for label, value, flags, _ in _LABEL.iter_unpack(raw)
    ]


def unpack_queue(raw: bytes) -> QueueInfo:
    (
        used, cpu, memory, usage, pending, live, queue, parent, weight, order, placement, quotas,
        depth, raw_quotas,
    ) = _QUEUE.unpack(raw)  # fmt: skip
    known = [QuotaInfo(*f) for f in _QUOTA.iter_unpack(raw_quotas)][:quotas]
    return QueueInfo(
        queue, parent, weight, order, placement, depth, used, cpu, memory, usage, pending, live,
        tuple(known),
    )  # fmt: skip


def unpack_devices(raw: bytes) -> list[DeviceState]:
    return [
        DeviceState(
            memory, owner, capacity, used, bool(available), reason, memory_used, model, link, bus,
            numa, kind, vendor,
        )
        for memory, memory_used, owner, model, capacity, used, available, reason, link, bus, numa,
        kind, vendor in _DEVICE.iter_unpack(raw)
    ]  # fmt: skip


def unpack_tasks(raw: bytes) -> list[TaskInfo]:
    return [
        TaskInfo(
            job, node, attempt, task, STATES[state - 1], STATES[job_state - 1],
            unpack_shares(count, shares),
        )
        for job, node, attempt, task, state, job_state, count, _, shares in _TASK.iter_unpack(raw)
    ]  # fmt: skip
