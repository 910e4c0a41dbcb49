# SPDX-License-Identifier: Apache-2.0
"""The events of a node and the effects that its core returns, as plain values.

No value here can act.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.agent.jobs.lease_judge import Freeze
from stoker.mesh.wire.command import Position, StateRequest
from stoker.scheduler.nouns import NodeReport, Outcome, StartJob, TaskKey

# Events: what happened. `t_ns` is CLOCK_REALTIME.


@dataclass(frozen=True, slots=True)
class Reported:
    """The devices and facts of this node, at first and after every change."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class MeshUp:
    """The broker is connected."""


@dataclass(frozen=True, slots=True)
class MeshDown:
    """The broker is not connected; open requests get no answer."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """The scheduler committed this report."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class NotGreeted:
    """The hello got no answer, or was refused."""

    why: str


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """Bytes on the command subject."""

    data: bytes


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The lease now lasts until `expiry_ns` (CLOCK_BOOTTIME), which is stored."""

    expiry_ns: int
    at: Position
    """The last command that the leader has sent to this node."""
    freeze: Freeze | None = None
    """The freeze of the node's jobs, if the watchdog has stopped them."""


@dataclass(frozen=True, slots=True)
class StateReceived:
    """The answer to the latest RequestState."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StateFailed:
    """The latest RequestState got no answer."""

    why: str


@dataclass(frozen=True, slots=True)
class Gathered:
    """A task of a gang is ready, and waits for its release."""

    key: TaskKey
    decision: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class Ran:
    """The job's first process runs."""

    key: TaskKey
    decision: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job is over, with its outcome as the spawner saw it.

    `stopped`: it ended on a stop request, so a pending stop decides its state.
    """

    outcome: Outcome
    stopped: bool = False
    traced: bool = False

    @property
    def key(self) -> TaskKey:
        return self.outcome.key


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """The spawner had taken it and began nothing: it may be started again."""

    key: TaskKey
    t_ns: int


@dataclass(frozen=True, slots=True)
class SpawnerAttempt:
    """One attempt that the spawner has and that is not acknowledged."""

    key: TaskKey
    decision: int
    event: Gathered | Ran | JobEnded | NeverStarted | None = None
    """The newest event of the attempt."""


@dataclass(frozen=True, slots=True)
class SpawnerAttempts:
    """All attempts of the spawner, reported at the start of the agent and now and then.

    `expected`: the attempts that it had taken when the list was requested (`NodeCore.taken`); one
    that is not in `has` is gone.
    """

    has: tuple[SpawnerAttempt, ...]
    expected: frozenset[TaskKey]
    t_ns: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The spawner has these starts durably."""

    keys: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class NotTaken:
    """This start was refused, and will not be tried again here.

    With `again` the job waits again and may be placed elsewhere, else it has failed.
    """

    key: TaskKey
    reason: str
    t_ns: int
    again: bool = False


@dataclass(frozen=True, slots=True)
class TraceSettled:
    """The trace of this ended job is on disk, or never will be."""

    key: TaskKey
    device_ns: int | None = None
    """The device time that the trace measured."""
    launch_ns: int | None = None
    """The mean device time of a launch."""
    note: str = ""
    """A remark to append to the reason of the end."""


@dataclass(frozen=True, slots=True)
class Faulted:
    """A device failed these attempts: they end as failed, with this reason."""

    keys: tuple[TaskKey, ...]
    reason: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The log has every outcome of the SendOutcomes with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The SendOutcomes with this number got no answer, or was refused with the code of an error."""

    number: int
    why: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class NodeTick:
    """Time has passed."""


Event = (
    Reported
    | MeshUp
    | MeshDown
    | Greeted
    | NotGreeted
    | CommandReceived
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
    | NodeTick
)


# Effects: what to do, in this order.


@dataclass(frozen=True, slots=True)
class SayHello:
    """Send this node's report to the scheduler; answer with Greeted or NotGreeted."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class RequestState:
    """Request the desired state; answer with StateReceived or StateFailed."""

    request: StateRequest


@dataclass(frozen=True, slots=True)
class Persist:
    """Store the position before any effect that follows."""

    position: Position


@dataclass(frozen=True, slots=True)
class StartAttempts:
    """Send these to the spawner; answer with Taken and NotTaken."""

    starts: tuple[StartJob, ...]


@dataclass(frozen=True, slots=True)
class ReleaseAttempts:
    """Have the spawner let these tasks of gangs run, once they are ready."""

    keys: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Have the spawner end this attempt."""

    key: TaskKey
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the trace of this ended job; answer with TraceSettled."""

    key: TaskKey


@dataclass(frozen=True, slots=True)
class SendOutcomes:
    """Send these outcomes; answer with Committed or NotCommitted and the number."""

    number: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Let the spawner forget these attempts: the log has their ends."""

    keys: tuple[TaskKey, ...]


@dataclass(frozen=True, slots=True)
class DropFolder:
    """Delete the folder of this job."""

    job: int


@dataclass(frozen=True, slots=True)
class Thaw:
    """Let the jobs of the freeze with this number go on, before `until_ns` (CLOCK_BOOTTIME)."""

    epoch: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class LogNote:
    """One line for the log file."""

    text: str


Effect = (
    SayHello
    | RequestState
    | Persist
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
