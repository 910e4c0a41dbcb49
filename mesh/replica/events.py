# SPDX-License-Identifier: Apache-2.0
"""What can happen to a replica, and what it can want done: the whole of its contact with the world.

Owns nothing but the names; a token is whatever the shell needs to find the one who waits for a
reply, and comes back untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from stoker.mesh.log.entry import Setting
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.wire.command import StateRequest
from stoker.scheduler.nouns import JobSpec, NodeReport, Observation, Outcome, Owner
from stoker.scheduler.records import Request

if TYPE_CHECKING:
    from stoker.mesh.replica.state import ReplicaState
    from stoker.mesh.replica.work import Removed

# --- events ---------------------------------------------------------------------------------------


class JobSubmitted(NamedTuple):
    """A user's job, admitted."""

    token: Any
    owner: Owner
    key: bytes
    spec: JobSpec
    array: tuple[int, ...] = ()
    """Indexes of an array: one job for each."""
    since_ns: int = 0
    """When its key was first sent, if this is a repeat."""


class Admin(NamedTuple):
    """An administrator's settings of queues and nodes; repeated they change nothing."""

    token: Any
    requests: tuple[Request, ...]
    settings: tuple[Setting, ...]
    again: Callable[[ReplicaState], tuple[Request, ...]] | None = None
    """The same requests of a later state, where they depend on it."""


class CancelRequested(NamedTuple):
    """Stop these jobs; the caller may."""

    token: Any
    jobs: list[int]
    reason: str


class Remove(NamedTuple):
    """Forget these jobs, which are over; the caller may. `selected`: what the answer says."""

    token: Any
    jobs: list[int]
    selected: list[Removed]
    why: str


class Get(NamedTuple):
    """One job, now or when it has come to `until`; the deadline is of CLOCK_BOOTTIME."""

    token: Any
    job: int
    until: str
    deadline_ns: int
    user: str = ""
    """Whose budget of held requests it takes; empty: another limit holds it."""


class Outcomes(NamedTuple):
    """What a node says became of its commands."""

    token: Any
    node: str
    outcomes: tuple[Outcome, ...]


class NodeReported(NamedTuple):
    """What a node says it is."""

    token: Any
    report: NodeReport


class StateRequested(NamedTuple):
    """A node asks for all that should be there."""

    token: Any
    node: str
    request: StateRequest


class Observed(NamedTuple):
    """One telemetry sample; never logged."""

    node: str
    observation: Observation


class TimePassed(NamedTuple):
    """Some time has passed; a tenth of a second is often enough."""


class LogEntries(NamedTuple):
    """What Read brought, in order."""

    entries: list[tuple[int, bytes]]


class LogEnd(NamedTuple):
    """Read reached the end of the log as it then was."""


class LogFailed(NamedTuple):
    """Read, or an append that may have happened: `why` it is not known. `last`: the last entry
    that the engine says it has; 0: it did not say."""

    why: str
    last: int = 0


class AppendDone(NamedTuple):
    """The append is durable as `seq`."""

    seq: int


class AppendFull(NamedTuple):
    """The append certainly did not happen, and none will before a trim."""

    why: str


class SnapshotSaved(NamedTuple):
    """The snapshot is durable and was read back."""

    seq: int
    digest: bytes


class SnapshotFailed(NamedTuple):
    """There is no snapshot, for this reason."""

    why: str


class Trimmed(NamedTuple):
    """The log holds nothing up to `seq` any more."""

    seq: int


class TrimFailed(NamedTuple):
    """The log may still hold what was to go."""

    why: str


class LogReachable(NamedTuple):
    """The log's engine is there again: no reason to wait longer."""


class LogBroken(NamedTuple):
    """The log contradicts what it confirmed: nothing may go on."""

    why: str


class Disk(NamedTuple):
    """Why the disk takes no more jobs, or empty."""

    why: str


Event = (
    JobSubmitted
    | Admin
    | CancelRequested
    | Remove
    | Get
    | Outcomes
    | NodeReported
    | StateRequested
    | Observed
    | TimePassed
    | LogEntries
    | LogEnd
    | LogFailed
    | AppendDone
    | AppendFull
    | SnapshotSaved
    | SnapshotFailed
    | Trimmed
    | TrimFailed
    | LogReachable
    | LogBroken
    | Disk
)


# --- effects --------------------------------------------------------------------------------------


class Append(NamedTuple):
    """Append at `tail`; answered by AppendDone, AppendFull or LogFailed."""

    tail: int
    data: bytes
    name: str


class Read(NamedTuple):
    """Read from `seq` to the end; answered by LogEntries, then LogEnd or LogFailed."""

    seq: int


class Reply(NamedTuple):
    """Job, list of Cancelled, Settled, NodeReply, bytes of a DesiredState, or a StokerError."""

    token: Any
    value: Any


class Send(NamedTuple):
    """Signed commands for a node."""

    node: str
    data: bytes


class RenewLeases(NamedTuple):
    """Nodes may go on by this; heartbeats say so until the next one. None: no longer by us."""

    authority: Authority | None


class SaveSnapshot(NamedTuple):
    """Answered by SnapshotSaved or SnapshotFailed."""

    snapshot: Snapshot


class Trim(NamedTuple):
    """Nothing up to `seq` is needed any more; need not succeed."""

    seq: int


class Lead(NamedTuple):
    """This replica leads from here on."""

    term: int


class Halt(NamedTuple):
    """Nothing more is applied or appended; a person must look."""

    reason: str


Effect = Append | Read | Reply | Send | RenewLeases | SaveSnapshot | Trim | Lead | Halt
