# SPDX-License-Identifier: Apache-2.0
"""The work that becomes new jobs: one job, or the next jobs of an array, as many as an entry takes.

The append pipeline asks each part of an array that is in the log for the next one. Guarantees that
one step packs at most PART_JOBS jobs, and that the keys of an array are those of its first part.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.log.entry import Blob, JobBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.open_array import WITHDRAWN, OpenArray
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import core_request
from stoker.mesh.replica.works.work import BATCH_BYTES_MAX, Fate, Work, refusal
from stoker.native.errors import NotFound, Refused, StokerError
from stoker.scheduler.book import encode_spec
from stoker.scheduler.nouns import JobSpec, Owner
from stoker.scheduler.reasons import Reason, sentence
from stoker.scheduler.wire_fields import Conditions

PART_JOBS = 256
"""The most jobs of an array in one entry."""
PART_BYTES = BATCH_BYTES_MAX // 2
"""The most bytes of a part after the first, so that each entry has room for what nodes say."""


class ArrayPlace(NamedTuple):
    """The place at which a part of an array begins."""

    first: int = 0
    """The number of the array's first job; 0 for the first part, which has none yet."""
    at: int = 0
    """The number of jobs before this part."""


class SubmitWork(Work):
    """The submit of a job, or of the jobs of an array from one place on.

    Those of one entry are taken together or not at all.
    """

    __slots__ = (
        "_part",
        "array",
        "bytes_left",
        "first_key",
        "jobs_left",
        "owner",
        "place",
        "queue",
        "specs",
    )

    def __init__(
        self,
        token: Any,
        owner: Owner,
        key: bytes,
        spec: JobSpec,
        *,
        array: tuple[int, ...] = (),
        models: tuple[str, ...] = (),
        conditions: Conditions = (),
        place: ArrayPlace = ArrayPlace(),  # noqa: B008
        mark: bytes = b"",
    ) -> None:
        same = partial(SubmitWork, owner=owner, key=b"", spec=spec, array=array)
        self._part = partial(same, models=models, conditions=conditions)
        self.owner, self.queue = owner, spec.queue
        self.array, self.place = array, place
        self.specs: list[bytes] = []
        self.first_key = b""
        """The idempotency key of the job, or of the first job of an array."""
        blob, mark = 64 + 5 * len(owner.groups), mark or mark_of(array)
        packed: list[bytes] = []
        room = PART_BYTES if place.at else BATCH_BYTES_MAX
        for own, own_key in core_request.expand(spec, key, array, place.at):
            raw = encode_spec(own)
            made = core_request.submit(
                owner, own_key, own, raw, models, conditions=conditions, mark=mark
            ).pack()
            room -= len(raw) + blob + len(made)
            if packed and (room < 0 or len(packed) == PART_JOBS):
                break
            self.specs.append(raw)
            packed.append(made)
            self.first_key = self.first_key or own_key
        super().__init__(token, (), 0)
        sizes = [len(raw) for raw in self.specs]
        self._set(packed, sum(sizes) + blob * len(sizes))
        self.jobs_left = max(len(array), 1) - place.at
        """The number of jobs from this part on."""
        self.bytes_left = sum(sizes) + (self.jobs_left - self.count) * max(sizes)
        """The bytes of the specs of these jobs, as far as they are known."""

    # --- parts of an array ------------------------------------------------------------------------

    @property
    def is_last(self) -> bool:
        """True for a single job and for the last part of an array."""
        return self.jobs_left == self.count

    def continues(self, known: OpenArray | None) -> bool:
        """Return True for the part that comes next in this array of the log."""
        if known is None or known.is_withdrawn:
            return False
        return self.place == (known.first, known.taken)

    def next_part(self, fates: list[Fate], applied: Applied) -> SubmitWork | None:
        """Return the next part of the array, if this one was taken and is not the last one."""
        if self.is_last or any(fate.command < 0 for fate in fates):
            return None
        job = applied.submitted.get(fates[0].command, 0)
        place = ArrayPlace(job - self.place.at, self.place.at + self.count)
        return self._part(token=None if self.answered else self.token, place=place) if job else None

    # --- fate -------------------------------------------------------------------------------------

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [
            JobBlob(fate.command, self.owner, msgspec.Raw(raw))
            for fate, raw in zip(fates, self.specs, strict=True)
            if fate.command >= 0
        ]

    def is_torn(self, fates: list[Fate]) -> bool:
        if len(fates) == 1:
            return False
        return 0 < sum(fate.rejected is not None for fate in fates) < len(fates)

    def why_torn(self, fates: list[Fate]) -> StokerError | None:
        rejected = [fate.rejected for fate in fates if fate.rejected is not None]
        if all(each.retry for each in rejected):
            return None
        counts = f"of {len(fates)} jobs {len(rejected)} cannot be taken"
        return self.refused(Refused(f"{counts}: {rejected[0].text()}"))

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        command, rejected = next(filter(_not_taken, fates), fates[0])
        if rejected is not None and rejected.reason == Reason.UNKNOWN_QUEUE:
            return self.refused(
                NotFound(f"there is no queue {self.queue!r}", hint="`stoker queue list` names them")
            )
        if rejected is not None and rejected.reason != Reason.DUPLICATE:
            return self.refused(refusal(rejected, state))
        job = rejected.job if rejected is not None else applied.submitted.get(command, 0)
        if not job:
            return self.refused(Refused(sentence(applied.ignored.get(command, Reason.NONE))))
        if rejected is not None and not self._is_whole(job, state):
            return Refused(
                f"this key was used for the array {job}-{job + len(self.array) - 1}, which could"
                " not be taken whole or is no longer kept",
                hint="its jobs that were taken are cancelled; submit it under another key",
            )
        return self._record(job, state)

    def refused(self, why: StokerError) -> StokerError:
        """Return why no more of this array is taken, and what becomes of the jobs before."""
        if not self.place.at:
            return why
        so_far = f"{self.place.at} of {len(self.array)} jobs were taken and are cancelled"
        return type(why)(f"{why.message}; {so_far}", hint=why.hint)

    def _is_whole(self, first: int, state: ReplicaState) -> bool:
        """Return True if the jobs that a repeat is about are all of the array."""
        if self.is_last:
            return True
        try:
            last = state.book.get(first + len(self.array) - 1, self.owner.user)
        except NotFound:
            return False
        spec = last.decoded_spec()
        return spec.array_size == len(self.array) == spec.array_place + 1

    def _record(self, job: int, state: ReplicaState) -> Any:
        """Return the array's first job, or the job itself if the first one is gone already."""
        for number in (job - self.place.at, job):
            try:
                return state.book.get(number)
            except NotFound:
                continue
        return Refused(f"this key was used for job {job}, which is no longer kept")


def withdrawn(work: SubmitWork) -> StokerError:
    """Return the answer to a part whose array was withdrawn meanwhile."""
    why = f"another scheduler leads or led, and {WITHDRAWN}"
    return work.refused(Refused(why, hint="submit it again"))


def mark_of(array: tuple[int, ...]) -> bytes:
    """Return what tells arrays apart that begin alike; nothing where the first entry does."""
    if len(array) <= PART_JOBS:
        return b""
    return hashlib.blake2b(msgspec.msgpack.encode(array), digest_size=16).digest()


def _not_taken(fate: Fate) -> bool:
    return fate.rejected is not None and fate.rejected.reason != Reason.DUPLICATE
