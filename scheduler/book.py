# SPDX-License-Identifier: Apache-2.0
"""The job book: the meaning of the core's numbers.

It has each job's user, spec, attempts and nodes.

Pure: the same entries give the same bytes. Bounded: the core's limits bound the jobs, and an ended
one is kept encoded.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

import msgspec

from stoker.native.errors import BadRequest, Corrupt, NotFound
from stoker.scheduler.array_ends import EndsImage
from stoker.scheduler.departures import Departure, Departures
from stoker.scheduler.followed_ranges import RangeImage
from stoker.scheduler.gang_ports import GangPorts
from stoker.scheduler.job_arrays import ArrayImage, JobArray, JobArrays
from stoker.scheduler.names import DEFAULT_QUEUE, label_key, name_id
from stoker.scheduler.nouns import (
    ENDED,
    Decision,
    JobSpec,
    JobState,
    NodeReport,
    Owner,
    TaskKey,
    Usage,
)
from stoker.scheduler.shares import UserShares

FORMAT = 6
ATTEMPTS_KEPT = 16
"""The number of earlier attempts kept of a job; their output is at their nodes."""
NAMES_MAX = 4096
"""The most labels, taints and models that are kept by name."""
REMOVED_KEPT = 256
"""The number of removed jobs kept for each user, to tell them from jobs that never existed."""
REMOVERS_KEPT = 1024
"""The number of users whose removed jobs are kept."""
SELECTOR_CHARS_MAX = 4096
SELECTOR_PARTS_MAX = 512


RankState = Literal[
    "starting", "ready", "running", "succeeded", "failed", "cancelled", "timeout", "lost"
]


class Attempt(msgspec.Struct, array_like=True, frozen=True):
    """An attempt that was followed by another one. Its times are as in Job."""

    attempt: int
    state: JobState
    reason: str
    decision: Decision | None
    placed_ns: int | None
    started_ns: int | None
    ended_ns: int
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None
    nodes: tuple[str, ...] = ()
    """The node of each rank of a gang."""


class Rank(msgspec.Struct, array_like=True):
    """One task of a gang in the present attempt; `state` is what its node said last."""

    decision: Decision
    state: RankState = "starting"
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None


class Job(msgspec.Struct, array_like=True):
    """One job. Times are CLOCK_REALTIME ns; `spec` is an encoded JobSpec, read only when needed."""

    job: int
    owner: Owner
    spec: bytes
    submitted_ns: int
    state: JobState = "pending"
    reason: str = ""
    attempt: int = 0
    decision: Decision | None = None
    placed_ns: int | None = None
    started_ns: int | None = None
    ended_ns: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    usage: Usage | None = None
    stopped_for: str = ""
    """The reason given with the cancel."""
    attempts: tuple[Attempt, ...] = ()
    """The attempts before the present one; `decision` is None until the next one is placed."""
    ranks: list[Rank] = []
    """The tasks of a gang, of which `decision` is the first one's; empty for a job of one task."""
    master_port: int = 0
    """The port of rank 0's node at which the gang meets; 0 while it has none."""
    verdict: JobState | Literal[""] = ""
    """The state in which the attempt of a gang that is being stopped will have ended."""

    def decoded_spec(self) -> JobSpec:
        """Return the decoded request."""
        return _specs.decode(self.spec)

    def placing(self, attempt: int) -> int | None:
        """Return the `placing` of an attempt (`TaskKey`); None if it is not known."""
        if attempt == self.attempt and self.decision is not None:
            return self.decision.placing
        before = (each.decision for each in self.attempts if each.attempt == attempt)
        return next((found.placing for found in before if found is not None), None)

    def waits_again(self, ended: Attempt) -> None:
        """Record that the attempt is over and that another one will follow."""
        self.attempts = (*self.attempts, ended)[-ATTEMPTS_KEPT:]
        self.ranks, self.verdict = [], ""
        self.decision = self.usage = None
        self.placed_ns = self.started_ns = self.ended_ns = None
        self.exit_code = self.signal = None


