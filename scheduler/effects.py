# SPDX-License-Identifier: Apache-2.0
"""What the core hands out: effects of applied commands, rejections, explanations and views.

Relied on by mesh, which acts on effects and answers clients with the rest. Fields are plain numbers
or names of `nouns`; sentences are made on request and never stored. Mirrors `native/core/wire.h`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from stoker.scheduler.nouns import JobState
from stoker.scheduler.reasons import BENIGN, RETRY, sentence
from stoker.scheduler.records import HAS_EXIT_CODE, HAS_SIGNAL, STATES, Shares, unpack_shares

_REJECTED = Struct("<IHHQQQ")
_EFFECT = Struct("<HHHHIIQQQ4QiiIHH64s")
_EXPLAIN = Struct("<HHIQQQQ")
_JOB = Struct("<8Q4QQ6IiihHHHHHI")
_NODE = Struct("<6QIIHHHH")
_DEVICE = Struct("<QQHHHH")
_TASK = Struct("<QQIHHHHI64s")

SIZES: Final[dict[str, int]] = {
    "rejected": _REJECTED.size,
    "effect": _EFFECT.size,
    "explain": _EXPLAIN.size,
    "job": _JOB.size,
    "node": _NODE.size,
    "device": _DEVICE.size,
    "task": _TASK.size,
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


class DeviceState(NamedTuple):
    """One device's ledger: capacity = used + free while available, else used + unavailable."""

    memory_bytes: int
    owner: int
    capacity_milli: int
    used_milli: int
    available: bool
    reason: int


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
    return [Explained(f[0], *f[2:]) for f in _EXPLAIN.iter_unpack(raw)]


def unpack_job(raw: bytes) -> JobInfo:
    f: tuple[Any, ...] = _JOB.unpack(raw)
    flags, exit_code, signal = f[18:21]
    return JobInfo._make(
        (
            *f[:8],
            tuple(filter(None, f[8:12])),
            *f[12:18],
            exit_code if flags & HAS_EXIT_CODE else None,
            signal if flags & HAS_SIGNAL else None,
            *f[21:24],
            STATES[f[24] - 1],
            *f[25:],
        )
    )


def unpack_node(raw: bytes) -> NodeInfo:
    f: tuple[Any, ...] = _NODE.unpack(raw)
    return NodeInfo._make((*f[:8], bool(f[8]), *f[9:]))


def unpack_devices(raw: bytes) -> list[DeviceState]:
    return [
        DeviceState(memory, owner, capacity, used, bool(available), reason)
        for memory, owner, capacity, used, available, reason in _DEVICE.iter_unpack(raw)
    ]


def unpack_tasks(raw: bytes) -> list[TaskInfo]:
    return [
        TaskInfo(
            job, node, attempt, task, STATES[state - 1], STATES[job_state - 1],
            unpack_shares(count, shares),
        )
        for job, node, attempt, task, state, job_state, count, _, shares in _TASK.iter_unpack(raw)
    ]  # fmt: skip
