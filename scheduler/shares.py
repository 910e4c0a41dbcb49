# SPDX-License-Identifier: Apache-2.0
"""Each user's share of the job book, and the choice of ended jobs to forget when it is full.

The book updates it with every job it adds, ends and drops. Pure; it follows from the jobs alone.
Guarantees that the user with most loses jobs first: a user with at most an equal part of what is
kept loses nothing to another.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator


class UserShare:
    """One user's jobs, in the order in which they were submitted."""

    __slots__ = ("ended", "ended_bytes", "jobs", "live_bytes")

    def __init__(self) -> None:
        self.jobs: dict[int, int] = {}
        """The bytes of the record of each ended job by number; -1 for live jobs."""
        self.ended = 0
        self.ended_bytes = 0
        self.live_bytes = 0

    @property
    def live(self) -> int:
        """The number of jobs that are not over."""
        return len(self.jobs) - self.ended

    def oldest_ended(self) -> Iterator[tuple[int, int]]:
        """Yield (job, bytes) of ended jobs, in the order of their submits."""
        return ((job, size) for job, size in self.jobs.items() if size >= 0)


class UserShares:
    """All users' shares, and their sums."""

    def __init__(self) -> None:
        self._of: dict[str, UserShare] = {}
        self.ended = 0
        self.ended_bytes = 0
        self.live_bytes = 0

    def of(self, user: str) -> UserShare:
        """Return one user's share; an empty one, which is not kept, for a user without jobs."""
        return self._of.get(user) or UserShare()

    def put(self, user: str, job: int, size: int, *, ended: bool) -> None:
        """Count a job of `size` bytes that was added to the book or restored into it."""
        share = self._of.setdefault(user, UserShare())
        share.jobs[job] = size if ended else -1
        self._add(share, size, 1 if ended else 0)

    def end(self, user: str, job: int, size: int, spec_size: int) -> None:
        """Count an ended job: a record of `size` bytes replaces its spec of `spec_size` bytes."""
        share = self._of[user]
        self._add(share, -spec_size, 0)
        share.jobs[job] = size
        self._add(share, size, 1)

    def drop(self, user: str, job: int, size: int) -> None:
        """Subtract a forgotten job; `size` is as in `put`."""
        share = self._of[user]
        ended = share.jobs.pop(job) >= 0
        self._add(share, -size, -1 if ended else 0)
        if not share.jobs:
            del self._of[user]

    def _add(self, share: UserShare, size: int, ended: int) -> None:
        """Add to a share and the sums; `ended` is the change in ended jobs, 0 for live bytes."""
        if ended:
            share.ended += ended
            self.ended += ended
            share.ended_bytes += size
            self.ended_bytes += size
        else:
            share.live_bytes += size
            self.live_bytes += size

    def excess(self, jobs_kept: int, bytes_kept: int, most: int) -> list[int]:
        """Return the ended jobs to forget so that at most this many jobs and bytes are left.

        At most `most` are returned: the oldest jobs of the user who has most of what is short.
        """
        found = self._take(self.ended - jobs_kept, most, lambda share: share.ended, _one)
        if found:
            return found
        return self._take(
            self.ended_bytes - bytes_kept, most, lambda share: share.ended_bytes, _size
        )

    def _take(
        self, excess: int, most: int, has: Callable[[UserShare], int], worth: Callable[[int], int]
    ) -> list[int]:
        if excess <= 0:
            return []
        row = [(-has(share), user) for user, share in self._of.items() if share.ended]
        heapq.heapify(row)
        oldest = {user: self._of[user].oldest_ended() for _, user in row}
        found: list[int] = []
        while excess > 0 and len(found) < most and row:
            most_of_all, user = heapq.heappop(row)
            job, size = next(oldest[user], (0, 0))
            if job:
                found.append(job)
                excess -= worth(size)
                heapq.heappush(row, (most_of_all + worth(size), user))
        return found


def _one(size: int) -> int:
    return 1


def _size(size: int) -> int:
    return size
