# SPDX-License-Identifier: Apache-2.0
"""A thread of the agent with an event loop and a connection of its own, which attempts one thing
again and again until the agent ends.

The recorder and the export of spans are such threads. Owns the invariant that no failure of an
attempt reaches the daemon: each is logged, and another attempt follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Final

from stoker.native.errors import NotFound, StokerError
from stoker.native.structured_log import structlog

STOP_S: Final = 0.5
"""The longest time for which the agent's end waits for such a thread."""
SHARE: Final = 19
"""After a step a thread rests this many times the CPU that the step took, so that it takes a
twentieth of a core at most, however large the cluster is."""
AGAIN_S: Final = 1.0
"""Seconds from the end of an attempt to the next one."""


class LoopThread:
    """One thread, from `start` to `stop`; `attempt` runs in it and is to end when `stopping`."""

    def __init__(self, name: str, attempt: Callable[[], Awaitable[None]], failed: str) -> None:
        """`failed` is the sentence of the log for an attempt that failed."""
        self._name, self._attempt, self._failed = name, attempt, failed
        self._log = structlog.get_logger(name)
        self._said = ""
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._ends = False

    def start(self) -> None:
        """Begin to attempt."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, and wait STOP_S at most for what is under way."""
        self._ends = True
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(stopping.set)
        if self._thread is not None:
            self._thread.join(STOP_S)

    @property
    def alive(self) -> bool:
        """True from `start` until the thread has ended."""
        return self._thread is not None and self._thread.is_alive()

    # --- in the thread ----------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """True once the agent ends."""
        return self._stopping is None or self._stopping.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the agent ends."""
        assert self._stopping is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._stopping.wait()

    def give_up(self) -> None:
        """Attempt no more."""
        assert self._stopping is not None
        self._stopping.set()

    def say(self, why: str) -> None:
        """Log what is wrong, once for as long as it stays the same."""
        if why != self._said:
            self._said = why
            self._log.warning(why)

    def _run(self) -> None:
        asyncio.run(self._attempts())

    async def _attempts(self) -> None:
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._ends:  # `stop` came before there was a loop
            self._stopping.set()
        while not self._stopping.is_set():
            try:
                await self._attempt()
            except NotFound:
                pass  # the node is only starting
            except (StokerError, OSError) as error:
                self.say(f"{self._failed}: {error}")
            except Exception as error:
                self._log.exception(self._failed, error=str(error))
            await self.pause(AGAIN_S)
