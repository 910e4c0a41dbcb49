# SPDX-License-Identifier: Apache-2.0
"""The agent's background tasks: endless parts, single tasks, and calls from other threads.

A part that ends or fails is started again, and failures are logged and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.native.structured_log import structlog

PART_AGAIN_S = 0.5

_log = structlog.get_logger("agent")


class BackgroundTasks:
    """The tasks of one loop. `counters` gets the failures."""

    def __init__(self, counters: Counter[str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._counters = counters
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run one task; its failure is logged and counted."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def keep_running(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a part of the agent for ever, starting it again whenever it ends."""
        self.spawn(self._for_ever(work))

    def from_thread(self, call: Callable[..., object], *arguments: object) -> None:
        """Run a call in the loop, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _for_ever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await work()
            except Exception as error:
                self._counters["part_failed"] += 1
                _log.exception("a part of the agent failed", part=work.__name__, error=str(error))
            await asyncio.sleep(PART_AGAIN_S)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._counters["task_failed"] += 1
            _log.error("a task ended", task=task.get_name(), error=repr(error), exc_info=error)
