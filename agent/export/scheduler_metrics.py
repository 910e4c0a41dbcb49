# SPDX-License-Identifier: Apache-2.0
"""The metrics of the scheduler on this node, of the log and of the queues, from the scheduler's
file.

A node without a scheduler has no such points, and so has one whose scheduler does not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stoker.mesh.wire import scheduler_figures
from stoker.mesh.wire.scheduler_figures import SchedulerFigures
from stoker.probes.otlp.otlp_encoder import Number
from stoker.scheduler.nouns import MILLI


def read(folder: Path, now_ns: int) -> SchedulerFigures | None:
    """Return the newest figures of the scheduler that has this folder; None if it does not run."""
    try:
        with (folder / scheduler_figures.FILE).open("rb") as file:
            data = file.read(scheduler_figures.BYTES_MAX + 1)
    except OSError:
        return None
    return scheduler_figures.decode(data, now_ns)


def points(found: SchedulerFigures) -> Iterator[tuple[str, Number]]:
    """Yield the points of one scheduler. Pure."""
    for counter, count in sorted(found.events.items()):
        attributes = (("stoker.counter", counter),)
        yield "stoker.scheduler.events", Number(attributes, count, found.start_ns)
    yield "stoker.scheduler.leads", Number((), int(found.leads), found.start_ns)
    yield "stoker.log.term", Number((), found.term)
    yield "stoker.log.index", Number((), found.index)
    for counter, count in sorted(found.totals.items()):
        yield "stoker.cluster.events", Number((("stoker.counter", counter),), count)
    for kind, count in sorted(found.objects.items()):
        yield "stoker.cluster.objects", Number((("stoker.object", kind),), count)
    for queue in found.queues:
        name = (("stoker.queue", queue.name),)
        yield "stoker.queue.pending", Number(name, queue.pending)
        yield "stoker.queue.live", Number(name, queue.live)
        yield "stoker.queue.devices", Number(name, queue.used_milli / MILLI)
