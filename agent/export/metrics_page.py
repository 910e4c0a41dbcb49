# SPDX-License-Identifier: Apache-2.0
"""The metrics page of a node: one reading as the text that Prometheus scrapes, for one reader.

`page_server` serves it. Pure. Invariant: a reader who may not see other users' jobs gets the series
of his own jobs alone, and everything else as all others do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from stoker.agent.export import dcgm_metrics
from stoker.agent.export.node_metrics import NodeReading, metrics
from stoker.probes.otlp import prometheus_text
from stoker.probes.otlp.otlp_encoder import Metric, Value
from stoker.probes.otlp.prometheus_text import Family, Form, Page

SERIES_MAX = 10_000
"""The most series of one page."""
BYTES_MAX = 4 << 20
"""The most characters of one page."""
EVERYBODY: Final = -1
"""The reader who sees the jobs of all users."""
NOBODY: Final = -2
"""The reader who sees no user's jobs: one on another host, or of unknown user id."""


@dataclass(frozen=True, slots=True)
class PageSource:
    """The node of a page: its name and its resource attributes."""

    node: str
    resource: Mapping[str, Value]


def page(source: PageSource, reading: NodeReading, reader: int, form: Form) -> Page:
    """Return the page for one reader: a user id, EVERYBODY or NOBODY."""
    seen = seen_by(reading, reader)
    found, refused = metrics(seen)
    made = prometheus_text.page(_families(source, seen, found), form, SERIES_MAX, BYTES_MAX)
    return replace(made, refused=made.refused + refused)


def seen_by(reading: NodeReading, reader: int) -> NodeReading:
    """Return the reading without the jobs that a reader may not see."""
    if reader == EVERYBODY:
        return reading
    return replace(
        reading,
        jobs=tuple(job for job in reading.jobs if job.uid == reader),
        starts=tuple(start for start in reading.starts if start.uid == reader),
    )


def _families(source: PageSource, reading: NodeReading, found: list[Metric]) -> Iterator[Family]:
    attributes = tuple(sorted(source.resource.items()))
    yield Family("target_info", "gauge", "The node that answers.", [("", attributes, 1)])
    yield from dcgm_metrics.families(
        source.node, reading.devices, reading.cards, reading.starts, reading.xids
    )
    yield from prometheus_text.families(found)
