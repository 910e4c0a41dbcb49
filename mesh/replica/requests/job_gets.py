# SPDX-License-Identifier: Apache-2.0
"""The answers to Get events: at once, at the requested state of the job, or at the deadline.

Guarantees that each Get is answered exactly once.
"""

from __future__ import annotations

from stoker.mesh.replica import events
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.requests.waiters import Waiters, reached
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import NotFound, StokerError
from stoker.scheduler.book import Job


class JobGets:
    """The Gets of one replica."""

    def __init__(self, state: ReplicaState, waiters: Waiters, outbox: Outbox) -> None:
        self._state = state
        self._waiters = waiters
        self._outbox = outbox

    def get(self, event: events.Get, now_ns: int) -> None:
        """Answer now or hold the reply; NotFound, or Busy when too many are held."""
        job = self._state.book.get(event.job)
        if reached(job.state, event.until) or event.deadline_ns <= now_ns:
            self._outbox.reply(event.token, job)
        else:
            self._waiters.add(event.job, event.until, event.deadline_ns, event.token, event.user)

    def applied(self, applied: Applied) -> None:
        """Answer the Gets whose job has come to the requested state."""
        if not self._waiters.count:
            return
        for number in applied.changed:
            job = self._find(number)
            for waiter in self._waiters.changed(number, job.state if job else None):
                self._outbox.reply(waiter.token, job or _unknown(number))

    def expire(self, now_ns: int) -> None:
        """Answer the Gets whose deadline has come; `now_ns` is CLOCK_BOOTTIME."""
        for waiter in self._waiters.expired(now_ns):
            self._outbox.reply(waiter.token, self._find(waiter.job) or _unknown(waiter.job))

    def give_up(self, why: StokerError) -> None:
        """Answer all held Gets with `why`."""
        for waiter in self._waiters.take_all():
            self._outbox.reply(waiter.token, why)

    def _find(self, job: int) -> Job | None:
        try:
            return self._state.book.get(job)
        except NotFound:
            return None


def _unknown(job: int) -> NotFound:
    return NotFound(f"there is no job {job}")
