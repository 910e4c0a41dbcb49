# SPDX-License-Identifier: Apache-2.0
"""The share of time in which launches of a device's jobs may begin, and the tracers' answers.

It passes values between the power loop and the tracing thread. Nothing here is stored: a share that
is no longer renewed in the segments ends within a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from stoker.probes.kernels.job_trace import HOLD_WHOLE, TracerAnswer
from stoker.scheduler.nouns import TaskKey

LATE_NS: Final = 1_000_000_000
"""Nanoseconds after a change in which a process may follow the share before it, and after its start
in which it may follow none."""


class ThrottleAnswer(NamedTuple):
    """The answer of one job at its latest drain."""

    t_ns: int
    """CLOCK_MONOTONIC."""
    disobeys: str
    """A sentence about a process that does not follow the share; empty if all do."""
    held: int
    """The number of launches of living processes that have waited."""
    held_ns: int


class LaunchThrottle:
    """The launch throttle of one node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[str, int] = {}
        self._answers: dict[TaskKey, ThrottleAnswer] = {}
        self._obeyed_ns: dict[TaskKey, dict[int, int]] = {}
        """Job -> living process -> when it last followed the share."""

    # --- the power loop ---------------------------------------------------------------------------

    def want(self, device: str, share: int) -> None:
        """Let launches of the device's jobs begin in this share of the time; HOLD_WHOLE is all."""
        with self._lock:
            if share < HOLD_WHOLE:
                self._wanted[device] = max(share, 1)
            else:
                self._wanted.pop(device, None)

    def told(self, key: TaskKey) -> ThrottleAnswer | None:
        """Return the newest answer of a job; None while it is not traced."""
        with self._lock:
            return self._answers.get(key)

    # --- the tracing thread -----------------------------------------------------------------------

    def share(self, devices: Iterable[str]) -> int:
        """Return the share for a job with these devices: the least, since a process is held
        whole."""
        with self._lock:
            return min((self._wanted.get(id, HOLD_WHOLE) for id in devices), default=HOLD_WHOLE)

    def answered(
        self, key: TaskKey, share: int, answers: Sequence[TracerAnswer], lost: str = ""
    ) -> None:
        """Record the answers of a job's living processes at a drain; `lost`: the reason why nothing
        reaches them any more."""
        now_ns = time.monotonic_ns()
        with self._lock:
            seen, here = self._obeyed_ns.get(key, {}), {each.pid for each in answers}
            self._obeyed_ns[key] = {pid: ns for pid, ns in seen.items() if pid in here}
            wrong = [each for each in answers if not self._obeys(key, each, share, now_ns)]
            self._answers[key] = ThrottleAnswer(
                now_ns,
                lost or (_why(wrong[0]) if wrong else ""),
                sum(each.held for each in answers),
                sum(each.held_ns for each in answers),
            )

    def _obeys(self, key: TaskKey, answer: TracerAnswer, share: int, now_ns: int) -> bool:
        """True if the process follows the share, did so within LATE_NS, or is that new."""
        processes = self._obeyed_ns[key]
        seen = processes.setdefault(answer.pid, now_ns)
        held = answer.hold_share if answer.hold_until_ns > now_ns else 0
        if answer.holds and (share >= HOLD_WHOLE or 0 < held <= share):
            processes[answer.pid] = now_ns
            return True
        return answer.holds and now_ns - seen < LATE_NS

    def forget(self, key: TaskKey) -> None:
        """Forget a job that is over."""
        with self._lock:
            self._answers.pop(key, None)
            self._obeyed_ns.pop(key, None)


def _why(answer: TracerAnswer) -> str:
    if not answer.holds:
        return f"the {answer.tracer} tracer of process {answer.pid} cannot hold launches"
    return f"process {answer.pid} has changed the share that was set"
