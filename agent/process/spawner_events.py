# SPDX-License-Identifier: Apache-2.0
"""The spawner's events on their way to the core, and the regular comparison of both.

An event that cannot be handled is logged and counted; the others of its batch are not lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable

from stoker.agent.job_executor import JobExecutor
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.steps import Event
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

COMPARE_EVERY_S = 30.0
"""Seconds between two comparisons of the core's attempts with the spawner's."""

_log = structlog.get_logger("agent")


class SpawnerEvents:
    """Posts the spawner's events to the core; `listen` and `compare` run for ever."""

    def __init__(
        self,
        spawner: Spawner,
        executor: JobExecutor,
        core: NodeCore,
        *,
        post: Callable[[Event], None],
        counters: Counter[str],
    ) -> None:
        self._spawner = spawner
        self._executor = executor
        self._core = core
        self._post = post
        self._counters = counters

    async def listen(self) -> None:
        """Post every event of the spawner."""
        while True:
            for event in await self._spawner.next_events():
                try:
                    told = self._executor.core_event(event)
                    if told is not None:
                        self._post(told)
                except Exception as error:  # the rest of the batch goes on
                    self._counters["event_failed"] += 1
                    _log.exception("an event could not be handled", job=event.job, error=str(error))

    async def compare(self) -> None:
        """Post the spawner's list of attempts now and then."""
        while True:
            await asyncio.sleep(COMPARE_EVERY_S)
            with contextlib.suppress(StokerError):
                self._post(await self._executor.known(self._core.taken()))
