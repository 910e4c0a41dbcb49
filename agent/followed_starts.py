# SPDX-License-Identifier: Apache-2.0
"""Jobs with a full trace, which run as soon as the kernel records their threads, and not before.

The executor relies on it. It owns that no job waits longer than PATIENCE_S for the tracer: a job
that is let go too early runs, and its trace says what was not seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.trace_thread import Done
from stoker.scheduler.nouns import TaskKey

PATIENCE_S: Final = 5.0
"""Seconds after which a job runs although its threads are not followed yet."""


class FollowingTracer(Protocol):
    """The tracer: `TraceThread`."""

    def follow(self, key: TaskKey, cgroup_id: int, done: Done) -> None: ...


class FollowedStarts:
    """The waiting jobs; `release` has the spawner let some of them run."""

    def __init__(
        self, tracer: FollowingTracer, release: Callable[[tuple[TaskKey, ...]], None]
    ) -> None:
        self._tracer = tracer
        self._release = release
        self._waiting: dict[TaskKey, asyncio.TimerHandle] = {}
        self.counters: Counter[str] = Counter()

    def prepared(self, record: StartRecord, cgroup_id: int) -> None:
        """Have the threads of a prepared job followed; one that waits for nothing else then runs.

        The spawner says again after a reconnect which jobs are prepared.
        """
        key = record.key
        if not record.followed_first:
            self._tracer.follow(key, cgroup_id, lambda _: None)
        elif key not in self._waiting:
            loop = asyncio.get_running_loop()
            self._waiting[key] = loop.call_later(PATIENCE_S, self._let_go, key)
            self._tracer.follow(key, cgroup_id, lambda _: self._run(key))

    def _let_go(self, key: TaskKey) -> None:
        self.counters["follow_late"] += 1
        self._run(key)

    def _run(self, key: TaskKey) -> None:
        timer = self._waiting.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._release((key,))
