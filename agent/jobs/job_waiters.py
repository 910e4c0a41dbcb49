# SPDX-License-Identifier: Apache-2.0
"""Waiters for a job of this node to begin or end.

A waiter that is done cancels its future, which leaves nothing behind.
"""

from __future__ import annotations

import asyncio


class JobWaiters:
    """Futures by job."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def change(self, job: int) -> asyncio.Future[None]:
        """Return a future that the job's next change resolves; the caller cancels it when done."""
        future: asyncio.Future[None] = self._loop.create_future()
        waiting = self._waiting.setdefault(job, set())
        waiting.add(future)

        def gone(_: asyncio.Future[None]) -> None:
            waiting.discard(future)
            if not waiting and self._waiting.get(job) is waiting:
                del self._waiting[job]

        future.add_done_callback(gone)
        return future

    def changed(self, job: int) -> None:
        """Wake the waiters of a job that began or ended, after the core has processed the event.

        Those that come until then are woken as well: they may have seen what was before.
        """
        self._loop.call_soon(self._wake, job)

    def _wake(self, job: int) -> None:
        for future in list(self._waiting.get(job, ())):
            if not future.done():
                future.set_result(None)