class EndedJob(NamedTuple):
    """A job that is over: never changed again, so kept as its encoded row of a snapshot."""

    user: str
    state: JobState
    row: bytes


class Eviction(msgspec.Struct, array_like=True, frozen=True):
    """The eviction of a node, until the node has returned."""

    boot_id: str
    index: int
    """The log entry that evicted it."""
    why: str

    def is_over(self, report: NodeReport) -> bool:
        """Return True if nothing that ran before the eviction is left on the node."""
        return report.boot_id != self.boot_id or report.settled >= self.index


class MoveOrder(msgspec.Struct, array_like=True, frozen=True):
    """The drain of a node that moves its jobs elsewhere."""

    grace_s: float | None
    """Seconds between the checkpoint signal of a job and its stop; None: as each job says."""
    by: str
    """The administrator who drains it."""


class _Row(msgspec.Struct, array_like=True, frozen=True):
    job: int
    user: str
    state: JobState
    raw: msgspec.Raw


class _Image(msgspec.Struct, array_like=True, frozen=True):
    format: int
    nodes: list[NodeReport]
    last: list[tuple[str, int]]
    rows: list[msgspec.Raw]
    queues: list[tuple[int, str]] = []
    labels: list[str] = []
    drained: list[tuple[str, str]] = []
    cordoned: list[tuple[str, str, str]] = []
    removed: list[tuple[str, list[tuple[int, str]]]] = []
    evicted: list[tuple[str, Eviction]] = []
    departed: list[Departure] = []
    moves: list[tuple[str, MoveOrder]] = []
    graces: list[tuple[int, float]] = []
    arrays: list[ArrayImage] = []
    ranges: list[RangeImage] = []
    ends: list[EndsImage] = []


_specs = msgspec.msgpack.Decoder(JobSpec)
_jobs = msgspec.msgpack.Decoder(Job)
_rows = msgspec.msgpack.Decoder(_Row)
_images = msgspec.msgpack.Decoder(_Image)
_encoder = msgspec.msgpack.Encoder()


