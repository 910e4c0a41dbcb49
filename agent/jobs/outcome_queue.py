# SPDX-License-Identifier: Apache-2.0
"""The queue of outcomes that a node must send: one batch is on its way, the others wait and merge.

At most one outcome per attempt waits, because an attempt's end replaces its start; so the attempts
of the core bound the queue. It drops no outcome on its own.
"""

from __future__ import annotations

from stoker.scheduler.nouns import Outcome, TaskKey

BATCH_MAX = 512
"""Outcomes in one request; with reasons of 200 bytes it is far below the broker's max_payload."""


class OutcomeQueue:
    """Queue and retry. Times are on the clock of the core."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self._waiting: dict[TaskKey, Outcome] = {}
        self._sent: tuple[Outcome, ...] = ()
        self.number = 0
        """Number of the batch on its way, or of the last one."""
        self._limit = BATCH_MAX
        self._wait = first_s
        self.due: float | None = None
        """The time to try again after a failure; None if the next batch may go at once."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    def put(self, outcome: Outcome) -> None:
        """Queue an outcome; it replaces a waiting one of the same attempt."""
        self._waiting[outcome.key] = outcome

    def take(self, now_s: float) -> tuple[Outcome, ...]:
        """Return the next batch to send, empty while one is on its way or a retry is not due."""
        if self._sent or not self._waiting or (self.due is not None and self.due > now_s):
            return ()
        self.due = None
        keys = list(self._waiting)[: self._limit]
        self._sent = tuple(self._waiting.pop(key) for key in keys)
        self.number += 1
        return self._sent

    def committed(self, number: int) -> tuple[Outcome, ...]:
        """Return the batch, which the log has; empty if it is no longer the one on its way."""
        if number != self.number or not self._sent:
            return ()
        done, self._sent = self._sent, ()
        self._wait, self._limit, self.due = self._first_s, BATCH_MAX, None
        return done

    def refused(self, number: int, code: str, now_s: float) -> tuple[Outcome, ...]:
        """Put a failed batch back for another try.

        A batch that the scheduler calls wrong is halved until the wrong outcome stands alone; that
        one is returned and not sent again, because it would block every outcome after it.
        """
        if number != self.number or not self._sent:
            return ()
        batch, self._sent = self._sent, ()
        self.due = now_s + self._wait
        self._wait = min(self._wait * 2, self._max_s)
        if code == "bad_request":
            if len(batch) == 1:
                self._limit, self.due = BATCH_MAX, None
                return batch
            self._limit = max(1, len(batch) // 2)
            self.due = now_s
        # An outcome that was queued meanwhile is newer than the batch's.
        returned = {outcome.key: outcome for outcome in batch}
        self._waiting = returned | self._waiting
        return ()

    def retry(self, now_s: float) -> None:
        """Send again at once: the connection is new and no answer to an earlier batch will come."""
        if self._sent:
            self.refused(self.number, "", now_s)
        self._wait, self.due = self._first_s, None
