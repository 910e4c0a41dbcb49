# SPDX-License-Identifier: Apache-2.0
"""The table of attempts at this node, from the start of each until the log has its end.

Each attempt of a task is started at most once, even if its start arrives again after its end, and
its outcome is sent until the log has it. The table holds at most ATTEMPTS_MAX attempts and
ENDED_KEPT names of ended ones.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import Literal

import msgspec

from stoker.agent.jobs import steps
from stoker.agent.jobs.outcome_queue import OutcomeQueue
from stoker.agent.jobs.steps import Effect
from stoker.mesh.wire.command import HAVE_MAX
from stoker.scheduler.nouns import (
    Action,
    ForgetJob,
    Outcome,
    ReleaseJob,
    StartJob,
    StopJob,
    TaskKey,
)

ATTEMPTS_MAX = HAVE_MAX
"""The largest number of attempts whose end is not in the log; a start beyond it is refused."""
ENDED_KEPT = 65_536
"""The number of ended attempts that are remembered, so that a repeated start is recognised."""
SETTLE_S = 15.0
"""Seconds that an outcome waits for its trace, at most."""

UNKNOWN = "the scheduler does not know this attempt"
MISSING = "this node has no record of this attempt"
VANISHED = "the spawner has no record of this attempt any more"
LEFT = "the agent of its node was stopped in order before it began"


class AttemptPhase(Enum):
    SENT = "sent"  # sent to the spawner, not yet confirmed
    TAKEN = "taken"  # durable at the spawner
    READY = "ready"  # one of a gang: it waits for the others
    RUNNING = "running"
    SETTLING = "settling"  # over; its trace is being written
    ENDED = "ended"  # over; its outcome is being sent


BEFORE_RUN = (AttemptPhase.SENT, AttemptPhase.TAKEN, AttemptPhase.READY)
OVER = (AttemptPhase.SETTLING, AttemptPhase.ENDED)


class _Attempt(msgspec.Struct):
    decision: int
    phase: AttemptPhase = AttemptPhase.SENT
    stop: StopJob | None = None
    outcome: Outcome | None = None
    settle_by: float = 0.0
    forget: bool = False
    """True if the folder is deleted as soon as the log has the attempt's end."""
    released: bool = False
    """True if it may run, being one of a gang."""

    @property
    def faulted(self) -> bool:
        """True if the attempt is being ended because of a device."""
        return self.stop is not None and self.stop.state == "failed"

    def gives_way_to(self, stop: StopJob) -> bool:
        """True if this stop counts: the scheduler's replaces a device's fault, what is lost may
        run elsewhere, so that no grace holds it here, and what was cancelled has none either."""
        before = self.stop
        if before is None or self.faulted:
            return True
        hurries = bool(before.signal) and not stop.signal
        return hurries or (stop.state == "lost" and before.state != "lost")


