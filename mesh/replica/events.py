# SPDX-License-Identifier: Apache-2.0
"""The events that a replica takes and the effects that it returns: its whole interface.

A token identifies who waits for a reply; the replica returns it unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stoker.mesh.log.entry import AdminBlob, Entry, RosterBlob, Setting
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.changes import Changes
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.wire.command import StateRequest
from stoker.scheduler.array_indexes import ArrayIndexes
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import Account, JobSpec, NodeReport, Observation, Outcome, Owner
from stoker.scheduler.records import Request

if TYPE_CHECKING:
    from stoker.mesh.replica.state import ReplicaState
    from stoker.mesh.replica.works.work import Removed


class _Frequent(msgspec.Struct, frozen=True):
    """The base of what is made for every message or entry: cheaper to make than a tuple."""


# --- events ---------------------------------------------------------------------------------------


class JobSubmitted(NamedTuple):
    """A user submits a job, which was admitted."""

    token: Any
    owner: Owner
    key: bytes
    spec: JobSpec
    array: tuple[int, ...] = ()
    """The indexes of an array, with one job for each; empty for a single job."""
    since_ns: int = 0
    """The time at which the idempotency key was first sent, if this is a repeat."""
    indexes: ArrayIndexes = ArrayIndexes()
    """The indexes of an array instead of `array`, where they came as runs."""


class Admin(NamedTuple):
    """An administrator sets queues or nodes; repeating it changes nothing."""

    token: Any
    requests: tuple[Request, ...]
    settings: tuple[Setting, ...]
    again: Callable[[ReplicaState], tuple[Request, ...]] | None = None
    """Makes the requests again from a later state, if they depend on it."""
    says: AdminBlob | None = None
    """The request itself, for the log's trail; None if nothing is to change."""

    @property
    def is_empty(self) -> bool:
        """True if the request is in force already."""
        return not self.requests and not self.settings


class NodeRemoval(NamedTuple):
    """An administrator takes a node out of the cluster for good; with `force`, with all that runs
    there."""

    token: Any
    node: str
    why: str
    force: bool


class NodeEviction(NamedTuple):
    """An administrator says that the host of a node is lost; with `force`, also of one whose agent
    is heard."""

    token: Any
    node: str
    why: str
    force: bool


class RosterChange(NamedTuple):
    """An administrator takes one scheduler into the roster, or out of it."""

    token: Any
    change: RosterBlob
    says: AdminBlob | None = None
    """The request itself, for the log's trail."""


class Upgrade(NamedTuple):
    """An administrator raises the feature level, to the newest one that any scheduler supports."""

    token: Any
    servers: Mapping[int, str]
    """The host of each scheduler, by the scheduler's number."""
    says: AdminBlob | None = None
    """The request itself, for the log's trail."""


class ServersKnown(NamedTuple):
    """The schedulers of all servers, in the roster or not, as the host's table has them now."""

    servers: tuple[RosterMember, ...]


class AccountsRead(NamedTuple):
    """The accounts of all users, as the operator's table has them now."""

    accounts: Mapping[str, Account]


class CancelRequested(NamedTuple):
    """A user stops these jobs and is allowed to."""

    token: Any
    jobs: list[int]
    reason: str
    user: str = ""
    parts: tuple[ArrayPart, ...] = ()
    """The jobs of arrays that are not over, whether or not they are records."""


class Remove(NamedTuple):
    """A user has these ended jobs forgotten and is allowed to; `selected` is the answer."""

    token: Any
    jobs: list[int]
    selected: list[Removed]
    why: str
    user: str = ""


class Get(NamedTuple):
    """A request for one job, at once or when it has reached `until`.

    `deadline_ns` is CLOCK_BOOTTIME.
    """

    token: Any
    job: int
    until: str
    deadline_ns: int
    user: str = ""
    """The user whose budget of held requests is used; empty if another limit applies."""
    here: bool = False
    """True for a read that this replica may answer whether or not it leads."""


class ReadRequested(NamedTuple):
    """A user reads here; answered by a ReadPosition once the state has all that the read must
    reflect, or by a StokerError."""

    token: Any
    user: str


