# SPDX-License-Identifier: Apache-2.0
"""The queue of outcomes that a node must send: one batch is on its way, the others wait and merge.

At most one outcome per attempt waits, because an attempt's end replaces its start; so the attempts
of the core bound the queue. A start waits HOLD_S for that, so that a short job is one outcome, one
entry of the log and one answer. The queue drops no outcome on its own.
"""

from __future__ import annotations

from stoker.scheduler.nouns import Outcome, TaskKey

BATCH_MAX = 512
"""Outcomes in one request; with reasons of 200 bytes it is far below the broker's max_payload."""
HOLD_S = 0.01
"""Seconds for which the start of an attempt waits for its end; nothing is decided by a start."""


class OutcomeQueue:
    """Queue and retry. Times are on the clock of the core."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s, self._max_s = first_s, max_s
        self._waiting: dict[TaskKey, Outcome] = {}
        self._begun: dict[TaskKey, tuple[float, Outcome]] = {}
        """Attempt -> the time at which its start is sent, and the start; in order of time."""
        self._sent: tuple[Outcome, ...] = ()
        self.number = 0
        """Number of the batch on its way, or of the last one."""
        self._limit = BATCH_MAX
        self._wait = first_s
        self._retry: float | None = None
        """The time to try again after a failure; None if the next batch may go at once."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._begun) + len(self._sent)

    @property
    def due(self) -> float | None:
        """The time at which there is something to send; None if nothing waits for a time."""
        if self._sent or self._retry is not None:
            return self._retry
        first = next(iter(self._begun.values()), None)
        return first[0] if first is not None else None

    def begin(self, outcome: Outcome, now_s: float) -> None:
        """Queue the start of an attempt, which is sent after HOLD_S unless the end replaces it."""
        self._begun[outcome.key] = (now_s + HOLD_S, outcome)

    def put(self, outcome: Outcome) -> None:
        """Queue an end; it replaces a waiting start of the same attempt."""
        self._begun.pop(outcome.key, None)
        self._waiting[outcome.key] = outcome

    def _release(self, now_s: float) -> None:
        """Let the starts go that have waited long enough."""
        while (first := next(iter(self._begun), None)) is not None:
            due, outcome = self._begun[first]
            if due > now_s:
                return
            del self._begun[first]
            self._waiting[first] = outcome

    def take(self, now_s: float) -> tuple[Outcome, ...]:
        """Return the next batch to send, empty while one is on its way or a retry is not due."""
        self._release(now_s)
        late = self._retry is None or self._retry <= now_s
        if self._sent or not self._waiting or not late:
            return ()
        self._retry = None
        keys = list(self._waiting)[: self._limit]
        self._sent = tuple(self._waiting.pop(key) for key in keys)
        self.number += 1
        return self._sent

    def committed(self, number: int) -> tuple[Outcome, ...]:
        """Return the batch, which the log has; empty if it is no longer the one on its way."""
        if number != self.number or not self._sent:
            return ()
        done, self._sent = self._sent, ()
        self._wait, self._limit, self._retry = self._first_s, BATCH_MAX, None
        return done

    def refused(self, number: int, code: str, now_s: float) -> tuple[Outcome, ...]:
        """Put a failed batch back for another try.

        A batch that the scheduler calls wrong is halved until the wrong outcome stands alone; that
        one is returned and not sent again, because it would block every outcome after it.
        """
        if number != self.number or not self._sent:
            return ()
        batch, self._sent = self._sent, ()
        self._retry = now_s + self._wait
        self._wait = min(self._wait * 2, self._max_s)
        if code == "bad_request":
            if len(batch) == 1:
                self._limit, self._retry = BATCH_MAX, None
                return batch
            self._limit = max(1, len(batch) // 2)
            self._retry = now_s
        # An outcome that was queued meanwhile is newer than the batch's.
        returned = {outcome.key: outcome for outcome in batch}
        self._waiting = returned | self._waiting
        return ()

    def retry(self, now_s: float) -> None:
        """Send again at once: the connection is new and no answer to an earlier batch will come."""
        if self._sent:
            self.refused(self.number, "", now_s)
        self._wait, self._retry = self._first_s, None
