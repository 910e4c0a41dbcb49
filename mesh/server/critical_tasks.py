# SPDX-License-Identifier: Apache-2.0
"""The asyncio tasks of the scheduler's process.

Guarantees that a defect in a task ends the process with its name in the log file: state in memory
may be half changed then, but the log is whole, and the next process reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

from stoker.native.structured_log import structlog

END_S = 1.0
"""The longest wait for tasks that are cancelled."""
CANCEL_S = 0.02
"""The pause between two cancellations of the same task."""

log = structlog.get_logger("scheduler")


class CriticalTasks:
    """The tasks that run beside the main one, until the loop ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = False

    def ending(self) -> None:
        """Note that the process ends: a task that loses its connection by that shows no defect, and
        must not replace the exit code."""
        self._ending = True

    async def end(self) -> None:
        """Cancel all tasks, and return once none is left or END_S have passed.

        One cancellation is not enough: `asyncio.wait_for` of Python 3.11 loses one that comes as
        its own work is done, and the task goes on, and may spawn others.
        """
        self.ending()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                while self._tasks:
                    for task in self._tasks:
                        task.cancel()
                    await asyncio.wait(self._tasks, timeout=CANCEL_S)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def repeat(self, period_s: float, work: Callable[[], Awaitable[None]]) -> None:
        """Call `work` now and `period_s` after each end of it."""
        self.spawn(_repeat(period_s, work))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._ending:
            log.warning("a task failed at the end", where=str(task.get_coro()), error=str(error))
        elif error is not None:
            die(str(task.get_coro()), error)


async def _repeat(period_s: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()
        await asyncio.sleep(period_s)


def begin_again(why: str) -> NoReturn:
    """End the process at once, so that the next one starts from the files that were just made."""
    try:
        log.warning("the scheduler begins again", why=why)
    finally:
        os._exit(75)  # EX_TEMPFAIL of sysexits.h


def end_for_disk(what: str, error: OSError) -> NoReturn:
    """End the process at once because the disk does not take what must be durable: it may have a
    part of it, and the next process reads what it has."""
    try:
        hint = "free some of the disk, or mend it: the scheduler is started again every few seconds"
        log.critical("the disk takes nothing", what=what, error=str(error), hint=hint)
    finally:
        os._exit(74)  # EX_IOERR of sysexits.h


def die(where: str, error: BaseException | None = None) -> NoReturn:
    """End the process at once because of a defect; `error` is by default the one being handled."""
    try:
        log.critical("a defect ends the scheduler", where=where, exc_info=error or True)
    finally:
        os._exit(70)  # EX_SOFTWARE of sysexits.h
