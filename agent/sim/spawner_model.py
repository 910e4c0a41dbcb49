# SPDX-License-Identifier: Apache-2.0
"""The spawner of a simulated node: it starts, freezes and ends attempts.

It forgets none by itself, survives the agent and dies with the machine. A frozen attempt makes no
progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from stoker.agent.jobs import steps
from stoker.agent.sim.run_audit import RunAudit
from stoker.mesh.sim.host_clock import HostClock
from stoker.mesh.sim.timeline import MS, SECOND, Timeline
from stoker.scheduler.nouns import Outcome, StartJob, TaskKey

BEGIN_NS = 8 * MS
NAME_TAKEN_NS = 100 * MS
"""The time after which the agent sends a start again whose name was taken."""
SAVES = (0.01, 0.1, 0.4, 1.0)
"""The parts of its grace that a program takes to save its work, by chance."""
EndState = Literal["succeeded", "failed", "cancelled"]
Tell = Callable[[steps.Event], None]


@dataclass
class _Attempt:
    start: StartJob
    left_ns: int
    state: Literal["taken", "running", "over"] = "taken"
    since_ns: int = 0
    """The simulated time from which it runs unfrozen."""
    plan: int = 0
    """A number that grows whenever its end is planned anew."""
    stopped: bool = False
    released: bool = False
    """True if it may run, being one of a gang."""
    event: steps.Gathered | steps.Ran | steps.JobEnded | None = None


class SpawnerModel:
    """The attempts of one node; `tell` passes what happens to the agent, if it lives."""

    def __init__(
        self, node: str, timeline: Timeline, clock: HostClock, audit: RunAudit, tell: Tell
    ) -> None:
        self.frozen = False
        self._node = node
        self._timeline = timeline
        self._clock = clock
        self._audit = audit
        self._tell = tell
        self._attempts: dict[TaskKey, _Attempt] = {}

    def start(self, start: StartJob) -> None:
        """Take a start durably; it begins a little later, once.

        It waits while another attempt of its name is here, whose cgroup it would have.
        """
        key = start.key
        if any(each != key and each.name == key.name for each in self._attempts):
            self._timeline.after(NAME_TAKEN_NS, self.start, start)
        elif key not in self._attempts:
            attempt = _Attempt(start, _run_ns(start))
            self._attempts[key] = attempt
            self._timeline.after(BEGIN_NS, self._begin, attempt)

    def _is_here(self, attempt: _Attempt) -> bool:
        key = attempt.start.key
        return self._attempts.get(key) is attempt

    def _begin(self, attempt: _Attempt) -> None:
        if attempt.state != "taken" or not self._is_here(attempt):
            return
        must_wait = self.frozen and attempt.start.spec.must_fence
        if must_wait:  # a start behind a freeze waits with what is frozen
            self._timeline.after(BEGIN_NS, self._begin, attempt)
            return
        start = attempt.start
        if not attempt.released and _is_unlaunched(start):
            self._give_back(attempt)
            return
        if start.gang is not None:
            self._audit.gathers(start)
        if start.gang is not None and not attempt.released:
            attempt.event = steps.Gathered(start.key, start.decision.id, self._clock.real())
            self._tell(attempt.event)
            return
        attempt.state = "running"
        self._audit.begins(self._node, start)
        key = start.key
        attempt.event = steps.Ran(key, start.decision.id, self._clock.real())
        self._tell(attempt.event)
        self._plan_end(attempt)

    def _plan_end(self, attempt: _Attempt) -> None:
        attempt.plan += 1
        attempt.since_ns = self._timeline.now
        self._timeline.after(attempt.left_ns, self._end, (attempt, attempt.plan))

    def _end(self, planned: tuple[_Attempt, int]) -> None:
        attempt, plan = planned
        if plan == attempt.plan and attempt.state == "running" and self._is_here(attempt):
            self._over(attempt)

    def _over(self, attempt: _Attempt) -> None:
        start = attempt.start
        key = start.key
        ran = attempt.state == "running" and not attempt.stopped
        attempt.state = "over"
        self._audit.pauses(key)
        state: EndState = "cancelled"
        if ran:
            state = "failed" if _fails(start) else "succeeded"
        outcome = Outcome(*key, start.decision.id, state, self._clock.real(), exit_code=0)
        attempt.event = steps.JobEnded(outcome, stopped=attempt.stopped)
        self._tell(attempt.event)

    def _give_back(self, attempt: _Attempt) -> None:
        """End an attempt of which nothing has run, since the node cannot launch it."""
        attempt.state = "over"
        self._audit.launches_failed += 1
        start = attempt.start
        decision, now_ns = start.decision.id, self._clock.real()
        outcome = Outcome(*start.key, decision, "unlaunched", now_ns, reason="no room")
        attempt.event = steps.JobEnded(outcome)
        self._tell(attempt.event)

    def release(self, keys: tuple[TaskKey, ...]) -> None:
        """Let tasks of gangs run, those that are ready at once."""
        for key in keys:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.state == "taken":
                attempt.released = True
                if attempt.event is not None:
                    self._timeline.after(MS, self._begin, attempt)

    def stop(self, key: TaskKey, grace_s: float | None = 0.0) -> None:
        """End an attempt on request; a frozen one ends too, since it is killed.

        One that runs may save its work first: for `grace_s` at most, None being its own grace.
        """
        attempt = self._attempts.get(key)
        if attempt is None or attempt.state == "over":
            return
        attempt.stopped = True
        if grace_s == 0.0 or attempt.state != "running":
            self._over(attempt)
            return
        whole_ns = int((attempt.start.spec.grace_s if grace_s is None else grace_s) * SECOND)
        share = SAVES[attempt.start.decision.id % len(SAVES)]
        self._timeline.after(int(whole_ns * share), self._saved, attempt)

    def _saved(self, attempt: _Attempt) -> None:
        if attempt.state == "running" and self._is_here(attempt):
            self._over(attempt)

    def acknowledge(self, keys: tuple[TaskKey, ...]) -> None:
        """Forget attempts whose ends are in the log."""
        for key in keys:
            if (attempt := self._attempts.get(key)) is not None and attempt.state == "over":
                del self._attempts[key]

    def attempts(self) -> tuple[steps.SpawnerAttempt, ...]:
        """Return everything that is here, as the agent gets it."""
        return tuple(
            steps.SpawnerAttempt(key, attempt.start.decision.id, attempt.event)
            for key, attempt in self._attempts.items()
        )

    # --- the watchdog and the machine -------------------------------------------------------------

    def freeze(self) -> None:
        """Let nothing run that must not run twice."""
        self.frozen = True
        for key, attempt in self._attempts.items():
            if attempt.state == "running" and attempt.start.spec.must_fence:
                attempt.left_ns -= self._timeline.now - attempt.since_ns
                attempt.plan += 1
                self._audit.pauses(key)

    def thaw(self) -> None:
        """Let what was frozen go on."""
        self.frozen = False
        for attempt in self._attempts.values():
            if attempt.state == "running" and attempt.start.spec.must_fence:
                self._audit.resumes(self._node, attempt.start)
                self._plan_end(attempt)

    def die(self) -> None:
        """Lose everything, as in a reboot."""
        for key in self._attempts:
            self._audit.pauses(key)
        self._attempts.clear()
        self.frozen = False

    @property
    def running(self) -> int:
        """The number of attempts that run or are frozen."""
        return sum(attempt.state == "running" for attempt in self._attempts.values())

    @property
    def left_ns(self) -> int:
        """The time until the last attempt that runs and is not frozen ends by itself; 0 if none."""
        now = self._timeline.now
        return max((each.since_ns + each.left_ns - now for each in self._going()), default=0)

    def _going(self) -> Iterator[_Attempt]:
        """Yield the attempts that run and are not frozen."""
        for attempt in self._attempts.values():
            held = self.frozen and attempt.start.spec.must_fence
            if attempt.state == "running" and not held:
                yield attempt

    @property
    def fenced(self) -> int:
        """The number of attempts that run and must be frozen, or are frozen."""
        attempts = self._attempts.values()
        return sum(each.state == "running" and each.start.spec.must_fence for each in attempts)


def _run_ns(start: StartJob) -> int:
    """Return how long a task runs: of a gang, each runs for a little less than the one before."""
    whole = int(start.spec.argv[2]) * MS
    tasks = start.spec.tasks
    return whole - whole * start.task // (2 * tasks)


def _is_unlaunched(start: StartJob) -> bool:
    """Return True if the node cannot launch a task: of a gang, the last one."""
    words, last = start.spec.argv, start.task == start.spec.tasks - 1
    return len(words) > 4 and start.attempt <= int(words[4]) and last


def _fails(start: StartJob) -> bool:
    """Return True if a task is to fail: of a gang, the last one, which is the first to end."""
    return start.spec.argv[3] == "failed" and start.task == start.spec.tasks - 1
