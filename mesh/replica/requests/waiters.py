# SPDX-License-Identifier: Apache-2.0
"""Replies that are held back until a job runs or is over.

Owns the bounds: the number of held replies of one user and of all users, and a deadline for each.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from stoker.mesh.broker.budgets import WAITERS_MAX, Budgets, Seats
from stoker.scheduler.nouns import ENDED, JobState


class Waiter(NamedTuple):
    """One held reply and its deadline."""

    deadline_ns: int
    number: int
    job: int
    until: str
    token: Any
    user: str = ""


def reached(state: JobState, until: str) -> bool:
    """Return True if a job in this state has come to `until`; the empty string never waits."""
    if until == "ended":
        return state in ENDED
    if until == "running":
        return state == "running" or state in ENDED
    return True


class Waiters:
    """All held replies, by job and by deadline."""

    def __init__(self, each: int = Budgets().waiters, limit: int = WAITERS_MAX) -> None:
        self._seats = Seats("waiters", "held requests", each, limit)
        self._by_job: dict[int, list[Waiter]] = {}
        self._by_deadline: list[Waiter] = []
        self._numbers = 0
        self.count = 0

    def add(self, job: int, until: str, deadline_ns: int, token: Any, user: str = "") -> None:
        """Hold a reply; Busy if there are too many. Without a user, no limit applies here."""
        if user:
            self._seats.take(user)
        self._numbers += 1
        waiter = Waiter(deadline_ns, self._numbers, job, until, token, user)
        self._by_job.setdefault(job, []).append(waiter)
        heapq.heappush(self._by_deadline, waiter)
        self.count += 1
        if len(self._by_deadline) > 4 * self._seats.limit:  # most are answered already
            self._by_deadline = [w for waiting in self._by_job.values() for w in waiting]
            heapq.heapify(self._by_deadline)

    def changed(self, job: int, state: JobState | None) -> list[Waiter]:
        """Remove and return those whose job has come to `state`; None if it is forgotten."""
        waiting = self._by_job.get(job)
        if waiting is None:
            return []
        over = [w for w in waiting if state is None or reached(state, w.until)]
        self._keep(job, [w for w in waiting if w not in over])
        for waiter in over:
            self._over(waiter)
        return over

    def expired(self, now_ns: int) -> list[Waiter]:
        """Remove and return those whose deadline has come."""
        over: list[Waiter] = []
        while self._by_deadline and self._by_deadline[0].deadline_ns <= now_ns:
            waiter = heapq.heappop(self._by_deadline)
            waiting = self._by_job.get(waiter.job, [])
            if waiter in waiting:
                self._keep(waiter.job, [w for w in waiting if w is not waiter])
                self._over(waiter)
                over.append(waiter)
        return over

    def take_all(self) -> list[Waiter]:
        """Remove and return all."""
        taken = [waiter for waiting in self._by_job.values() for waiter in waiting]
        self._by_job.clear()
        self._by_deadline.clear()
        for waiter in taken:
            self._over(waiter)
        return taken

    def _over(self, waiter: Waiter) -> None:
        self.count -= 1
        if waiter.user:
            self._seats.leave(waiter.user)

    def _keep(self, job: int, waiting: list[Waiter]) -> None:
        if waiting:
            self._by_job[job] = waiting
        else:
            self._by_job.pop(job, None)
