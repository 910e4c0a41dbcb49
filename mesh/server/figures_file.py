# SPDX-License-Identifier: Apache-2.0
"""The file in which a scheduler leaves its figures for the agent beside it.

Owns that writing it delays nobody: it is made in a thread, and not durable, because the next one
comes in a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec

from stoker.mesh.replica.replica import Replica
from stoker.mesh.wire.scheduler_figures import (
    EVERY_S,
    FILE,
    QUEUES_MAX,
    QueueFigures,
    SchedulerFigures,
)

OBJECTS = frozenset(
    {
        "nodes",
        "nodes_up",
        "devices",
        "pending_device",
        "pending_host",
        "tasks",
        "finished",
        "delayed",
        "queues",
    }
)
"""The counters of the core that are numbers of objects now; the others only grow."""


class FiguresFile:
    """The file of one process, which began at `start_ns`; call `second` once a second."""

    def __init__(self, folder: Path, start_ns: int) -> None:
        self._path = folder / FILE
        self._start_ns = start_ns
        self._seconds = 0

    async def second(self, replica: Replica, now_ns: int) -> None:
        """Write the file now and then; a full disk leaves the old one, which becomes stale."""
        self._seconds += 1
        if self._seconds % EVERY_S == 1:
            data = msgspec.json.encode(figures(replica, self._start_ns, now_ns))
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        new = self._path.with_suffix(".new")
        new.write_bytes(data)
        new.replace(self._path)


def figures(replica: Replica, start_ns: int, now_ns: int) -> SchedulerFigures:
    """Return the figures of a replica. Pure."""
    state, leads = replica.state, replica.role == "leading"
    core = state.core.counters() if leads else {}
    return SchedulerFigures(
        start_ns=start_ns,
        t_ns=now_ns,
        leads=leads,
        term=state.term,
        index=state.index,
        events=dict(replica.counters),
        totals={name: count for name, count in core.items() if name not in OBJECTS},
        objects={name: count for name, count in core.items() if name in OBJECTS},
        queues=_queues(replica, now_ns) if leads else (),
        status=replica.status(),
    )


def _queues(replica: Replica, now_ns: int) -> tuple[QueueFigures, ...]:
    core, book = replica.state.core, replica.state.book
    found = [info for each in core.queues() if (info := core.queue(each, now_ns)) is not None]
    found.sort(key=lambda info: (-info.pending, info.queue))
    return tuple(
        QueueFigures(book.queue_name(info.queue), info.pending, info.live, info.used_milli)
        for info in found[:QUEUES_MAX]
    )
