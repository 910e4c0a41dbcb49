# SPDX-License-Identifier: Apache-2.0
"""The kinds of work that become log entries: requests to the core and the blobs logged with them.

Owns the mapping of requests to commands, and the answer to each work when its batch is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import (
    AccountBlob,
    AdminBlob,
    Blob,
    CancelBlob,
    CordonBlob,
    DrainBlob,
    Entry,
    EvictBlob,
    LimitsBlob,
    MoveBlob,
    NodeBlob,
    Opened,
    Setting,
    SnapshotBlob,
    SnapshotPointBlob,
    encoded_size,
)
from stoker.mesh.replica import departed_nodes
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import fence, reason_text
from stoker.mesh.replica.works.node_requests import node_requests
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import BadRequest, NotFound, Refused, StokerError
from stoker.scheduler import records
from stoker.scheduler.core import Proposal
from stoker.scheduler.effects import Rejected
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import ENDED, JobState, NodeReport
from stoker.scheduler.policies import FIRST_ORDER
from stoker.scheduler.reasons import Reason

BATCH_BYTES_MAX = 208 * 1024
"""The most bytes of requests and blobs in one entry; with 256 decisions and the envelope an entry
stays below 256 KiB."""
CANCELS_MAX = 512
"""The most jobs that one entry cancels, each of which changes the book; it bounds the time of one
step."""
_FULL = frozenset(
    {
        Reason.JOBS_FULL,
        Reason.TASKS_FULL,
        Reason.NODES_FULL,
        Reason.DEVICES_FULL,
        Reason.MODELS_FULL,
        Reason.TRAITS_FULL,
        Reason.QUEUES_FULL,
        Reason.AFTERS_FULL,
    }
)
DRAINED = Reason.OUTER + 1
"""The reason of a node that is down because it was drained."""


class Cancelled(NamedTuple):
    """The effect of a cancel on one job."""

    job: int
    state: JobState
    changed: bool
    last: int = 0
    """The last one of several jobs of an array, of which `job` is the first; 0 for one job."""


class AdminApplied(NamedTuple):
    """An administrator's settings are in force; `changed` is false if they were before."""

    changed: bool


class Fate(NamedTuple):
    """The fate of one request of a work."""

    command: int
    """The position of the command in the entry; -1 if the request was rejected."""
    rejected: Rejected | None


class Work:
    """Requests that are committed and answered together.

    `token` says whom to answer; None if nobody waits.
    """

    __slots__ = ("answered", "count", "queued_ns", "requests", "size", "token")

    def __init__(self, token: Any, requests: Sequence[records.Request], nouns_size: int) -> None:
        self.token = token
        self.answered = False
        self.queued_ns = 0
        """The time at which it was queued first (CLOCK_BOOTTIME)."""
        self._pack(requests, nouns_size)

    def _pack(self, requests: Sequence[records.Request], nouns_size: int) -> None:
        self._set([request.pack() for request in requests], nouns_size)

    def _set(self, packed: Sequence[bytes], nouns_size: int) -> None:
        self.requests = b"".join(packed)
        self.count = len(packed)
        self.size = len(self.requests) + nouns_size

    @property
    def sole(self) -> str:
        """The thing that this decides on after the decision before it: the availability of a node,
        or the jobs of an array; else empty. An entry takes one such work of each."""
        return ""

    def refresh(self, state: ReplicaState) -> None:
        """Make the requests again if they depend on the state; called before they are decided."""

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        """Return the blobs to log with the commands of this work."""
        raise AssertionError(f"{type(self).__name__} logs nothing")

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        """Return the value or the StokerError that answers this work."""
        raise AssertionError(f"{type(self).__name__} answers nothing")

    def next_part(self, fates: list[Fate], applied: Applied) -> Work | None:
        """Return the work that goes on with what this one began, if it is more than an entry
        takes; None if this work is complete, or was not taken."""
        return None

    def is_torn(self, fates: list[Fate]) -> bool:
        """Return True if this work must be taken completely and only a part of it would be."""
        return False

    def why_torn(self, fates: list[Fate]) -> StokerError | None:
        """Return why the rest is not taken; None if only because this batch is full."""
        return None


