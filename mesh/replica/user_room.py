# SPDX-License-Identifier: Apache-2.0
"""Whether a user's jobs still fit: what the book has of theirs, and what is on its way there.

The replica asks before it takes a submit. Owns that one user's waiting jobs leave room for those of
others, and that a submit which only repeats an earlier one is not refused for want of room.
"""

from __future__ import annotations

from collections import Counter

from stoker.mesh.broker.budgets import SPEC_BYTES_MAX, Budgets, refused
from stoker.mesh.replica.work import ForgetWork, SubmitWork, Work
from stoker.native.errors import Refused
from stoker.scheduler.book import Book
from stoker.scheduler.figures import size as size_of
from stoker.scheduler.records import BATCH_REQUESTS_MAX

ENDED_BYTES_KEPT = 128 << 20
"""Past it ended jobs are forgotten before their number is up, of whoever has most."""


class UserRoom:
    """Reads the book; what is on its way is told by `enter` and `leave`."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._jobs: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def refusal(self, work: SubmitWork, book: Book) -> Refused | None:
        """Why these jobs do not fit; None if they do."""
        user, budgets = work.owner.user, self._budgets
        share = book.shares.of(user)
        size = sum(map(len, work.specs))
        if share.live + self._jobs[user] + work.count > budgets.pending_jobs:
            return refused(user, "pending_jobs", budgets.pending_jobs, "jobs that are not over")
        if share.live_bytes + self._bytes[user] + size > budgets.spec_bytes:
            what = "of requests of jobs that are not over"
            return refused(user, "spec_bytes", size_of(budgets.spec_bytes), what)
        if book.shares.live_bytes + self._bytes.total() + size > SPEC_BYTES_MAX:
            return Refused(
                f"the jobs of all users take {size_of(SPEC_BYTES_MAX)}, which is the limit",
                hint="wait until jobs are over",
            )
        return None

    def enter(self, work: Work) -> None:
        """This work waits for the log."""
        if isinstance(work, SubmitWork):
            self._jobs[work.owner.user] += work.count
            self._bytes[work.owner.user] += sum(map(len, work.specs))

    def leave(self, work: Work) -> None:
        """It was answered: what came of it is in the book."""
        if isinstance(work, SubmitWork):
            user = work.owner.user
            self._jobs[user] -= work.count
            self._bytes[user] -= sum(map(len, work.specs))
            if not self._jobs[user]:
                del self._jobs[user], self._bytes[user]


def to_forget(book: Book, ended_kept: int) -> ForgetWork | None:
    """Ended jobs that are more than can be kept, as many as one entry takes."""
    jobs = book.shares.excess(ended_kept, ENDED_BYTES_KEPT, BATCH_REQUESTS_MAX)
    return ForgetWork(jobs) if jobs else None