class Outcomes(_Frequent, frozen=True):
    """A node reports the outcomes of its attempts."""

    token: Any
    node: str
    outcomes: tuple[Outcome, ...]


class NodeReported(NamedTuple):
    """A node reports its devices, labels and resources."""

    token: Any
    report: NodeReport


class StateRequested(NamedTuple):
    """A node requests the state that it should be in."""

    token: Any
    node: str
    request: StateRequest


class Observed(_Frequent, frozen=True):
    """A node sent one telemetry sample, which is never logged."""

    node: str
    observation: Observation


class Scored(NamedTuple):
    """The ranks that a scoring function gave nodes for an attempt of a job, or the reason why there
    are none. The highest rank is the best."""

    job: int
    attempt: int
    ranks: tuple[tuple[int, int], ...]
    """Nodes by the ids of the core, with their ranks."""
    reason: int = 0


class TimePassed(_Frequent, frozen=True):
    """Some time has passed; send one every 0.1 s."""


class LogEntries(_Frequent, frozen=True):
    """Read returned these entries, in order."""

    entries: list[tuple[int, bytes]]


class LogEnd(_Frequent, frozen=True):
    """Read reached the end of the log as it then was."""


class LogFailed(NamedTuple):
    """Read failed, or the outcome of an append is unknown.

    `last` is the last entry that JetStream names, 0 if it names none.
    """

    why: str
    last: int = 0


class AppendDone(_Frequent, frozen=True):
    """The append of this name is durable as `seq`; without a name, the one in flight is."""

    seq: int
    name: str = ""


class AppendFull(NamedTuple):
    """The append did not happen, and none will before a trim."""

    why: str


class SnapshotSaved(NamedTuple):
    """The snapshot is durable and was read back.

    `agreed` is the digest of the state after entry `place`, which all replicas have.
    """

    seq: int
    digest: bytes
    place: int = 0
    agreed: bytes = b""


class SnapshotFailed(NamedTuple):
    """The snapshot could not be saved."""

    why: str


class Trimmed(NamedTuple):
    """The log was trimmed up to `seq`."""

    seq: int


class TrimFailed(NamedTuple):
    """The log may not have been trimmed."""

    why: str


class LogReachable(NamedTuple):
    """The connection to the log is back: try again at once."""


class LogBroken(NamedTuple):
    """The log contradicts what it confirmed."""

    why: str


class PeerMessage(_Frequent, frozen=True):
    """Another scheduler sent this sealed message."""

    data: bytes


class SnapshotPartRead(NamedTuple):
    """A part of this replica's newest snapshot file, for the scheduler that requested it."""

    to: int
    snapshot: int
    offset: int
    size: int
    data: bytes


class NodeHeard(_Frequent, frozen=True):
    """The moments at which the newest lease request of a node came, and the newest that was
    answered, from which its lease counts at the latest (CLOCK_BOOTTIME)."""

    node: str
    heard_ns: int
    answered_ns: int | None


class NodesHeard(_Frequent, frozen=True):
    """The nodes whose lease requests have come; sent a few times a second, to followers too."""

    rows: tuple[NodeHeard, ...]


class PingReported(NamedTuple):
    """A node reports its ping of another one.

    A reply and a refusal both show that the host lives; `unable` is true if the pinger could not
    send, `failed` if its gossip holds the other node as failed.
    """

    pinger: str
    target: str
    answered: bool
    unable: bool = False
    failed: bool = False


class Withheld(NamedTuple):
    """No answer to this node is made any more; `answered_ns` is as in NodeHeard."""

    node: str
    answered_ns: int | None


class Disk(NamedTuple):
    """The state of the disk; `why` says why it takes no more jobs, or is empty."""

    why: str


class Leave(NamedTuple):
    """This process is to end: hand over to another scheduler. Answered by Left."""


Event = (
    JobSubmitted
    | Admin
    | NodeRemoval
    | NodeEviction
    | RosterChange
    | Upgrade
    | ServersKnown
    | AccountsRead
    | CancelRequested
    | Remove
    | Get
    | ReadRequested
    | Outcomes
    | NodeReported
    | StateRequested
    | Observed
    | TimePassed
    | Scored
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
    | PeerMessage
    | SnapshotPartRead
    | NodesHeard
    | PingReported
    | Withheld
    | Disk
    | Leave
)


