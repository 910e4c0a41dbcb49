# SPDX-License-Identifier: Apache-2.0
"""The room for a user's jobs: those in the book, and those on their way into the log.

Guarantees that one user's jobs leave room for those of other users.
"""

from __future__ import annotations

from collections import Counter

from stoker.mesh.broker.budgets import SPEC_BYTES_MAX, Budgets, refused
from stoker.mesh.replica.works.array_work import ArrayWork
from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.work import ForgetWork, Work
from stoker.native.errors import Refused
from stoker.scheduler.book import Book
from stoker.scheduler.core import Limits
from stoker.scheduler.figures import size as size_of
from stoker.scheduler.records import BATCH_REQUESTS_MAX

ENDED_BYTES_KEPT = 128 << 20
"""Above this, ended jobs of the user with most bytes are forgotten, even if their number is
allowed."""


class UserRoom:
    """The jobs and bytes of submits that are on their way; the book has the others."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._jobs: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()
        """The jobs of arrays that have one record."""
        self._bytes: Counter[str] = Counter()
        self._keys: Counter[tuple[str, bytes]] = Counter()
        """The keys of these submits: a repeat takes no room, also while the first is on its way."""

    def refusal(self, work: SubmitWork, book: Book, jobs_most: int) -> Refused | None:
        """Return why these jobs do not fit, or None if they do.

        An array of several entries must fit into the table of `jobs_most` jobs from the first on.
        """
        user, budgets = work.owner.user, self._budgets
        if (user, work.first_key) in self._keys:
            return None
        share = book.shares.of(user)
        if isinstance(work, ArrayWork) and (no_room := self._no_array(work, book)) is not None:
            return no_room
        size = work.bytes_left
        if share.live + self._jobs[user] + work.jobs_left > budgets.pending_jobs:
            return refused(user, "pending_jobs", budgets.pending_jobs, "jobs that are not over")
        if share.live_bytes + self._bytes[user] + size > budgets.spec_bytes:
            what = "of requests of jobs that are not over"
            return refused(user, "spec_bytes", size_of(budgets.spec_bytes), what)
        if book.shares.live_bytes + self._bytes.total() + size > SPEC_BYTES_MAX:
            return Refused(
                f"the jobs of all users take {size_of(SPEC_BYTES_MAX)}, which is the limit",
                hint="wait until jobs are over",
            )
        return _no_place(work, jobs_most - (len(book) - book.shares.ended))

    def _no_array(self, work: ArrayWork, book: Book) -> Refused | None:
        """Return why the jobs of an array of one record are too many, or None."""
        user, most = work.owner.user, self._budgets.array_jobs
        if book.arrays.tasks(user) + self._tasks[user] + work.tasks <= most:
            return None
        return refused(user, "array_jobs", most, "jobs of large arrays that are not over")

    def enter(self, work: Work) -> None:
        """Count a work that is on its way into the log."""
        if isinstance(work, SubmitWork):
            if work.first_key:
                self._keys[work.owner.user, work.first_key] += 1
            self._jobs[work.owner.user] += work.jobs_left
            self._tasks[work.owner.user] += work.tasks if isinstance(work, ArrayWork) else 0
            self._bytes[work.owner.user] += work.bytes_left

    def leave(self, work: Work) -> None:
        """Subtract an answered work, whose jobs the book has."""
        if isinstance(work, SubmitWork):
            user = work.owner.user
            self._tasks[user] -= work.tasks if isinstance(work, ArrayWork) else 0
            self._jobs[user] -= work.jobs_left
            self._bytes[user] -= work.bytes_left
            if not self._jobs[user]:
                del self._jobs[user], self._bytes[user], self._tasks[user]
            if work.first_key:
                self._keys[user, work.first_key] -= 1
                if not self._keys[user, work.first_key]:
                    del self._keys[user, work.first_key]


def _no_place(work: SubmitWork, room: int) -> Refused | None:
    """Return why the table of jobs, which has room for so many, cannot take these; or None."""
    if work.jobs_left <= max(room, work.count):
        return None
    return Refused(
        f"the array has {work.jobs_left} jobs, and the cluster has room for {room} more",
        hint="wait until jobs are over, or submit a smaller array; an administrator can raise the"
        " limit `jobs`",
    )


def to_forget(book: Book, limits: Limits) -> ForgetWork | None:
    """Return work that forgets ended jobs beyond the limits, as many as one entry takes.

    Fewer are kept than the core has room for, so that the leader, which knows the jobs' users,
    chooses which to forget before the core drops the oldest.
    """
    kept = limits.finished * 2 // 3
    jobs = book.shares.excess(kept, ENDED_BYTES_KEPT, BATCH_REQUESTS_MAX)
    return ForgetWork(jobs) if jobs else None