class AdminWork(Work):
    """An administrator's settings; a setting that is in force already is no error."""

    __slots__ = ("again", "nouns_size", "says", "settings")

    def __init__(
        self,
        token: Any,
        requests: Sequence[records.Request],
        settings: Sequence[Setting],
        again: Callable[[ReplicaState], Sequence[records.Request]] | None = None,
        says: AdminBlob | None = None,
    ) -> None:
        self.settings = settings
        self.again = again
        self.says: tuple[Blob, ...] = (says,) if says is not None else ()
        self.nouns_size = sum(encoded_size(blob) for blob in (*settings, *self.says)) + 16
        super().__init__(token, requests, self.nouns_size)

    @property
    def sole(self) -> str:
        kinds = (CordonBlob, DrainBlob)
        return next((each.node for each in self.settings if isinstance(each, kinds)), "")

    def refresh(self, state: ReplicaState) -> None:
        if self.again is not None:
            self._pack(self.again(state), self.nouns_size)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        refused = any(fate.rejected and not _no_matter(fate.rejected) for fate in fates)
        return [] if refused else [*self.says, *self.settings]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        for fate in fates:
            if fate.rejected is not None and not _no_matter(fate.rejected):
                return refusal(fate.rejected, state)
        kinds = (CordonBlob, LimitsBlob, AccountBlob, MoveBlob)
        alone = any(isinstance(setting, kinds) for setting in self.settings)
        return AdminApplied(alone or any(fate.command >= 0 for fate in fates))


class CancelWork(Work):
    """The cancel of `jobs`, which are not over; the answer is about all `selected` jobs."""

    __slots__ = ("jobs", "reason", "selected", "user")

    def __init__(
        self, token: Any, jobs: list[int], selected: list[int], reason: str, user: str = ""
    ) -> None:
        self.jobs = jobs
        self.selected = selected
        self.reason, self.user = reason, user
        requests = [records.Cancel(job) for job in jobs]
        super().__init__(token, requests, len(jobs) * words_size(reason, user))

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        if not (self.reason or self.user):
            return []
        taken = (fate.command for fate in fates if fate.command >= 0)
        return [CancelBlob(command, self.reason, self.user) for command in taken]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        done = dict(zip(self.jobs, fates, strict=True))
        answers: list[Cancelled] = []
        for job in self.selected:
            try:
                now = state.book.get(job).state
            except NotFound:
                continue
            fate = done.get(job)
            changed = fate.command >= 0 if fate is not None else now not in ENDED
            answers.append(Cancelled(job, now, changed))
        return answers


def words_size(why: str, user: str) -> int:
    """Return the bytes of a blob with these words."""
    return 18 + len(why.encode()) + len(user.encode())


