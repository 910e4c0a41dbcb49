# SPDX-License-Identifier: Apache-2.0
"""Every attempt at this node, from its start to the moment the log knows its end.

Owns the invariants that one (job, attempt) is started at most once, also when the same start
arrives again after its end, and that an outcome is told until the log has it. Grows to ATTEMPTS_MAX
attempts and ENDED_KEPT names, no further.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import msgspec

from stoker.agent.jobs import steps
from stoker.agent.jobs.outcome_queue import OutcomeQueue
from stoker.agent.jobs.steps import Effect, Key
from stoker.mesh.wire.command import HAVE_MAX
from stoker.scheduler.nouns import Action, Outcome, StartJob, StopJob

ATTEMPTS_MAX = HAVE_MAX
"""Attempts whose end is not in the log yet; a start beyond them is refused."""
ENDED_KEPT = 65_536
"""Ended attempts remembered, so that a start which arrives late and again is not a second one."""
SETTLE_S = 15.0
"""Longest an outcome waits for its trace."""

UNKNOWN = "the scheduler does not know this job"
MISSING = "this node has no record of this attempt"
VANISHED = "the spawner has no record of this attempt any more"


class AttemptPhase(Enum):
    SENT = "sent"  # given to the spawner, not yet taken
    TAKEN = "taken"  # the spawner has it durably
    RUNNING = "running"
    SETTLING = "settling"  # over; its trace is being written
    ENDED = "ended"  # over; its outcome is being told


OVER = (AttemptPhase.SETTLING, AttemptPhase.ENDED)


@dataclass(slots=True)
class _Attempt:
    decision: int
    phase: AttemptPhase = AttemptPhase.SENT
    stop: StopJob | None = None
    outcome: Outcome | None = None
    settle_by: float = 0.0
    forget: bool = False
    """Its folder is to go as soon as the log has its end."""

    @property
    def faulted(self) -> bool:
        """Whether it is being ended because of a device."""
        return self.stop is not None and self.stop.state == "failed"


class Attempts:
    """The table. Every method that must act appends to `effects` and does nothing else."""

    def __init__(self, counters: Counter[str], telling: OutcomeQueue) -> None:
        self._counters = counters
        self._telling = telling
        self._held: dict[Key, _Attempt] = {}
        self._settling: dict[Key, _Attempt] = {}
        self._buried: OrderedDict[Key, None] = OrderedDict()

    def keys(self) -> tuple[Key, ...]:
        """Everything here, running or ended, in order of arrival."""
        return tuple(self._held)

    def phase(self, key: Key) -> AttemptPhase | None:
        """None for one that is not here, or whose end is in the log."""
        attempt = self._held.get(key)
        return attempt.phase if attempt else None

    def taken(self) -> frozenset[Key]:
        """Attempts the spawner has durably and whose end it has not told."""
        phases = (AttemptPhase.TAKEN, AttemptPhase.RUNNING)
        return frozenset(key for key, held in self._held.items() if held.phase in phases)

    def settle_by(self) -> float | None:
        """When the next outcome has waited long enough for its trace."""
        return next((held.settle_by for held in self._settling.values()), None)

    # --- what the scheduler wants -----------------------------------------------------------------

    def carry_out(self, actions: Iterable[Action], now_ns: int, effects: list[Effect]) -> None:
        """Starts that follow one another become one batch; order is kept."""
        starts: list[StartJob] = []
        forgotten: list[int] = []
        for action in actions:
            if isinstance(action, StartJob):
                if self._admit(action, now_ns):
                    starts.append(action)
            elif isinstance(action, StopJob):
                if starts:
                    effects.append(steps.StartAttempts(tuple(starts)))
                    starts = []
                self.stop(action, now_ns, effects)
            else:
                forgotten.append(action.job)
        if starts:
            effects.append(steps.StartAttempts(tuple(starts)))
        if forgotten:
            self._forget(forgotten, effects)

    def _forget(self, jobs: list[int], effects: list[Effect]) -> None:
        """Delete folders; one that is still in use goes when the log has its job's end."""
        used: dict[int, list[_Attempt]] = {}
        for (job, _), attempt in self._held.items():
            used.setdefault(job, []).append(attempt)
        for job in jobs:
            for attempt in used.get(job, ()):
                attempt.forget = True
            if job not in used:
                effects.append(steps.DropFolder(job))

    def _admit(self, start: StartJob, now_ns: int) -> bool:
        """Take a start in; False for one that is here already, was here, or cannot be held."""
        key = (start.job, start.attempt)
        if key in self._held or key in self._buried:
            self._counters["start_repeat"] += 1
            return False
        if len(self._held) >= 2 * ATTEMPTS_MAX:  # even refusals wait: the next desired state tells
            self._counters["start_dropped"] += 1
            return False
        attempt = _Attempt(start.decision.id)
        if len(self._held) >= ATTEMPTS_MAX:
            reason = f"this node holds {ATTEMPTS_MAX} attempts whose end is not in the log yet"
            self._conclude(key, attempt, "failed", reason, now_ns)
            return False
        self._held[key] = attempt
        return True

    def stop(self, stop: StopJob, now_ns: int, effects: list[Effect]) -> None:
        """End an attempt; one that never came here ends as told, and can then never start."""
        key = (stop.job, stop.attempt)
        attempt = self._held.get(key)
        if attempt is None:
            if key not in self._buried:
                self._conclude(key, _Attempt(0), stop.state, stop.reason, now_ns)
        elif attempt.phase not in OVER and (attempt.stop is None or attempt.faulted):
            if attempt.stop is None:
                effects.append(steps.StopAttempt(key, stop.reason))
            attempt.stop = stop  # what the scheduler wants goes before a device's fault

    def fault(self, event: steps.Faulted, effects: list[Effect]) -> int:
        """End what a device failed, so that it is retried if its job may be; how many."""
        ended = 0
        for key in event.keys:
            attempt = self._held.get(key)
            if attempt is not None and attempt.phase not in OVER and attempt.stop is None:
                attempt.stop = StopJob(*key, event.reason, "failed")
                effects.append(steps.StopAttempt(key, event.reason))
                ended += 1
        return ended

    def stop_unknown(self, keys: Iterable[Key], now_ns: int, effects: list[Effect]) -> None:
        """End what runs here and nobody wants."""
        for key in keys:
            attempt = self._held.get(key)
            if attempt is not None and attempt.phase not in OVER and attempt.stop is None:
                self._counters["attempt_unknown"] += 1
                self.stop(StopJob(*key, UNKNOWN, "lost"), now_ns, effects)

    def lose(self, keys: Iterable[Key], now_ns: int) -> None:
        """Tell the end of what is wanted here and has left no trace, so that its devices are free;
        nothing is done about what is here, or was until the log had its end."""
        for key in keys:
            if key not in self._held and key not in self._buried:
                self._counters["attempt_missing"] += 1
                self._conclude(key, _Attempt(0), "lost", MISSING, now_ns)

    # --- what the spawner says --------------------------------------------------------------------

    def compare(self, event: steps.SpawnerHas, now_s: float, effects: list[Effect]) -> bool:
        """Bring the table in line with the spawner; True if a start was lost on its way."""
        stale = tuple(has.key for has in event.has if has.key in self._buried)
        if stale:
            effects.append(steps.Acknowledge(stale))
        lost = False
        for has in event.has:
            if has.key not in self._buried:
                lost |= self._adopt(has, now_s, effects)
        for key in event.asked - {has.key for has in event.has}:
            attempt = self._held.get(key)
            if attempt is not None and attempt.phase in (AttemptPhase.TAKEN, AttemptPhase.RUNNING):
                # It was taken, so it may have run: it is never started again.
                self._counters["attempt_vanished"] += 1
                self._conclude(key, attempt, "lost", VANISHED, event.t_ns)
        return lost

    def _adopt(self, has: steps.Has, now_s: float, effects: list[Effect]) -> bool:
        attempt = self._held.setdefault(has.key, _Attempt(has.decision))
        if attempt.phase is AttemptPhase.SENT:
            attempt.phase = AttemptPhase.TAKEN
        match has.news:
            case steps.Ran():
                self.ran(has.news)
            case steps.JobEnded():
                self.ended(has.news, now_s, effects)
            case steps.NeverStarted():
                return self.never_started(has.news, effects)
        return False

    def accepted(self, keys: tuple[Key, ...]) -> None:
        """The spawner has these durably."""
        for key in keys:
            attempt = self._held.get(key)
            if attempt is not None and attempt.phase is AttemptPhase.SENT:
                attempt.phase = AttemptPhase.TAKEN

    def refused(self, event: steps.NotTaken) -> None:
        """This one cannot be started."""
        attempt = self._held.get(event.key)
        if attempt is not None and attempt.phase is AttemptPhase.SENT:
            self._conclude(event.key, attempt, "failed", event.reason, event.t_ns)

    def never_started(self, event: steps.NeverStarted, effects: list[Effect]) -> bool:
        """Forget it at both sides; True if it is still wanted, so that it is asked for again."""
        attempt = self._held.get(event.key)
        if attempt is not None and attempt.stop is not None and attempt.phase not in OVER:
            stop = attempt.stop
            self._conclude(event.key, attempt, stop.state, stop.reason, event.t_ns)
            return False  # acknowledged with its outcome
        if attempt is None or attempt.phase not in OVER:
            effects.append(steps.Acknowledge((event.key,)))
            self._counters["attempt_never_started"] += 1
            return self._held.pop(event.key, None) is not None
        return False

    def ran(self, event: steps.Ran) -> None:
        """Its program runs; said again after every reconnect."""
        if event.key in self._buried:
            return
        attempt = self._held.setdefault(event.key, _Attempt(event.decision))
        if attempt.phase in (AttemptPhase.SENT, AttemptPhase.TAKEN):
            attempt.phase = AttemptPhase.RUNNING
            self._telling.put(Outcome(*event.key, event.decision, "running", event.t_ns))

    def ended(self, event: steps.JobEnded, now_s: float, effects: list[Effect]) -> None:
        """It is over: tell it, after its trace is written if it has one."""
        key, outcome = event.key, event.outcome
        if key in self._buried:
            effects.append(steps.Acknowledge((key,)))
            return
        attempt = self._held.setdefault(key, _Attempt(outcome.decision))
        if attempt.phase in OVER:
            return
        if event.stopped and attempt.stop is not None:
            stop = attempt.stop
            outcome = msgspec.structs.replace(outcome, state=stop.state, reason=stop.reason)
        elif attempt.faulted and outcome.state == "failed" and attempt.stop is not None:
            outcome = msgspec.structs.replace(outcome, reason=attempt.stop.reason)
        if event.traced:
            attempt.phase, attempt.outcome = AttemptPhase.SETTLING, outcome
            attempt.settle_by = now_s + SETTLE_S
            self._settling[key] = attempt
            effects.append(steps.Settle(key))
        else:
            self._over(key, attempt, outcome)

    def settled(self, key: Key, device_ns: int | None = None, note: str = "") -> None:
        """Its trace is on disk, or will never be."""
        attempt = self._settling.pop(key, None)
        if attempt is not None:
            assert attempt.outcome is not None
            outcome = msgspec.structs.replace(attempt.outcome, device_ns=device_ns)
            if note:
                reason = f"{outcome.reason}; {note}" if outcome.reason else note
                outcome = msgspec.structs.replace(outcome, reason=reason)
            self._over(key, attempt, outcome)

    def settle_late(self, now_s: float) -> None:
        """Tell what has waited too long without its trace."""
        while (due := self.settle_by()) is not None and due <= now_s:
            self._counters["trace_not_settled"] += 1
            self.settled(next(iter(self._settling)))

    # --- the end ----------------------------------------------------------------------------------

    def reap(self, outcomes: Iterable[Outcome], effects: list[Effect]) -> None:
        """The log has these: the spawner may forget them, and only their names are kept."""
        keys, forgotten = [], []
        for outcome in outcomes:
            key = (outcome.job, outcome.attempt)
            if outcome.state == "running" or (attempt := self._held.pop(key, None)) is None:
                continue
            keys.append(key)
            self._buried[key] = None
            if attempt.forget:
                forgotten.append(outcome.job)
        while len(self._buried) > ENDED_KEPT:
            self._buried.popitem(last=False)
        if keys:
            effects.append(steps.Acknowledge(tuple(keys)))
        effects += map(steps.DropFolder, forgotten)

    def _conclude(
        self,
        key: Key,
        attempt: _Attempt,
        state: Literal["failed", "cancelled", "lost"],
        reason: str,
        now_ns: int,
    ) -> None:
        """An end that no Exited event tells of."""
        self._held[key] = attempt
        self._over(key, attempt, Outcome(*key, attempt.decision, state, now_ns, reason=reason))

    def _over(self, key: Key, attempt: _Attempt, outcome: Outcome) -> None:
        attempt.phase, attempt.outcome = AttemptPhase.ENDED, None
        self._telling.put(outcome)