class Attempts:
    """The table. Methods append what must be done to `effects` and do nothing else."""

    def __init__(self, counters: Counter[str], outcomes: OutcomeQueue) -> None:
        self._counters = counters
        self._outcomes = outcomes
        self._attempts: dict[TaskKey, _Attempt] = {}
        self._settling: dict[TaskKey, _Attempt] = {}
        self._reaped: OrderedDict[TaskKey, None] = OrderedDict()
        self._returned: set[TaskKey] = set()
        """The attempts that were given back as an agent ended, until the log has that."""

    def keys(self) -> tuple[TaskKey, ...]:
        """Return all attempts here, running or ended, in order of arrival."""
        return tuple(self._attempts)

    def phase(self, key: TaskKey) -> AttemptPhase | None:
        """Return the attempt's phase; None if it is not here or its end is in the log."""
        attempt = self._attempts.get(key)
        return attempt.phase if attempt else None

    def taken(self) -> frozenset[TaskKey]:
        """Return the attempts that the spawner has durably and whose end it has not reported."""
        phases = (AttemptPhase.TAKEN, AttemptPhase.READY, AttemptPhase.RUNNING)
        return frozenset(key for key, attempt in self._attempts.items() if attempt.phase in phases)

    def settle_by(self) -> float | None:
        """Return when the next outcome has waited long enough for its trace; None if none waits."""
        for attempt in self._settling.values():
            return attempt.settle_by
        return None

    def ending_lost(self) -> bool:
        """Return True if an attempt that the log counts as lost has not ended here yet."""
        return any(
            attempt.stop is not None and attempt.stop.state == "lost" and attempt.phase not in OVER
            for attempt in self._attempts.values()
        )

    def ending(self) -> bool:
        """Return True if an attempt that is to end has not ended yet."""
        attempts = self._attempts.values()
        return any(each.stop is not None and each.phase not in OVER for each in attempts)

    # --- what the scheduler wants -----------------------------------------------------------------

    def carry_out(self, actions: Iterable[Action], now_ns: int, effects: list[Effect]) -> None:
        """Carry out actions in order; consecutive starts become one batch, and so do releases."""
        starts: list[StartJob] = []
        released: list[TaskKey] = []
        forgotten: list[int] = []
        for action in actions:
            if isinstance(action, StartJob):
                if self._admit(action, now_ns):
                    starts.append(action)
            elif isinstance(action, ReleaseJob):
                released.append(action.key)
            elif isinstance(action, StopJob):
                if starts:
                    effects.append(steps.StartAttempts(tuple(starts)))
                    starts = []
                self.stop(action, now_ns, effects)
            elif isinstance(action, ForgetJob):
                forgotten.append(action.job)
        if starts:
            effects.append(steps.StartAttempts(tuple(starts)))
        self.release(released, effects)
        if forgotten:
            self._forget(forgotten, effects)

    def _forget(self, jobs: list[int], effects: list[Effect]) -> None:
        """Delete the folders of jobs; a folder in use goes when the log has its job's end."""
        used: dict[int, list[_Attempt]] = {}
        for key, attempt in self._attempts.items():
            used.setdefault(key.job, []).append(attempt)
        for job in jobs:
            for attempt in used.get(job, ()):
                attempt.forget = True
            if job not in used:
                effects.append(steps.DropFolder(job))

    def _admit(self, start: StartJob, now_ns: int) -> bool:
        """Accept a start; False if the attempt is or was here, or the table is full."""
        key = start.key
        if key in self._attempts or key in self._reaped:
            self._counters["start_repeat"] += 1
            return False
        if len(self._attempts) >= 2 * ATTEMPTS_MAX:  # the desired state repeats it
            self._counters["start_dropped"] += 1
            return False
        attempt = _Attempt(start.decision.id)
        if len(self._attempts) >= ATTEMPTS_MAX:
            reason = f"this node holds {ATTEMPTS_MAX} attempts whose end is not in the log yet"
            self._conclude(key, attempt, "failed", reason, now_ns)
            return False
        self._attempts[key] = attempt
        return True

    def give_back(self, starts: Iterable[StartJob], now_ns: int, effects: list[Effect]) -> None:
        """Begin none of these, so that their jobs wait again and may be placed elsewhere."""
        given = [start.key for start in starts if self._admit(start, now_ns)]
        self._counters["attempt_given_back"] += len(given)
        self.returned(given, now_ns)
        if given:
            effects.append(steps.KeepReturned(tuple(sorted(self._returned))))

    def returned(self, keys: Iterable[TaskKey], now_ns: int) -> None:
        """Tell the log that these were given back, and never start them."""
        for key in keys:
            self._returned.add(key)
            attempt = self._attempts.get(key) or _Attempt(0)
            self._conclude(key, attempt, "pending", LEFT, now_ns)

    def stop(self, stop: StopJob, now_ns: int, effects: list[Effect]) -> None:
        """End an attempt; one that never came here takes the stop's state and can never start."""
        key = stop.key
        attempt = self._attempts.get(key)
        if attempt is None:
            if key not in self._reaped:
                self._conclude(key, _Attempt(0), stop.state, stop.reason, now_ns)
        elif attempt.phase not in OVER and attempt.gives_way_to(stop):
            if not attempt.faulted:
                effects.append(steps.StopAttempt(key, stop.reason, stop.signal, stop.grace_s))
            attempt.stop = stop

    def release(self, keys: Iterable[TaskKey], effects: list[Effect]) -> None:
        """Let tasks of gangs run; the desired state says it again of those that are not here."""
        waiting: list[TaskKey] = []
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.phase in BEFORE_RUN and attempt.stop is None:
                attempt.released = True
                waiting.append(key)
        if waiting:
            effects.append(steps.ReleaseAttempts(tuple(waiting)))

    def fault(self, event: steps.Faulted, effects: list[Effect]) -> int:
        """End the attempts that a device failed, so that their jobs may be retried; return how
        many."""
        ended = 0
        for key in event.keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.phase not in OVER and attempt.stop is None:
                attempt.stop = StopJob(*key, event.reason, "failed")
                effects.append(steps.StopAttempt(key, event.reason))
                ended += 1
        return ended

    def stop_unknown(self, keys: Iterable[TaskKey], now_ns: int, effects: list[Effect]) -> None:
        """End attempts that run here and that the log does not know."""
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.phase not in OVER and attempt.stop is None:
                self._counters["attempt_unknown"] += 1
                self.stop(StopJob(*key, UNKNOWN, "lost"), now_ns, effects)

    def lose(self, keys: Iterable[TaskKey], now_ns: int) -> None:
        """End attempts that the log wants and that left no trace here, so that their devices are
        free. Attempts that are here, or whose end the log had, stay as they are."""
        for key in keys:
            if key not in self._attempts and key not in self._reaped:
                self._counters["attempt_missing"] += 1
                self._conclude(key, _Attempt(0), "lost", MISSING, now_ns)

    # --- what the spawner says --------------------------------------------------------------------

    def compare(self, event: steps.SpawnerAttempts, now_s: float, effects: list[Effect]) -> bool:
        """Bring the table in line with the spawner; True if a start was lost on its way there."""
        stale = tuple(has.key for has in event.has if has.key in self._reaped)
        if stale:
            effects.append(steps.Acknowledge(stale))
        lost = False
        for has in event.has:
            if has.key not in self._reaped:
                lost |= self._adopt(has, now_s, effects)
        taken = self.taken()
        for key in event.expected - {has.key for has in event.has}:
            attempt = self._attempts.get(key)
            if attempt is not None and key in taken:
                # The spawner had taken it, so it may have run: it is never started again.
                self._counters["attempt_vanished"] += 1
                self._conclude(key, attempt, "lost", VANISHED, event.t_ns)
        return lost

    def _adopt(self, has: steps.SpawnerAttempt, now_s: float, effects: list[Effect]) -> bool:
        attempt = self._attempts.setdefault(has.key, _Attempt(has.decision))
        if attempt.phase is AttemptPhase.SENT:
            attempt.phase = AttemptPhase.TAKEN
        match has.event:
            case steps.Gathered():
                self.gathered(has.event, effects)
            case steps.Ran():
                self.ran(has.event, now_s)
            case steps.JobEnded():
                self.ended(has.event, now_s, effects)
            case steps.NeverStarted():
                return self.never_started(has.event, effects)
        return False

    def accepted(self, keys: tuple[TaskKey, ...]) -> None:
        """Mark these attempts as durable at the spawner."""
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.phase is AttemptPhase.SENT:
                attempt.phase = AttemptPhase.TAKEN

    def refused(self, event: steps.NotTaken) -> None:
        """End an attempt that was refused, and was not begun."""
        attempt = self._attempts.get(event.key)
        if attempt is not None and attempt.phase is AttemptPhase.SENT:
            self._conclude(event.key, attempt, event.state, event.reason, event.t_ns)

    def never_started(self, event: steps.NeverStarted, effects: list[Effect]) -> bool:
        """Forget an attempt that began nothing; True if it is still wanted and must be sent
        again. One that this node has no resources for is given back instead."""
        attempt = self._attempts.get(event.key)
        if attempt is not None and attempt.stop is not None and attempt.phase not in OVER:
            stop = attempt.stop
            self._conclude(event.key, attempt, stop.state, stop.reason, event.t_ns)
            return False  # acknowledged with its outcome
        if attempt is not None and attempt.phase not in OVER and _goes_back(event, attempt):
            self._conclude(event.key, attempt, "pending", event.reason, event.t_ns)
            return False
        if attempt is None or attempt.phase not in OVER:
            effects.append(steps.Acknowledge((event.key,)))
            self._counters["attempt_never_started"] += 1
            return self._attempts.pop(event.key, None) is not None
        return False

    def gathered(self, event: steps.Gathered, effects: list[Effect]) -> None:
        """Report that a task of a gang is ready; the spawner repeats this after every reconnect.

        A release that came before the spawner had the task is said again."""
        if event.key in self._reaped:
            return
        attempt = self._attempts.setdefault(event.key, _Attempt(event.decision))
        if attempt.phase not in BEFORE_RUN or attempt.stop is not None:
            return
        attempt.phase = AttemptPhase.READY
        if attempt.released:
            effects.append(steps.ReleaseAttempts((event.key,)))
        else:
            self._outcomes.put(Outcome(*event.key, event.decision, "ready", event.t_ns))

    def ran(self, event: steps.Ran, now_s: float) -> None:
        """Report that the program runs; the spawner repeats this event after every reconnect."""
        if event.key in self._reaped:
            return
        attempt = self._attempts.setdefault(event.key, _Attempt(event.decision))
        if attempt.phase in BEFORE_RUN:
            attempt.phase = AttemptPhase.RUNNING
            begun = Outcome(*event.key, event.decision, "running", event.t_ns)
            self._outcomes.begin(begun, now_s)

    def ended(self, event: steps.JobEnded, now_s: float, effects: list[Effect]) -> None:
        """End an attempt; its outcome is sent at once, or after its trace is written."""
        key, outcome = event.key, event.outcome
        if key in self._reaped:
            effects.append(steps.Acknowledge((key,)))
            return
        attempt = self._attempts.setdefault(key, _Attempt(outcome.decision))
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

    def settled(self, event: steps.TraceSettled) -> None:
        """Send the outcome: the trace is on disk, or never will be."""
        attempt = self._settling.pop(event.key, None)
        if attempt is not None:
            assert attempt.outcome is not None
            outcome = msgspec.structs.replace(
                attempt.outcome, device_ns=event.device_ns, launch_ns=event.launch_ns
            )
            if event.note:
                reason = f"{outcome.reason}; {event.note}" if outcome.reason else event.note
                outcome = msgspec.structs.replace(outcome, reason=reason)
            self._over(event.key, attempt, outcome)

    def settle_late(self, now_s: float) -> None:
        """Send the outcomes that have waited SETTLE_S for their traces."""
        while (due := self.settle_by()) is not None and due <= now_s:
            self._counters["trace_not_settled"] += 1
            self.settled(steps.TraceSettled(next(iter(self._settling))))

    # --- the end ----------------------------------------------------------------------------------

    def reap(self, outcomes: Iterable[Outcome], effects: list[Effect]) -> None:
        """Acknowledge outcomes that the log has; only the names of their attempts are kept."""
        keys: list[TaskKey] = []
        forgotten: set[int] = set()
        for outcome in outcomes:
            key = outcome.key
            if not outcome.is_over:
                continue
            if (attempt := self._attempts.pop(key, None)) is None:
                continue
            keys.append(key)
            self._reaped[key] = None
            if attempt.forget:
                forgotten.add(outcome.job)
        while len(self._reaped) > ENDED_KEPT:
            self._reaped.popitem(last=False)
        if keys:
            effects.append(steps.Acknowledge(tuple(keys)))
        if self._returned and self._returned <= self._reaped.keys():
            self._returned.clear()
            effects.append(steps.KeepReturned(()))
        if forgotten:  # the folders of a job go with its last attempt or task here
            used = {key.job for key in self._attempts}
            effects += [steps.DropFolder(job) for job in sorted(forgotten - used)]

    def _conclude(
        self,
        key: TaskKey,
        attempt: _Attempt,
        state: Literal["failed", "cancelled", "lost", "pending", "unlaunched"],
        reason: str,
        now_ns: int,
    ) -> None:
        """Record an end that the spawner does not report."""
        self._attempts[key] = attempt
        self._over(key, attempt, Outcome(*key, attempt.decision, state, now_ns, reason=reason))

    def _over(self, key: TaskKey, attempt: _Attempt, outcome: Outcome) -> None:
        attempt.phase, attempt.outcome = AttemptPhase.ENDED, None
        self._outcomes.put(outcome)


def _goes_back(event: steps.NeverStarted, attempt: _Attempt) -> bool:
    """True if an attempt for which the node has no resources may begin elsewhere; other ranks of a
    gang that was released may run already, and wait for this one."""
    return bool(event.reason) and not attempt.released
