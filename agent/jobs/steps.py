# SPDX-License-Identifier: Apache-2.0
"""The events of a node and the effects that its core returns, as plain values.

No value here can act.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stoker.agent.jobs.lease_judge import Freeze
from stoker.mesh.wire.command import Position, StateRequest
from stoker.scheduler.nouns import NodeReport, Outcome, StartJob, TaskKey


class _Value(msgspec.Struct, frozen=True):
    """The base of all events and effects: cheaper to make than a frozen dataclass."""


# Events: what happened. `t_ns` is CLOCK_REALTIME.


class Reported(_Value, frozen=True):
    """The devices and facts of this node, at first and after every change."""

    report: NodeReport


class MeshUp(_Value, frozen=True):
    """The broker is connected."""


class MeshDown(_Value, frozen=True):
    """The broker is not connected; open requests get no answer."""


class Greeted(_Value, frozen=True):
    """The scheduler committed this report; `term` is that of the leader, 0 if it does not tell."""

    report: NodeReport
    term: int = 0


class NotGreeted(_Value, frozen=True):
    """The hello got no answer, or was refused."""

    why: str


class CommandReceived(_Value, frozen=True):
    """Bytes on the command subject."""

    data: bytes


class AnswerUnknown(_Value, frozen=True):
    """A lease answer came that no scheduler signed who is known here."""


class LeaseRenewed(_Value, frozen=True):
    """The lease now lasts until `expiry_ns` (CLOCK_BOOTTIME), which is stored."""

    expiry_ns: int
    at: Position
    """The last command that the leader has sent to this node."""
    freeze: Freeze | None = None
    """The freeze of the node's jobs, if the watchdog has stopped them."""


class StateReceived(_Value, frozen=True):
    """The answer to the latest RequestState."""

    data: bytes


class StateFailed(_Value, frozen=True):
    """The latest RequestState got no answer."""

    why: str


class Gathered(_Value, frozen=True):
    """A task of a gang is ready, and waits for its release."""

    key: TaskKey
    decision: int
    t_ns: int


class Ran(_Value, frozen=True):
    """The job's first process runs."""

    key: TaskKey
    decision: int
    t_ns: int


class JobEnded(_Value, frozen=True):
    """The job is over, with its outcome as the spawner saw it.

    `stopped`: it ended on a stop request, so a pending stop decides its state.
    """

    outcome: Outcome
    stopped: bool = False
    traced: bool = False

    @property
    def key(self) -> TaskKey:
        return self.outcome.key


class NeverStarted(_Value, frozen=True):
    """The spawner had taken it and began nothing: it may be started again.

    With a reason it is better started elsewhere: this node had no process or memory for it.
    """

    key: TaskKey
    t_ns: int
    reason: str = ""


class SpawnerAttempt(_Value, frozen=True):
    """One attempt that the spawner has and that is not acknowledged."""

    key: TaskKey
    decision: int
    event: Gathered | Ran | JobEnded | NeverStarted | None = None
    """The newest event of the attempt."""


class SpawnerAttempts(_Value, frozen=True):
    """All attempts of the spawner, reported at the start of the agent and now and then.

    `expected`: the attempts that it had taken when the list was requested (`NodeCore.taken`); one
    that is not in `has` is gone.
    """

    has: tuple[SpawnerAttempt, ...]
    expected: frozenset[TaskKey]
    t_ns: int


class Taken(_Value, frozen=True):
    """The spawner has these starts durably."""

    keys: tuple[TaskKey, ...]


class NotTaken(_Value, frozen=True):
    """This start was refused, and will not be tried again here.

    Its job has failed, or waits again and may be placed elsewhere: see `Outcome`.
    """

    key: TaskKey
    reason: str
    t_ns: int
    state: Literal["failed", "pending", "unlaunched"] = "failed"