class Book:
    """All jobs the log has not forgotten, by number, and all nodes that are not removed."""

    def __init__(self, cluster: str = "") -> None:
        self._jobs: dict[int, Job | EndedJob] = {}
        self._last: dict[str, int] = {}
        self.nodes: dict[str, NodeReport] = {}
        self.ports = GangPorts(cluster)
        """The ports of gangs, which follow from the live jobs."""
        self.gathering: set[int] = set()
        """The gangs that were placed and of which no rank runs yet; follows from the live jobs."""
        self.shares = UserShares()
        """The resources that each user's jobs take, for the limits on users."""
        self.queues: dict[int, str] = {}
        """The names of queues by their core id, without the default queue."""
        self.drained: dict[str, str] = {}
        """The reasons of drained nodes, which get no new jobs."""
        self.moves: dict[str, MoveOrder] = {}
        """The drained nodes whose jobs are moved elsewhere."""
        self.graces: dict[int, float] = {}
        """The jobs that are being moved by a drain which names a grace, with its seconds."""
        self.cordoned: dict[tuple[str, str], str] = {}
        """The reasons of cordoned devices by (node, device), which get no new jobs."""
        self.evicted: dict[str, Eviction] = {}
        """The nodes that were given up and have not returned."""
        self.departures = Departures()
        """The nodes that were removed for good."""
        self.arrays = JobArrays()
        """The arrays whose jobs become records when their turn comes."""
        self._labels: dict[int, str] = {}
        self.newest_number = 0
        """The greatest number of a job that this replica saw submitted."""
        self._in_order = True
        """False once a job was added behind one with a greater number."""
        self._removed: dict[str, dict[int, str]] = {}
        """The newest REMOVED_KEPT removed jobs of each user, with the user who removed them."""

    def __len__(self) -> int:
        return len(self._jobs)

    # --- changes, each from one committed command -------------------------------------------------

    def submit(self, job: int, owner: Owner, spec: bytes, now_ns: int, reason: str) -> Job:
        """Add a new job; numbers only grow, but for the later jobs of an array."""
        record = Job(job, owner, spec, now_ns, reason=reason)
        self._jobs[job] = record
        self._in_order &= job > self.newest_number
        self.newest_number = max(self.newest_number, job)
        self._last[owner.user] = max(self._last.get(owner.user, 0), job)
        self.shares.put(owner.user, job, len(spec), ended=False)
        self.arrays.made(job)
        return record

    def submit_array(self, image: ArrayImage) -> None:
        """Add an array none of whose jobs has a record; the first of them follow."""
        array = JobArray(image)
        self.arrays.add(array)
        self._last[array.owner.user] = array.last

    def submit_next(self, job: int, array: JobArray, reason: str) -> Job:
        """Add the record of a job whose turn in its array has come."""
        spec = array.spec_at(job - array.first)
        return self.submit(job, array.owner, spec, array.image.submitted_ns, reason)

    def live_after(self, number: int) -> Iterator[Job]:
        """Yield the jobs after this number that are not over, the oldest first."""
        for job in range(number + 1, self.newest_number + 1) if number else sorted(self._jobs):
            if (record := self.live(job)) is not None:
                yield record

    def live(self, job: int) -> Job | None:
        """Return the mutable record of a job that is not over; None for any other number."""
        record = self._jobs.get(job)
        return record if isinstance(record, Job) else None

    def end(self, record: Job) -> None:
        """Encode a record whose state is final."""
        assert record.state in ENDED
        self.leave(record)
        row = _encode_row(record)
        self._jobs[record.job] = EndedJob(record.owner.user, record.state, row)
        self.shares.end(record.owner.user, record.job, len(row), len(record.spec))

    def place_gang(self, record: Job, decisions: list[Decision]) -> None:
        """Record the places of all ranks of a new attempt, and the port at which they meet."""
        first = decisions[0]
        record.decision, record.verdict = first, ""
        record.ranks = [Rank(decision) for decision in decisions]
        record.master_port = self.ports.take(first.node, record.job, record.attempt)
        self.gathering.add(record.job)

    def leave(self, record: Job) -> None:
        """Give back what an attempt that is over had: a gang's port, and the grace of a move."""
        self.graces.pop(record.job, None)
        if record.master_port and record.decision is not None:
            self.ports.give(record.decision.node, record.master_port, record.job)
        record.master_port = 0

    def forget(self, job: int, why: str = "") -> None:
        """Drop a job for good; `why` is kept as the answer to later requests for it."""
        record = self._jobs.pop(job, None)
        if record is None:
            return
        user = self.user(record)
        size = len(record.row if isinstance(record, EndedJob) else record.spec)
        self.shares.drop(user, job, size)
        if why:
            self._remember_removed(user, job, why)
        self.arrays.forget(job)
        if self._last.get(user) == job:
            del self._last[user]

    def _remember_removed(self, user: str, job: int, why: str) -> None:
        kept = self._removed.setdefault(user, {})
        kept[job] = why
        if len(kept) > REMOVED_KEPT:
            del kept[next(iter(kept))]
        if len(self._removed) > REMOVERS_KEPT:
            del self._removed[next(iter(self._removed))]

    def join(self, report: NodeReport) -> None:
        """Keep a node's latest report, which may show that it has returned."""
        self.nodes[report.node] = report
        eviction = self.evicted.get(report.node)
        if eviction is not None and eviction.is_over(report):
            del self.evicted[report.node]
        self.named(report.labels)

    def drain(self, node: str, why: str) -> None:
        """Keep why a node is drained, or that it is not; a drain moves nothing until it is said."""
        self.drained.pop(node, None)
        self.moves.pop(node, None)
        if why:
            self.drained[node] = why

    def depart(self, departure: Departure) -> None:
        """Drop a node for good, with all that was set for it; jobs keep its name."""
        node = departure.node
        for known in (self.nodes, self.drained, self.moves, self.evicted):
            known.pop(node, None)
        self.cordoned = {where: why for where, why in self.cordoned.items() if where[0] != node}
        self.departures.note(departure)

    def named(self, names: Iterable[str]) -> None:
        """Keep the labels or models that a command named, to translate their ids back."""
        for name in names:
            if len(self._labels) < NAMES_MAX:
                self._labels[name_id(name)] = name

    # --- queries ---------------------------------------------------------------------------------

    @staticmethod
    def user(record: Job | EndedJob | None) -> str:
        """Return the name of the record's user; empty for no record."""
        if record is None:
            return ""
        return record.user if isinstance(record, EndedJob) else record.owner.user

    def get(self, job: int, user: str | None = None) -> Job:
        """Return the job of this user, or any job if `user` is None; else NotFound."""
        record = self._jobs.get(job)
        if record is None or (user is not None and self.user(record) != user):
            why = self.removed(user).get(job)
            if not why and (found := self._of_array(job, user)) is not None:
                return found
            raise NotFound(f"job {job} was {why}" if why else f"there is no job {job}")
        return record if isinstance(record, Job) else _jobs.decode(_rows.decode(record.row).raw)

    def _of_array(self, job: int, user: str | None) -> Job | None:
        """Return a job of an array that has no record, as far as it is known."""
        array = self.arrays.of(job)
        if array is None or job in self._jobs or user not in (None, array.owner.user):
            return None
        place = job - array.first
        image, state = array.image, array.state(place)
        found = Job(job, image.owner, array.spec_at(place), image.submitted_ns, state, IN_ITS_ARRAY)
        if (end := array.ends.at(place)) is not None:
            found.reason = f"{end.reason}; {TIMES_NOT_KEPT}"
            found.exit_code, found.signal = end.exit_code, end.signal
        elif state != "pending":
            found.reason = array.why if state == "cancelled" and array.why else NOT_KEPT
        return found

    def removed(self, user: str | None) -> dict[int, str]:
        """Return jobs removed by request, of one user or of all, with the message for each."""
        if user is not None:
            return self._removed.get(user, {})
        return {job: why for kept in self._removed.values() for job, why in kept.items()}

    def key(self, job: int, attempt: int, task: int) -> TaskKey:
        """Return the identity of an attempt of the core; its `placing` is 0 if it is not known."""
        return TaskKey(job, attempt, task, self.placing(job, attempt) or 0)

    def placing(self, job: int, attempt: int) -> int | None:
        """Return the `placing` of an attempt (`TaskKey`); None if it is not known."""
        record = self._jobs.get(job)
        if isinstance(record, EndedJob):
            record = _jobs.decode(_rows.decode(record.row).raw)
        return record.placing(attempt) if record is not None else None

    def where(self, job: int) -> list[str]:
        """Return the nodes that have data of a job, including those of earlier attempts."""
        record = self._jobs.get(job)
        if record is None:
            return []
        if isinstance(record, EndedJob):
            record = _jobs.decode(_rows.decode(record.row).raw)
        decisions = (record.decision, *(each.decision for each in record.attempts))
        nodes = [d.node for d in decisions if d is not None]
        nodes += [rank.decision.node for rank in record.ranks]
        nodes += [node for each in record.attempts for node in each.nodes]
        return list(dict.fromkeys(nodes))

    def queue_name(self, queue: int) -> str:
        """Return the name of a queue."""
        return DEFAULT_QUEUE if queue == 0 else self.queues.get(queue, f"queue-{queue:x}")

    def level(self, number: int) -> str:
        """Return the key of labels with this id, or an empty string."""
        keys = map(label_key, self._labels.values())
        return next((key for key in keys if name_id(key) == number), "")

    def word(self, number: int) -> str:
        """Return the label, taint or model with this core id; empty if it was never named."""
        return self._labels.get(number, "")

    def room_for_names(self, names: Iterable[str]) -> bool:
        """Return True if there is room to keep all of these names."""
        new = {name_id(name) for name in names} - self._labels.keys()
        return len(self._labels) + len(new) <= NAMES_MAX

    def last(self, user: str) -> int:
        """Return the user's newest job that is not forgotten."""
        job = self._last.get(user)
        if job is None:
            raise NotFound(f"{user} has no job")
        return job

    def refer(self, reference: int | str, user: str, *, all_users: bool) -> Job:
        """Return one job by number or as "last"; with `all_users`, also one of another user."""
        if isinstance(reference, str):
            if reference == "last":
                return self.get(self.last(user))
            if not (reference.isascii() and reference.isdigit()) or len(reference) > 20:
                raise BadRequest(f"not a job: {reference[:80]!r}; a number or last")
            reference = int(reference)
        return self.get(reference, None if all_users else user)

    def newest(
        self,
        user: str | None,
        before: int | None = None,
        skip: Sequence[tuple[int, int]] = (),
        *,
        kept: bool = False,
    ) -> Iterator[tuple[int, JobState]]:
        """Yield (job, state), newest first, below `before`, of one user or of all.

        Numbers from the first to the last of one in `skip` are left out, and with `kept` jobs of
        arrays that have no record.
        """
        jobs = self._jobs if user is None else self.shares.of(user).jobs
        ordered = reversed(jobs) if self._in_order else iter(sorted(jobs, reverse=True))
        found: Iterator[tuple[int, JobState]] = ((job, self._jobs[job].state) for job in ordered)
        others = [
            each
            for each in self.arrays
            if user in (None, each.owner.user) and (each.first, each.last) not in skip
        ]
        if others and not kept:
            unkept = chain.from_iterable(map(self._unkept, reversed(others)))
            found = heapq.merge(found, unkept, reverse=True)
        for job, state in found:
            if before is not None and job >= before:
                continue
            if not skip or not any(low <= job <= high for low, high in skip):
                yield job, state

    def _unkept(self, array: JobArray) -> Iterator[tuple[int, JobState]]:
        """Yield (job, state) of the jobs of an array that have no record, the newest first."""
        for place in reversed(range(array.size)):
            if (job := array.first + place) not in self._jobs:
                yield job, array.state(place)

    def select(
        self, text: str, user: str | None, me: str, *, removed: bool = False
    ) -> Callable[[int], bool]:
        """Return a test for job numbers: "all", "last", "3", "1,4-6".

        NotFound if a named job is gone; with `removed`, a job that was removed by request is
        accepted.
        """
        ranges = self.ranges(text, user, me, removed=removed)
        return lambda job: any(low <= job <= high for low, high in ranges)

    def ranges(
        self, text: str, user: str | None, me: str, *, removed: bool = False
    ) -> list[tuple[float, float]]:
        """Return the selected numbers as ranges, both ends included; as `select` otherwise."""
        if len(text) > SELECTOR_CHARS_MAX or text.count(",") >= SELECTOR_PARTS_MAX:
            raise BadRequest(f"a selection has at most {SELECTOR_PARTS_MAX} parts")
        known = self.removed(user) if removed else {}
        return [self._range(part.strip(), user, me, known) for part in text.split(",")]

    def _range(
        self, part: str, user: str | None, me: str, known: Mapping[int, str]
    ) -> tuple[float, float]:
        if part == "all":
            return 1, float("inf")
        if part == "last":
            return (job := self.last(me)), job
        low, dash, high = part.partition("-")
        if not low.isdecimal() or not (high.isdecimal() if dash else True) or len(part) > 40:
            raise BadRequest(f"not a selection: {part[:80]!r}; 3, 1,4-6, last or all")
        if not dash:
            if int(low) not in known:
                self.get(int(low), user)
            return int(low), int(low)
        if int(low) > int(high):
            raise BadRequest(f"an empty range: {part}")
        return int(low), int(high)

    # --- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Return canonical bytes: equal books give equal bytes."""
        rows = [
            record.row if isinstance(record, EndedJob) else _encode_row(record)
            for record in self._jobs.values()
        ]
        joined = b"".join((_ARRAY32, len(rows).to_bytes(4, "big"), *rows))
        nodes = [self.nodes[name] for name in sorted(self.nodes)]
        names = [sorted(self.queues.items()), sorted(self._labels.values())]
        last, drained = sorted(self._last.items()), sorted(self.drained.items())
        cordoned = [(*where, why) for where, why in sorted(self.cordoned.items())]
        rows_of = msgspec.Raw(joined)
        removed = [(user, list(kept.items())) for user, kept in self._removed.items()]
        evicted = sorted(self.evicted.items())
        marks = (drained, cordoned, removed, evicted, list(self.departures))
        moves = (sorted(self.moves.items()), sorted(self.graces.items()))
        # No book below feature level 3 has any of these, and none below level 4 the last two.
        told = [*moves, self.arrays.images(), self.arrays.ranges.images(), self.arrays.ends()]
        while told and not told[-1] and (len(told) > 2 or not any(moves)):
            told.pop()
        return _encoder.encode((FORMAT, nodes, last, rows_of, *names, *marks, *told))

    @classmethod
    def restore(cls, data: bytes, cluster: str = "") -> Book:
        """Return the book of a cluster's snapshot; Corrupt if the bytes are not one."""
        try:
            image = _images.decode(data)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"the job book: {error}") from None
        if image.format != FORMAT:
            raise Corrupt(f"the job book has format {image.format}, this version reads {FORMAT}")
        book = cls(cluster)
        book.arrays = JobArrays(image.arrays, image.ranges, image.ends)
        names: dict[str, str] = {}  # one string per user, not one per job
        owners: dict[Owner, Owner] = {}
        for raw in image.rows:
            row = _rows.decode(raw)
            book._put(row, bytes(raw), names.setdefault(row.user, row.user), owners)
        book._last = dict(image.last)
        book.nodes = {report.node: report for report in image.nodes}
        book.queues, book.drained = dict(image.queues), dict(image.drained)
        book.cordoned = {(node, device): why for node, device, why in image.cordoned}
        book.named(image.labels)
        book._removed = {user: dict(kept) for user, kept in image.removed}
        book.evicted = dict(image.evicted)
        book.departures = Departures(image.departed)
        book.moves, book.graces = dict(image.moves), dict(image.graces)
        return book

    def _put(self, row: _Row, raw: bytes, user: str, owners: dict[Owner, Owner]) -> None:
        self.arrays.made(row.job)
        self._in_order &= row.job > self.newest_number
        self.newest_number = max(self.newest_number, row.job)
        if row.state in ENDED:
            self._jobs[row.job] = EndedJob(user, row.state, raw)
            self.shares.put(user, row.job, len(raw), ended=True)
            return
        record = _jobs.decode(row.raw)
        if record.master_port and record.decision is not None:
            self.ports.hold(record.decision.node, record.master_port, record.job)
        if record.ranks and record.state == "starting":
            self.gathering.add(record.job)
        record.owner = owners.setdefault(record.owner, record.owner)
        self._jobs[row.job] = record
        self.shares.put(user, row.job, len(record.spec), ended=False)


IN_ITS_ARRAY = "its turn in its array has not come"
TIMES_NOT_KEPT = "its node and times are no longer kept"
NOT_KEPT = "only its end is known: its record is no longer kept"
_ARRAY32 = b"\xdd"
"""The msgpack marker of an array with a length of four bytes."""


def _encode_row(record: Job) -> bytes:
    """Return the bytes of a `_Row`."""
    return _encoder.encode((record.job, record.owner.user, record.state, record))


def encode_spec(spec: JobSpec) -> bytes:
    """Return a spec as log and book keep it."""
    return _encoder.encode(spec)
