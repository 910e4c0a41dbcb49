# SPDX-License-Identifier: Apache-2.0
"""Replies that are held back until a job runs or is over: the only push that clients need.

Relied on by replica. Owns the bounds: so many at once, each until its deadline.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from stoker.native.errors import Refused
from stoker.scheduler.nouns import ENDED, JobState

WAITERS_MAX = 4096


class Waiter(NamedTuple):
    """Whom to answer, and when at the latest."""

    deadline_ns: int
    number: int
    job: int
    until: str
    token: Any


def reached(state: JobState, until: str) -> bool:
    """Whether a job in this state need not be waited for: "" never waits."""
    if until == "ended":
        return state in ENDED
    if until == "running":
        return state == "running" or state in ENDED
    return True


class Waiters:
    """All held replies, by job and by deadline."""

    def __init__(self) -> None:
        self._by_job: dict[int, list[Waiter]] = {}
        self._by_deadline: list[Waiter] = []
        self._numbers = 0
        self.count = 0

    def add(self, job: int, until: str, deadline_ns: int, token: Any) -> None:
        """Hold a reply; Refused when there are too many."""
        if self.count >= WAITERS_MAX:
            raise Refused(f"{WAITERS_MAX} requests are waiting for jobs, which is the limit")
        self._numbers += 1
        waiter = Waiter(deadline_ns, self._numbers, job, until, token)
        self._by_job.setdefault(job, []).append(waiter)
        heapq.heappush(self._by_deadline, waiter)
        self.count += 1
        if len(self._by_deadline) > 4 * WAITERS_MAX:  # most of it answered before its deadline
            self._by_deadline = [w for waiting in self._by_job.values() for w in waiting]
            heapq.heapify(self._by_deadline)

    def changed(self, job: int, state: JobState | None) -> list[Waiter]:
        """Those whose wait is over because of this state; None: the job is forgotten."""
        waiting = self._by_job.get(job)
        if waiting is None:
            return []
        over = [w for w in waiting if state is None or reached(state, w.until)]
        self._keep(job, [w for w in waiting if w not in over])
        self.count -= len(over)
        return over

    def expired(self, now_ns: int) -> list[Waiter]:
        """Those whose deadline has come."""
        over: list[Waiter] = []
        while self._by_deadline and self._by_deadline[0].deadline_ns <= now_ns:
            waiter = heapq.heappop(self._by_deadline)
            waiting = self._by_job.get(waiter.job, [])
            if waiter in waiting:
                self._keep(waiter.job, [w for w in waiting if w is not waiter])
                self.count -= 1
                over.append(waiter)
        return over

    def _keep(self, job: int, waiting: list[Waiter]) -> None:
        if waiting:
            self._by_job[job] = waiting
        else:
            self._by_job.pop(job, None)
