# SPDX-License-Identifier: Apache-2.0
"""What is asked of the log: kinds of work as requests to the core, and the nouns logged with them.

Relied on by replica, which gathers work into batches. Owns the way there and back: which command
came of which request, and what to answer when the batch is committed, refused or lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.command import NodeReply
from stoker.mesh.entry import (
    Blob,
    CancelBlob,
    Entry,
    JobBlob,
    NodeBlob,
    OutcomeBlob,
    SnapshotBlob,
)
from stoker.mesh.state import Applied, State, node_id
from stoker.native.errors import BadRequest, NotFound, Refused, StokerError
from stoker.scheduler import nouns, records
from stoker.scheduler.book import encode_spec
from stoker.scheduler.core import Proposal
from stoker.scheduler.effects import Rejected
from stoker.scheduler.nouns import ENDED, JobSpec, JobState, NodeReport, Owner
from stoker.scheduler.reasons import Reason, sentence

BATCH_BYTES_MAX = 208 * 1024
"""Requests and nouns of one entry; with 256 decisions and the envelope it stays below 256 KiB."""
_FULL = frozenset({Reason.JOBS_FULL, Reason.TASKS_FULL, Reason.NODES_FULL, Reason.DEVICES_FULL})


class Cancelled(NamedTuple):
    """What a cancel did to one job."""

    job: int
    state: JobState
    changed: bool


class Fate(NamedTuple):
    """What became of one request of a work."""

    command: int
    """Its position in the entry; -1 if it was rejected."""
    rejected: Rejected | None


class Work:
    """One thing to be committed. `token` is whom to answer, None for nobody."""

    __slots__ = ("answered", "count", "requests", "size", "token")

    def __init__(self, token: Any, requests: Sequence[records.Request], nouns_size: int) -> None:
        self.token = token
        self.answered = False
        self.requests = b"".join(request.pack() for request in requests)
        self.count = len(requests)
        self.size = len(self.requests) + nouns_size

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        """The nouns to log with the commands that came of this."""
        raise AssertionError(f"{type(self).__name__} logs nothing")

    def answer(self, fates: list[Fate], applied: Applied, state: State) -> Any:
        """The value or the StokerError for the token."""
        raise AssertionError(f"{type(self).__name__} answers nothing")


class SubmitWork(Work):
    """A job asks in."""

    __slots__ = ("owner", "spec")

    def __init__(self, token: Any, owner: Owner, key: bytes, spec: JobSpec) -> None:
        self.owner = owner
        self.spec = encode_spec(spec)
        request = records.Submit(
            client=_hash64(owner.user.encode()),
            key=key,
            spec_hash=_hash64(self.spec),
            uid=owner.uid,
            priority=spec.priority,
            gpu_milli=spec.gpu_milli,
            cpu_milli=spec.cpu_milli or 0,
            memory_bytes=spec.memory_bytes or 0,
        )
        super().__init__(token, (request,), len(self.spec) + 64 + 5 * len(owner.groups))

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        if fates[0].command < 0:
            return []
        return [JobBlob(fates[0].command, self.owner, msgspec.Raw(self.spec))]

    def answer(self, fates: list[Fate], applied: Applied, state: State) -> Any:
        command, rejected = fates[0]
        if rejected is not None and rejected.reason != Reason.DUPLICATE:
            return _refusal(rejected)
        job = rejected.job if rejected is not None else applied.submitted.get(command, 0)
        if not job:
            return Refused(sentence(applied.ignored.get(command, Reason.NONE)))
        try:
            return state.book.get(job)
        except NotFound:
            return Refused(f"this key was used for job {job}, which is no longer kept")


class CancelWork(Work):
    """Stop jobs. `selected` are all that the answer speaks of, `jobs` those not over when asked."""

    __slots__ = ("jobs", "reason", "selected")

    def __init__(self, token: Any, jobs: list[int], selected: list[int], reason: str) -> None:
        self.jobs = jobs
        self.selected = selected
        self.reason = reason
        requests = [records.Cancel(job) for job in jobs]
        super().__init__(token, requests, len(jobs) * (16 + len(reason.encode())))

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        if not self.reason:
            return []
        return [CancelBlob(fate.command, self.reason) for fate in fates if fate.command >= 0]

    def answer(self, fates: list[Fate], applied: Applied, state: State) -> Any:
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


class OutcomeWork(Work):
    """What a node says became of its commands."""

    __slots__ = ("outcomes",)

    def __init__(self, token: Any, node: str, outcomes: Sequence[nouns.Outcome]) -> None:
        self.outcomes = outcomes
        number = node_id(node)
        requests = [
            records.Outcome(
                job=o.job,
                attempt=o.attempt,
                node=number,
                state=records.STATE_CODES[o.state],
                exit_code=o.exit_code,
                signal=o.signal,
            )
            for o in outcomes
        ]
        super().__init__(token, requests, sum(96 + len(o.reason.encode()) for o in outcomes))

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        return [
            OutcomeBlob(fate.command, outcome)
            for fate, outcome in zip(fates, self.outcomes, strict=True)
            if fate.command >= 0
        ]

    def answer(self, fates: list[Fate], applied: Applied, state: State) -> Any:
        # What cannot be taken will not be taken later either, so the node must not send it again.
        wrong = [fate.rejected for fate in fates if fate.rejected and not fate.rejected.benign]
        return NodeReply(True, message="; ".join(r.text() for r in wrong[:8]))


class HelloWork(Work):
    """A node says what it is."""

    __slots__ = ("report",)

    def __init__(self, token: Any, report: NodeReport) -> None:
        self.report = report
        super().__init__(token, _node_requests(report), len(msgspec.msgpack.encode(report)))

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        up = fates[0]
        taken = up.rejected is None or up.rejected.reason == Reason.UNCHANGED
        if not taken or state.book.nodes.get(self.report.node) == self.report:
            return []
        return [NodeBlob(self.report)]

    def answer(self, fates: list[Fate], applied: Applied, state: State) -> Any:
        wrong = [fate.rejected for fate in fates if fate.rejected and not fate.rejected.benign]
        if wrong:
            return NodeReply(False, "refused", "; ".join(r.text() for r in wrong[:8]))
        return NodeReply(True)


class ForgetWork(Work):
    """Drop ended jobs before their number is up, because they take too many bytes."""

    __slots__ = ()

    def __init__(self, jobs: list[int]) -> None:
        super().__init__(None, [records.Forget(job) for job in jobs], 0)

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        return []


class TermWork(Work):
    """Take the lead."""

    __slots__ = ("term",)

    def __init__(self, term: int, leader: int) -> None:
        self.term = term
        super().__init__(None, [records.Term(term, leader)], 0)

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        return []


class SnapshotWork(Work):
    """Record that a snapshot is durable."""

    __slots__ = ("blob",)

    def __init__(self, seq: int, digest: bytes) -> None:
        self.blob = SnapshotBlob(seq, digest)
        super().__init__(None, (), 64)

    def blobs(self, fates: list[Fate], state: State) -> list[Blob]:
        return [self.blob]


class Batch:
    """Works that share one entry, and the fate of their requests."""

    def __init__(self, works: list[Work]) -> None:
        self.works = works
        self.commands = b""
        self.more = False
        self.fates: list[list[Fate]] = []
        self.retry = False

    @property
    def requests(self) -> bytes:
        """All requests, in the order of the works."""
        return b"".join(work.requests for work in self.works)

    def decided(self, proposal: Proposal) -> None:
        """Note what the core made of the requests: what it took became commands in their order."""
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

    def blobs(self, state: State) -> tuple[Blob, ...]:
        """The nouns of all works."""
        pairs = zip(self.works, self.fates, strict=True)
        return tuple(blob for work, fates in pairs for blob in work.blobs(fates, state))

    def to_repeat(self) -> list[Work]:
        """Works of which a request did not fit into this batch; repeating the rest is harmless."""
        return [
            work
            for work, fates in zip(self.works, self.fates, strict=True)
            if any(fate.rejected is not None and fate.rejected.retry for fate in fates)
        ]


class InFlight(NamedTuple):
    """An entry that was sent and is not known to be in the log or not."""

    entry: Entry
    hash: bytes
    batch: Batch
    size: int


def _refusal(rejected: Rejected) -> StokerError:
    kind = Refused if rejected.reason in _FULL else BadRequest
    return kind(rejected.text())


def _node_requests(report: NodeReport) -> list[records.Request]:
    number = node_id(report.node)
    up = records.NodeUp(
        number,
        _hash64(report.boot_id.encode()),
        report.incarnation,
        report.cpu_milli,
        report.memory_bytes,
        len(report.devices),
    )
    devices = [
        records.DeviceSet(
            number,
            index,
            memory_bytes=device.memory_bytes or 0,
            available=not device.unavailable,
        )
        for index, device in enumerate(report.devices)
    ]
    return [up, *devices]


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
