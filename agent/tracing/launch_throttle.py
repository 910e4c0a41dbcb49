# SPDX-License-Identifier: Apache-2.0
"""In which share of the time launches of a device's jobs may begin, and what tracers do about it.

Owns what crosses between those two threads. Nothing here is kept: a share that is no longer renewed
in the segments ends within a second by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from stoker.agent.jobs.steps import Key
from stoker.probes.kernels.job_trace import HOLD_WHOLE, TracerAnswer

LATE_NS: Final = 1_000_000_000
"""For so long a process may still go by an older word, or a new one by none."""


class ThrottleAnswer(NamedTuple):
    """One job, as its latest drain found it."""

    t_ns: int
    """CLOCK_MONOTONIC."""
    disobeys: str
    """Which of its processes goes by nothing that it is told; empty: all do."""
    held: int
    """Launches that have waited, of the processes that live."""
    held_ns: int


class LaunchThrottle:
    """Of a node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[str, int] = {}
        self._told: dict[Key, ThrottleAnswer] = {}
        self._obeyed_ns: dict[Key, dict[int, int]] = {}
        """Job -> process -> when it last did as it was told; of those that live."""

    # --- the power loop ---------------------------------------------------------------------------

    def want(self, device: str, share: int) -> None:
        """Launches of its jobs begin in this share of the time, of HOLD_WHOLE, which is all."""
        with self._lock:
            if share < HOLD_WHOLE:
                self._wanted[device] = max(share, 1)
            else:
                self._wanted.pop(device, None)

    def told(self, key: Key) -> ThrottleAnswer | None:
        """What is known of a job; None while it is not traced."""
        with self._lock:
            return self._told.get(key)

    # --- the tracing thread -----------------------------------------------------------------------

    def share(self, devices: Iterable[str]) -> int:
        """For a job with these devices: the least, since a process's launches are held as one."""
        with self._lock:
            return min((self._wanted.get(id, HOLD_WHOLE) for id in devices), default=HOLD_WHOLE)

    def answered(
        self, key: Key, share: int, answers: Sequence[TracerAnswer], lost: str = ""
    ) -> None:
        """What the tracers of a job's living processes said at a drain; `lost`: why nobody tells
        them anything."""
        now_ns = time.monotonic_ns()
        with self._lock:
            seen, here = self._obeyed_ns.get(key, {}), {each.pid for each in answers}
            self._obeyed_ns[key] = {pid: ns for pid, ns in seen.items() if pid in here}
            wrong = [each for each in answers if not self._obeys(key, each, share, now_ns)]
            self._told[key] = ThrottleAnswer(
                now_ns,
                lost or (_why(wrong[0]) if wrong else ""),
                sum(each.held for each in answers),
                sum(each.held_ns for each in answers),
            )

    def _obeys(self, key: Key, answer: TracerAnswer, share: int, now_ns: int) -> bool:
        """A change takes until the next drain; a process that never obeyed was just begun, once."""
        processes = self._obeyed_ns[key]
        seen = processes.setdefault(answer.pid, now_ns)
        held = answer.hold_share if answer.hold_until_ns > now_ns else 0
        if answer.holds and (share >= HOLD_WHOLE or 0 < held <= share):
            processes[answer.pid] = now_ns
            return True
        return answer.holds and now_ns - seen < LATE_NS

    def forget(self, key: Key) -> None:
        """The job is over."""
        with self._lock:
            self._told.pop(key, None)
            self._obeyed_ns.pop(key, None)


def _why(answer: TracerAnswer) -> str:
    if not answer.holds:
        return f"the {answer.tracer} tracer of process {answer.pid} cannot hold launches"
    return f"process {answer.pid} has changed what it was told"
