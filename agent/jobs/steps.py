# SPDX-License-Identifier: Apache-2.0
"""What happens to a node (events) and what it must do about it (effects): plain values.

No value here can act.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.mesh.wire.command import Position, StateRequest
from stoker.scheduler.nouns import NodeReport, Outcome, StartJob

Key = tuple[int, int]
"""(job, attempt): the identity of one start."""


# Events: what happened. `t_ns` is CLOCK_REALTIME.


@dataclass(frozen=True, slots=True)
class Reported:
    """The devices and facts of this node, for the first time or because they changed."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class MeshUp:
    """The broker is connected, for the first time or again."""


@dataclass(frozen=True, slots=True)
class MeshDown:
    """The broker is not connected; answers to what was asked will not come."""


@dataclass(frozen=True, slots=True)
class Greeted:
    """The scheduler committed this report."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class NotGreeted:
    """The hello was not answered, or refused."""

    why: str


@dataclass(frozen=True, slots=True)
class Offered:
    """Bytes on the command subject."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Beaten:
    """Bytes on the heartbeat subject. `frozen`: the watchdog has stopped the jobs."""

    data: bytes
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to the latest Ask, which was sent at `asked_ns` (CLOCK_BOOTTIME)."""

    data: bytes
    asked_ns: int = 0


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The latest Ask got no answer."""

    why: str


@dataclass(frozen=True, slots=True)
class Ran:
    """The job's first process runs."""

    key: Key
    decision: int
    t_ns: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job is over, with its outcome as the spawner saw it.

    `stopped`: it ended because it was told to, so a pending stop decides what it becomes.
    """

    outcome: Outcome
    stopped: bool = False
    traced: bool = False

    @property
    def key(self) -> Key:
        return self.outcome.job, self.outcome.attempt


@dataclass(frozen=True, slots=True)
class NeverStarted:
    """The spawner had taken it and began nothing: it may be started again."""

    key: Key
    t_ns: int


@dataclass(frozen=True, slots=True)
class Has:
    """One attempt that the spawner has taken and that was not acknowledged."""

    key: Key
    decision: int
    news: Ran | JobEnded | NeverStarted | None = None
    """The newest of what became of it."""


@dataclass(frozen=True, slots=True)
class SpawnerHas:
    """Everything the spawner knows, at the start of the agent and now and then.

    `asked`: the attempts it had taken when it was asked, as `Node.taken` gave them; one of them
    that is not in `has` is gone.
    """

    has: tuple[Has, ...]
    asked: frozenset[Key]
    t_ns: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The spawner has these starts durably."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class NotTaken:
    """This start cannot be done, and will not be tried again."""

    key: Key
    reason: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class TraceSettled:
    """The trace of this ended job is on disk, or never will be."""

    key: Key
    device_ns: int | None = None
    """Device time that the trace measured."""
    note: str = ""
    """What is to be said of it beside the reason of the end."""


@dataclass(frozen=True, slots=True)
class Faulted:
    """A device failed these attempts: they are to end as failed, with this reason."""

    keys: tuple[Key, ...]
    reason: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The log has every outcome of the Tell with this number."""

    number: int


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The Tell with this number was not answered, or refused with an error's code."""

    number: int
    why: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class NodeTick:
    """Nothing but time passed."""


Event = (
    Reported
    | MeshUp
    | MeshDown
    | Greeted
    | NotGreeted
    | Offered
    | Beaten
    | Answered
    | NotAnswered
    | Ran
    | JobEnded
    | NeverStarted
    | SpawnerHas
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
    """Tell the scheduler who this node is; answer with Greeted or NotGreeted."""

    report: NodeReport


@dataclass(frozen=True, slots=True)
class RequestState:
    """Ask for the desired state; answer with Answered or NotAnswered."""

    request: StateRequest


@dataclass(frozen=True, slots=True)
class Persist:
    """Store the position before any effect that follows."""

    position: Position


@dataclass(frozen=True, slots=True)
class StartAttempts:
    """Give these to the spawner; answer with Taken and NotTaken."""

    starts: tuple[StartJob, ...]


@dataclass(frozen=True, slots=True)
class StopAttempt:
    """Tell the spawner to end this attempt."""

    key: Key
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the trace of this ended job; answer with Settled."""

    key: Key


@dataclass(frozen=True, slots=True)
class Tell:
    """Send these outcomes; answer with Committed or NotCommitted and the number."""

    number: int
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The log has how these ended: the spawner may forget them."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class DropFolder:
    """Delete the folder of this job."""

    job: int


@dataclass(frozen=True, slots=True)
class RenewLease:
    """The lease holds for this long from `since_ns` (CLOCK_BOOTTIME) on; None: from now on.
    `thaw`: and frozen jobs may go on."""

    lease_s: float
    since_ns: int | None = None
    thaw: bool = False


@dataclass(frozen=True, slots=True)
class LogNote:
    """One line for the log."""

    text: str


Effect = (
    SayHello
    | RequestState
    | Persist
    | StartAttempts
    | StopAttempt
    | Settle
    | Tell
    | Acknowledge
    | DropFolder
    | RenewLease
    | LogNote
)