class TraceSettled(_Value, frozen=True):
    """The trace of this ended job is on disk, or never will be."""

    key: TaskKey
    device_ns: int | None = None
    """The device time that the trace measured."""
    launch_ns: int | None = None
    """The mean device time of a launch."""
    note: str = ""
    """A remark to append to the reason of the end."""


class Faulted(_Value, frozen=True):
    """A device failed these attempts: they end as failed, with this reason."""

    keys: tuple[TaskKey, ...]
    reason: str
    t_ns: int


class Committed(_Value, frozen=True):
    """The log has every outcome of the SendOutcomes with this number, as the leader of `term` says;
    0 if it does not tell."""

    number: int
    term: int = 0


class NotCommitted(_Value, frozen=True):
    """The SendOutcomes with this number got no answer, or was refused with the code of an error."""

    number: int
    why: str
    code: str = ""


class Returned(_Value, frozen=True):
    """The attempts that an earlier agent gave back as it ended."""

    keys: tuple[TaskKey, ...]
    t_ns: int


class EndRequested(_Value, frozen=True):
    """This agent is to end in order: it begins no job any more."""


class NodeTick(_Value, frozen=True):
    """Time has passed."""


Event = (
    Reported
    | MeshUp
    | MeshDown
    | Greeted
    | NotGreeted
    | CommandReceived
    | AnswerUnknown
    | LeaseRenewed
    | StateReceived
    | StateFailed
    | Gathered
    | Ran
    | JobEnded
    | NeverStarted
    | SpawnerAttempts
    | Taken
    | NotTaken
    | TraceSettled
    | Faulted
    | Committed
    | NotCommitted
    | Returned
    | EndRequested
    | NodeTick
)


# Effects: what to do, in this order.


class SayHello(_Value, frozen=True):
    """Send this node's report to the scheduler; answer with Greeted or NotGreeted."""

    report: NodeReport


class RequestState(_Value, frozen=True):
    """Request the desired state; answer with StateReceived or StateFailed."""

    request: StateRequest


class Persist(_Value, frozen=True):
    """Store the position before any effect that follows."""

    position: Position


class KeepSchedulers(_Value, frozen=True):
    """Store the roster that this node obeys, for the next start."""

    keys: tuple[str, ...]


class KeepReturned(_Value, frozen=True):
    """Store the attempts that were given back, before anybody is told of them."""

    keys: tuple[TaskKey, ...]


class StartAttempts(_Value, frozen=True):
    """Send these to the spawner; answer with Taken and NotTaken."""

    starts: tuple[StartJob, ...]


class ReleaseAttempts(_Value, frozen=True):
    """Have the spawner let these tasks of gangs run, once they are ready."""

    keys: tuple[TaskKey, ...]


class StopAttempt(_Value, frozen=True):
    """Have the spawner end this attempt; `signal` and `grace_s` are as in `StopJob`."""

    key: TaskKey
    reason: str
    signal: str = ""
    grace_s: float | None = None


class Settle(_Value, frozen=True):
    """Write the trace of this ended job; answer with TraceSettled."""

    key: TaskKey


class SendOutcomes(_Value, frozen=True):
    """Send these outcomes; answer with Committed or NotCommitted and the number."""

    number: int
    outcomes: tuple[Outcome, ...]


class Acknowledge(_Value, frozen=True):
    """Let the spawner forget these attempts: the log has their ends."""

    keys: tuple[TaskKey, ...]


class DropFolder(_Value, frozen=True):
    """Delete the folder of this job."""

    job: int


class Thaw(_Value, frozen=True):
    """Let the jobs of the freeze with this number go on, before `until_ns` (CLOCK_BOOTTIME)."""

    epoch: int
    until_ns: int


class LogNote(_Value, frozen=True):
    """One line for the log file."""

    text: str


Effect = (
    SayHello
    | RequestState
    | Persist
    | KeepSchedulers
    | KeepReturned
    | StartAttempts
    | ReleaseAttempts
    | StopAttempt
    | Settle
    | SendOutcomes
    | Acknowledge
    | DropFolder
    | Thaw
    | LogNote
)