# --- effects --------------------------------------------------------------------------------------


class Append(_Frequent, frozen=True):
    """Append an entry at `tail`; answered by AppendDone, AppendFull, LogFailed or LogBroken."""

    tail: int
    data: bytes
    name: str


class Read(_Frequent, frozen=True):
    """Read from `seq` to the end; answered by LogEntries, then LogEnd, LogFailed or LogBroken."""

    seq: int


class ReadPosition(NamedTuple):
    """The entry up to which the state has everything, when a read may be answered from it."""

    term: int
    at: int


class Reply(_Frequent, frozen=True):
    """Answer a request: with a Job, list of Cancelled or Removed, AdminApplied, NodeReply, bytes of
    a DesiredState, a ReadPosition, or a StokerError."""

    token: Any
    value: Any


class Send(_Frequent, frozen=True):
    """Send signed commands to a node."""

    node: str
    data: bytes


class RenewLeases(_Frequent, frozen=True):
    """Answer lease requests with this authority until the next one; None ends that."""

    authority: Authority | None


class SaveSnapshot(NamedTuple):
    """Save a snapshot; answered by SnapshotSaved or SnapshotFailed."""

    snapshot: Snapshot


class Trim(NamedTuple):
    """Trim the log up to `seq`; answered by Trimmed or TrimFailed."""

    seq: int


class SendPeer(_Frequent, frozen=True):
    """Send a sealed message to another scheduler, by its number in the roster."""

    to: int
    data: bytes


class Store(_Frequent, frozen=True):
    """Make entries durable before any later effect is carried out.

    They replace all entries behind `after`; `promised` and `floor` replace the promised term and
    the floor of the vote.
    """

    after: int
    entries: tuple[tuple[int, bytes], ...]
    promised: int
    floor: tuple[int, int] = (0, 0)


class ReadSnapshotPart(NamedTuple):
    """Read a part of the newest snapshot file; answered by SnapshotPartRead."""

    to: int
    snapshot: int
    offset: int


class Install(NamedTuple):
    """Begin again with this snapshot file and no held entries; empty: from the log alone.

    The promised term and the floor of the vote stay as they were stored.
    """

    data: bytes
    why: str


class Withhold(NamedTuple):
    """Make no answer to a node's lease requests from now on; answered by Withheld."""

    node: str


class Resume(NamedTuple):
    """Answer a node's lease requests again."""

    node: str


class PingNode(NamedTuple):
    """Have a node ping another one at its address; answered by PingReported, or by nothing."""

    pinger: str
    target: str
    address: str


class TellRanks(NamedTuple):
    """Tell a node which ranks of one of its tasks keep others waiting: a RanksQuery."""

    node: str
    data: bytes


class EntryTold(_Frequent, frozen=True):
    """An entry of this leader counts; for those who look on, with ReplicaSettings.tells alone."""

    entry: Entry
    changes: Changes


class Score(NamedTuple):
    """Have a scoring function rank nodes for an attempt of a job; answered by Scored."""

    job: int
    attempt: int
    name: str
    nodes: tuple[int, ...]
    """The candidates by the ids of the core, in the order of the request."""
    request: dict[str, Any]
    """The job and its candidates as the function is given them."""


class Lead(NamedTuple):
    """This replica leads from now on."""

    term: int


class Halt(NamedTuple):
    """The replica applies and appends nothing more; a person must look."""

    reason: str


class Left(NamedTuple):
    """This replica has resigned, if it led, and stands no more: the process may end."""


Effect = (
    Append
    | Read
    | Reply
    | Send
    | RenewLeases
    | SaveSnapshot
    | Trim
    | SendPeer
    | Store
    | ReadSnapshotPart
    | Install
    | Withhold
    | Resume
    | PingNode
    | TellRanks
    | EntryTold
    | Score
    | Lead
    | Left
    | Halt
)
