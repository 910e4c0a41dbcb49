# SPDX-License-Identifier: Apache-2.0
"""The loop around the replica: events go in, and effects are carried out in their order.

Owns that order, also for effects of steps that are made while an earlier effect is carried out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from stoker.mesh.replica import events
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server.critical_tasks import CriticalTasks, die
from stoker.mesh.server.role_journal import RoleJournal
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")

Handlers = Mapping[type, Callable[[Any], Awaitable[None]]]
"""The function that carries out each kind of effect; one that returns soon."""


class EffectLoop:
    """The events and effects of one replica. Set `handlers` before the first event."""

    def __init__(self, replica: Replica, tasks: CriticalTasks) -> None:
        self.handlers: Handlers = {}
        self._replica = replica
        self._tasks = tasks
        self._journal = RoleJournal(replica)
        self._effects: deque[events.Effect] = deque()
        self._carrying = False

    async def feed(self, event: events.Event) -> None:
        """Make one step of the replica and carry out its effects."""
        try:
            self._effects.extend(self._replica.step(event, time.time_ns(), boot_ns()))
        except Exception:
            die(type(event).__name__)
        self._journal.look()
        if self._carrying:
            return
        self._carrying = True
        while self._effects:
            await self._carry_out(self._effects.popleft())
        self._carrying = False

    def in_background(
        self, handler: Callable[[Any], Coroutine[Any, Any, None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """Return a handler that runs in a task, so that later effects do not wait for it."""

        async def begin(effect: Any) -> None:
            self._tasks.spawn(handler(effect))

        return begin

    async def _carry_out(self, effect: events.Effect) -> None:
        try:
            await self.handlers[type(effect)](effect)
        except Exception:
            self._replica.count("effect_failed")
            log.exception("an effect failed", effect=type(effect).__name__)