def cancel_works(
    token: Any, live: list[int], selected: list[int], reason: str, user: str = ""
) -> Iterator[CancelWork]:
    """Yield the works of one cancel, each small enough for an entry.

    They are committed in order, so the last one answers for all.
    """
    size = min(CANCELS_MAX, BATCH_BYTES_MAX // (48 + words_size(reason, user)))
    while len(live) > size:
        yield CancelWork(None, live[:size], [], reason, user)
        live = live[size:]
    yield CancelWork(token, live, selected, reason, user)


class Removed(NamedTuple):
    """The effect of a removal on one job; `changed` is false if the job was gone before."""

    job: int
    changed: bool


class RemoveWork(Work):
    """A user's request to forget ended jobs; `selected` is the answer."""

    __slots__ = ("selected", "user", "why")

    def __init__(
        self, token: Any, jobs: list[int], selected: list[Removed], why: str, user: str = ""
    ) -> None:
        self.selected = selected
        self.why, self.user = why, user
        requests = [records.Forget(job) for job in jobs]
        super().__init__(token, requests, len(jobs) * words_size(why, user))

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        taken = (fate.command for fate in fates if fate.command >= 0)
        return [CancelBlob(command, self.why, self.user) for command in taken]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        return self.selected


def remove_works(
    token: Any, jobs: list[int], selected: list[Removed], why: str, user: str = ""
) -> Iterator[RemoveWork]:
    """Yield the works of one removal, each small enough for an entry; the last one answers."""
    size = min(records.BATCH_REQUESTS_MAX, BATCH_BYTES_MAX // (48 + words_size(why, user)))
    while len(jobs) > size:
        yield RemoveWork(None, jobs[:size], [], why, user)
        jobs = jobs[size:]
    yield RemoveWork(token, jobs, selected, why, user)


class HelloWork(Work):
    """A node's report of itself; the requests depend on its last report, drains and cordons."""

    __slots__ = ("nouns_size", "report")

    def __init__(self, token: Any, report: NodeReport, state: ReplicaState) -> None:
        self.report = report
        self.nouns_size = len(msgspec.msgpack.encode(report))
        super().__init__(token, hello_requests(report, state), self.nouns_size)

    @property
    def sole(self) -> str:
        return self.report.node

    def refresh(self, state: ReplicaState) -> None:
        self._pack(hello_requests(self.report, state), self.nouns_size)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        if state.book.departures.of(self.report) is not None:
            return []
        up = fates[0]
        taken = up.rejected is None or up.rejected.reason == Reason.UNCHANGED
        if not taken or state.book.nodes.get(self.report.node) == self.report:
            return []
        return [NodeBlob(self.report)]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        left = state.book.departures.of(self.report)
        if left is not None:
            return NodeReply(False, "removed", departed_nodes.words(left))
        up = fates[0].rejected
        if up is not None and up.reason == Reason.STALE_INCARNATION:
            return NodeReply(False, "stale", up.text())
        wrong = [fate.rejected for fate in fates if fate.rejected and not _no_matter(fate.rejected)]
        if wrong:
            return NodeReply(False, "refused", "; ".join(r.text() for r in wrong[:8]))
        return NodeReply(True, term=state.term)


class EvictWork(Work):
    """The eviction of a node: what ran on it is lost, and it gets nothing until it has returned."""

    __slots__ = ("blob",)

    def __init__(self, blob: EvictBlob) -> None:
        self.blob = blob
        down = records.NodeDown(name_id(blob.node), reason=Reason.NODE_EVICTED, evict=True)
        super().__init__(None, (down,), encoded_size(blob) + 16)

    @property
    def sole(self) -> str:
        return self.blob.node

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [self.blob] if fates[0].command >= 0 else []


class ForgetWork(Work):
    """Ended jobs that the leader forgets because there are too many, or too many bytes."""

    __slots__ = ()

    def __init__(self, jobs: list[int]) -> None:
        super().__init__(None, [records.Forget(job) for job in jobs], 0)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return []


class TickWork(Work):
    """The requests of the leader's own clock: the device time of running jobs so far, the end of
    gangs that are not ready, and the moves of jobs off drained nodes."""

    __slots__ = ()

    def __init__(
        self, requests: Sequence[records.DeviceUsage | records.GiveUp | records.Preempt]
    ) -> None:
        super().__init__(None, requests, 0)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return []


class TermWork(Work):
    """The TERM entry of a candidate."""

    __slots__ = ("term",)

    def __init__(self, term: int, leader: int, *, founds: bool) -> None:
        self.term = term
        first = [records.QueueSet(0, order=FIRST_ORDER)] if founds else []
        super().__init__(None, [records.Term(term, leader), *first], 0)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return []


class SnapshotWork(Work):
    """The record that a snapshot is durable, or the point at which all replicas take one."""

    __slots__ = ("blob",)

    def __init__(self, blob: SnapshotBlob | SnapshotPointBlob) -> None:
        self.blob = blob
        super().__init__(None, (), 128)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [self.blob]


class WorkBatch:
    """The works of one entry, and the fates of their requests."""

    def __init__(self, works: list[Work]) -> None:
        self.works = works
        self.commands = b""
        self.more = False
        self.fates: list[list[Fate]] = []
        self.retry = False

    @property
    def requests(self) -> bytes:
        """The packed requests of all works, in order."""
        return b"".join(work.requests for work in self.works)

    def decided(self, proposal: Proposal) -> None:
        """Note the core's proposal; accepted requests became commands, in order."""
        rejected = {row.request: row for row in proposal.rejected}
        position = command = 0
        for work in self.works:
            fates: list[Fate] = []
            for _ in range(work.count):
                row = rejected.get(position)
                fates.append(Fate(command, None) if row is None else Fate(-1, row))
                command += row is None
                position += 1
            self.fates.append(fates)
        self.commands, self.more = proposal.commands, proposal.more

    def blobs(self, state: ReplicaState) -> tuple[Blob, ...]:
        """Return the blobs of all works."""
        pairs = zip(self.works, self.fates, strict=True)
        return tuple(blob for work, fates in pairs for blob in work.blobs(fates, state))

    def torn(self) -> dict[Work, StokerError | None]:
        """Return arrays of which only a part would be taken, with the reason; None if the batch is
        full."""
        return {
            work: work.why_torn(fates)
            for work, fates in zip(self.works, self.fates, strict=True)
            if work.is_torn(fates)
        }

    def to_repeat(self) -> list[Work]:
        """Return works with a request that did not fit; repeating their other ones is harmless."""
        return [
            work
            for work, fates in zip(self.works, self.fates, strict=True)
            if any(fate.rejected is not None and fate.rejected.retry for fate in fates)
        ]


class InFlight(NamedTuple):
    """An entry that was sent and has no known outcome yet."""

    entry: Entry
    hash: bytes
    batch: WorkBatch
    data: bytes
    name: str

    def at(self, tail: int) -> InFlight:
        """Return this with a name for an append at this tail of the log.

        The log's servers know the names of two minutes. If the log has lost the entry, they would
        answer a name that they know with a place that is gone; at one tail they are right.
        """
        return self._replace(name=f"{self.name.partition('+')[0]}+{tail:x}")

    @property
    def opened(self) -> Opened:
        """This entry as a reader of the log opens it."""
        return Opened(self.entry, self.hash, entries.signature_of(self.data))


def refusal(rejected: Rejected, state: ReplicaState) -> StokerError:
    """Return the error that tells a user why the core rejects a request."""
    kind = Refused if rejected.reason in _FULL else BadRequest
    asked, have, job = rejected.asked, rejected.have, rejected.job
    text = reason_text.words(state.book, rejected.reason, asked=asked, have=have, job=job)
    return kind(text, hint=reason_text.hint(state.book, rejected.reason, asked, have, job))


def _no_matter(rejected: Rejected) -> bool:
    """Return True if the rejected request would have changed nothing."""
    return rejected.benign or rejected.reason in (Reason.UNKNOWN_LABEL, Reason.UNKNOWN_QUEUE)


def hello_requests(report: NodeReport, state: ReplicaState) -> list[records.Request]:
    """Return the requests that a report becomes in this state."""
    if state.book.departures.of(report) is not None:
        return [records.NodeDown(0)]  # no node, so that it is rejected
    requests = node_requests(report, state, state.book.nodes.get(report.node))
    is_drained = bool(report.drain) or report.node in state.book.drained
    down = kept_down(report, state, is_drained=is_drained)
    return [*requests, *down, *fence.taints(report, state)]


def kept_down(
    report: NodeReport, state: ReplicaState, *, is_drained: bool
) -> list[records.Request]:
    """Return the request that keeps jobs off a node that is up: it was given up and what ran on it
    may still run, or it is drained; none if it may have jobs."""
    eviction = state.book.evicted.get(report.node)
    if eviction is not None and not eviction.is_over(report):
        return [records.NodeDown(name_id(report.node), reason=Reason.NODE_EVICTED)]
    return [records.NodeDown(name_id(report.node), reason=DRAINED)] if is_drained else []
