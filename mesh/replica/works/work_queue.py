# SPDX-License-Identifier: Apache-2.0
"""The queue of works for the next log entry: first in, first out, bounded in number and bytes.

Owns the order: work that is put back comes before all later work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from stoker.mesh.replica.open_array import WITHDRAWN, OpenArray
from stoker.mesh.replica.works.array_cancel import ArrayCancelWork
from stoker.mesh.replica.works.array_next import ArrayNextWork
from stoker.mesh.replica.works.node_eviction import NodeEvictionWork
from stoker.mesh.replica.works.node_removal import NodeRemovalWork
from stoker.mesh.replica.works.range_end_work import RangeEndWork
from stoker.mesh.replica.works.roster_work import RosterWork
from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.work import (
    BATCH_BYTES_MAX,
    AdminWork,
    CancelWork,
    ForgetWork,
    RemoveWork,
    TermWork,
    Work,
)
from stoker.native.errors import Refused
from stoker.scheduler.records import BATCH_REQUESTS_MAX

QUEUE_MAX = 8192
USERS = (
    SubmitWork,
    CancelWork,
    ArrayCancelWork,
    RemoveWork,
    AdminWork,
    NodeEvictionWork,
    NodeRemovalWork,
    RosterWork,
)
"""The kinds of work that a user waits for."""
OWN = (ForgetWork, ArrayNextWork, RangeEndWork)
"""The kinds of work that a leader has of itself after each entry."""
QUEUE_BYTES_MAX = 64 << 20
QUEUE_NS = 10_000_000_000
"""A user's work that was not decided within this time is refused, for its user may have given up
waiting and must be able to know that nothing will happen."""


class WorkQueue:
    """The works that are in no entry yet."""

    def __init__(self) -> None:
        self._works: deque[Work] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._works)

    def __iter__(self) -> Iterator[Work]:
        return iter(self._works)

    @property
    def has_own(self) -> bool:
        """True if the next entry will have what the leader has to do of itself."""
        return bool(self._works) and isinstance(self._works[0], OWN)

    def goes_on(self, known: OpenArray) -> bool:
        """Return True if the next part of this array is queued, or the cancel of its jobs."""
        return any(
            (isinstance(work, SubmitWork) and work.continues(known))
            or (isinstance(work, CancelWork) and (work.user, work.reason) == ("", WITHDRAWN))
            for work in self._works
        )

    def no_room(self, work: Work) -> Refused | None:
        """Return why this work cannot be queued, or None."""
        if work.size > BATCH_BYTES_MAX or work.count > BATCH_REQUESTS_MAX:
            return Refused(f"{work.size} bytes do not fit into one log entry")
        if len(self._works) >= QUEUE_MAX or self._bytes + work.size > QUEUE_BYTES_MAX:
            return Refused(f"{len(self._works)} requests are queued, which is the limit")
        return None

    def push(self, work: Work, now_ns: int = 0) -> None:
        """Queue a work last; call `no_room` first."""
        work.queued_ns = now_ns
        self._works.append(work)
        self._bytes += work.size

    def put_back(self, works: list[Work]) -> None:
        """Queue unanswered works first, in their order; TERM entries are made again when needed."""
        for work in reversed(works):
            if not work.answered and not isinstance(work, TermWork):
                self._works.appendleft(work)
                self._bytes += work.size

    def take(self, alone: int = 0) -> list[Work]:
        """Take as many works as fit into one entry, or one with `alone`.

        Behind a part of an array no other jobs are taken, since its jobs are numbered in a row.
        """
        taken: list[Work] = []
        passed: list[Work] = []
        soles: set[str] = set()
        is_array_open = False
        size = count = 0
        while self._works:
            work = self._works[0]
            if is_array_open and isinstance(work, SubmitWork):
                passed.append(self._works.popleft())
                continue
            size += work.size
            count += work.count
            if taken and (alone or size > BATCH_BYTES_MAX or count > BATCH_REQUESTS_MAX):
                break
            if work.sole:
                if work.sole in soles:  # the second one must see what the first one decided
                    break
                soles.add(work.sole)
            is_array_open |= isinstance(work, SubmitWork) and not work.is_last
            taken.append(self._works.popleft())
            self._bytes -= work.size
        self._works.extendleft(reversed(passed))
        return taken

    def take_late(self, now_ns: int) -> list[Work]:
        """Take the works of users that have been queued for QUEUE_NS."""
        if not self._works or now_ns - self._works[0].queued_ns < QUEUE_NS:
            return []
        return self.take_users(now_ns - QUEUE_NS)

    def take_users(self, until_ns: int = 1 << 63) -> list[Work]:
        """Take all works of users that were queued until then; those of nodes stay."""

        def fits(work: Work) -> bool:
            return isinstance(work, USERS) and work.queued_ns <= until_ns

        users = [work for work in self._works if fits(work)]
        self._works = deque(work for work in self._works if not fits(work))
        self._bytes = sum(work.size for work in self._works)
        return users

    def clear(self) -> None:
        """Remove all works."""
        self._works.clear()
        self._bytes = 0
