# SPDX-License-Identifier: Apache-2.0
"""The loop around the agent's core: events go in one by one, effects come out as one batch.

After an error the core's state and the machine may differ, so the loop stops for good and the agent
is started again: the spawner has the jobs, the scheduler the desired state.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from stoker.agent.jobs import steps
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.steps import Effect, Event
from stoker.agent.link.status_reporter import StatusReporter
from stoker.native.structured_log import structlog

_log = structlog.get_logger("agent")


class CoreLoop:
    """Runs `core`: `carry_out` takes its effects, `give_up` is called after an error."""

    def __init__(
        self,
        core: NodeCore,
        status: StatusReporter,
        carry_out: Callable[[list[Effect]], None],
        give_up: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._core = core
        self._status = status
        self._carry_out = carry_out
        self._give_up = give_up
        self._events: deque[Event] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._stepped = asyncio.Event()

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return once this is true, which only the core's events can make it."""
        while not is_so():
            self._stepped.clear()
            await self._stepped.wait()

    def post(self, event: Event) -> None:
        """Give an event to the core, which processes it before the loop waits again."""
        self._events.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        """Process all waiting events and carry out their effects as one batch."""
        self._scheduled = False
        effects: list[Effect] = []
        now_s = _boot_s()
        try:
            while self._events:
                effects += self._core.step(self._events.popleft(), now_s)
            self._carry_out(effects)
        except Exception as error:
            _log.exception("the agent ends after an error, to be started again", error=str(error))
            self._give_up()
            return
        self._stepped.set()
        self._status.status(self._core.status, ready=self._core.caught_up)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._core.deadline()
        if due is not None:
            wait_s = max(due - _boot_s(), 0.001)
            self._timer = self._loop.call_later(wait_s, self.post, steps.NodeTick())


def _boot_s() -> float:
    """Return CLOCK_BOOTTIME in seconds, by which leases count as well."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e9
