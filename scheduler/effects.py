# SPDX-License-Identifier: Apache-2.0
"""The core's answers: effects of applied commands, rejections, explanations and views.

Fields are plain numbers or names of `nouns`; sentences are made on request and never stored. The
views are generated from `native/core/wire.h` (`make generate`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.scheduler.reasons import BENIGN, RETRY, sentence
from stoker.scheduler.remedies import REMEDIES, Remedy
from stoker.scheduler.wire_fields import Shares, unpack_shares
from stoker.scheduler.wire_names import HAS_EXIT_CODE, HAS_SIGNAL, STATES, EffectKind, JobState
from stoker.scheduler.wire_views import (
    DeviceState,
    EffectRecord,
    ExplainRecord,
    JobInfo,
    Label,
    NodeInfo,
    QueueInfo,
    QuotaInfo,
    RejectedRecord,
    TaskInfo,
)

__all__ = [
    "DeviceState",
    "Duplicate",
    "Effect",
    "Explained",
    "Forgotten",
    "Ignored",
    "JobInfo",
    "Label",
    "NodeInfo",
    "QueueInfo",
    "QuotaInfo",
    "Rejected",
    "Start",
    "StateChanged",
    "Stop",
    "TaskInfo",
    "unpack_effects",
]


class Rejected(RejectedRecord):
    """A request that became no command. The state is as if it had not been made."""

    __slots__ = ()

    @property
    def benign(self) -> bool:
        """True for a repeated report that only needs an acknowledgement."""
        return self.reason in BENIGN

    @property
    def retry(self) -> bool:
        """True where nothing is wrong with it: put it into the next batch."""
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
    """The node of the task that made the change; 0 where none did."""
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


class Explained(ExplainRecord):
    """One line of an explanation, the most telling first; unused figures are 0."""

    __slots__ = ()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Remedies, the least intrusive first; empty where nothing need be done."""
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


def unpack_effects(raw: bytes) -> list[Effect]:
    """The effects of a batch in their order."""
    return [_effect(record) for record in EffectRecord.unpack_all(raw)]


def _effect(e: EffectRecord) -> Effect:
    if e.kind == EffectKind.STATE:
        return StateChanged(
            command=e.command,
            job=e.job,
            attempt=e.attempt,
            state=STATES[e.state - 1],
            reason=e.reason,
            node=e.node,
            exit_code=e.exit_code if e.flags & HAS_EXIT_CODE else None,
            signal=e.signal if e.flags & HAS_SIGNAL else None,
        )
    if e.kind == EffectKind.START:
        return _start(e)
    if e.kind == EffectKind.STOP:
        state = STATES[e.state - 1]
        return Stop(e.command, e.job, e.attempt, e.task, e.node, state, e.reason)
    if e.kind == EffectKind.FORGET:
        return Forgotten(e.command, e.job, e.node, e.reason)
    if e.kind == EffectKind.DUPLICATE:
        return Duplicate(e.command, e.job)
    return Ignored(e.command, e.state, e.job, e.reason)


def _start(e: EffectRecord) -> Start:
    return Start(
        command=e.command,
        job=e.job,
        attempt=e.attempt,
        task=e.task,
        tasks=e.tasks,
        node=e.node,
        shares=unpack_shares(e.shares_n, e.shares),
        reason=e.reason,
        latency_ns=e.latency_ns,
        observations=tuple(filter(None, e.observations)),
    )
