# SPDX-License-Identifier: Apache-2.0
"""The watch over what this node needs for a launch: while it lacks something, its report refuses
new jobs.

Owns the order of a failed launch: the report that refuses jobs is posted before the outcome, so
that the leader has it first and places the job elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from stoker.agent.health.shortage import DiskReserve, FileSystem, Shortage
from stoker.agent.jobs import steps
from stoker.agent.jobs.steps import Event
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.native.structured_log import structlog

LOOK_EVERY_S = 1.0

_log = structlog.get_logger("shortage")


class NodeShortage:
    """The shortage of this node; `places` are the folders that a launch needs."""

    def __init__(
        self,
        places: Iterable[Path],
        reserve: DiskReserve,
        telemetry: NodeTelemetry,
        post: Callable[[Event], None],
    ) -> None:
        self._places = tuple(places)
        self._shortage = Shortage(reserve)
        self._telemetry = telemetry
        self._post = post
        self._why = ""
        self.counters: Counter[str] = Counter()

    @property
    def why(self) -> str:
        """Return why the node can launch no jobs, or an empty string."""
        return self._why

    def begin(self) -> None:
        """Look for the first time, before the first report is made."""
        self._look()
        self._telemetry.refuse(self._why)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self._look()
            self._tell()

    def failed(self, why: str) -> None:
        """Note a launch that failed for the sake of this node, and report it at once."""
        self.counters["launch_failed"] += 1
        self._shortage.failed(why, time.monotonic())
        self._look()
        self._tell()

    def _look(self) -> None:
        before = self._why
        self._why = self._shortage.look(file_systems(self._places), time.monotonic())
        if self._why and not before:
            self.counters["shortages"] += 1
            _log.warning("the node takes no new jobs", why=self._why)
        elif before and not self._why:
            _log.info("the node takes new jobs again", because="the shortage is over", was=before)

    def _tell(self) -> None:
        report = self._telemetry.refuse(self._why)
        if report is not None:
            self._post(steps.Reported(report))


def file_systems(places: Iterable[Path]) -> Iterator[FileSystem]:
    """Yield the room of each file system of these folders once; a full one is named by the first
    folder on it."""
    seen: set[int] = set()
    for place in places:
        try:
            device = place.stat().st_dev
            found = os.statvfs(place)
        except OSError as error:
            yield FileSystem(str(place), why=error.strerror or str(error))
            continue
        if device not in seen:
            seen.add(device)
            unit = found.f_frsize
            size, free = found.f_blocks * unit, found.f_bavail * unit
            yield FileSystem(str(place), size, free, found.f_files, found.f_favail)
