# SPDX-License-Identifier: Apache-2.0
"""The figures of a scheduler in its file, and as metrics."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.agent.export import scheduler_metrics
from stoker.agent.export.node_metrics import NodeReading, metrics
from stoker.mesh.wire.scheduler_figures import (
    BYTES_MAX,
    FILE,
    STALE_NS,
    QueueFigures,
    SchedulerFigures,
)
from stoker.probes.otlp.otlp_encoder import Number

LEADER = SchedulerFigures(
    start_ns=5, t_ns=1000, leads=True, term=3, index=77,
    events={"stepped_down": 2}, totals={"placed": 9}, objects={"tasks": 4},
    queues=(QueueFigures("default", 6, 7, 2500),),
)  # fmt: skip


def test_each_figure_is_a_point_of_a_metric_in_the_table() -> None:
    found, refused = metrics(NodeReading(1, (), (), (), {}, scheduler=LEADER))
    assert not refused
    told = {
        metric.name: (metric.kind, point.attributes, point.value, point.start_ns)
        for metric in found
        for point in metric.points
        if isinstance(point, Number) and metric.name != "stoker.export.failed"
    }
    queue = (("stoker.queue", "default"),)
    assert told == {
        "stoker.scheduler.events": ("sum", (("stoker.counter", "stepped_down"),), 2, 5),
        "stoker.scheduler.leads": ("updown", (), 1, 5),
        "stoker.log.term": ("gauge", (), 3, 0),
        "stoker.log.index": ("gauge", (), 77, 0),
        "stoker.cluster.events": ("gauge", (("stoker.counter", "placed"),), 9, 0),
        "stoker.cluster.objects": ("gauge", (("stoker.object", "tasks"),), 4, 0),
        "stoker.queue.pending": ("gauge", queue, 6, 0),
        "stoker.queue.live": ("gauge", queue, 7, 0),
        "stoker.queue.devices": ("gauge", queue, 2.5, 0),
    }


def test_only_the_file_of_a_scheduler_that_runs_is_read(tmp_path: Path) -> None:
    file = tmp_path / FILE
    assert scheduler_metrics.read(tmp_path, 1000) is None
    file.write_bytes(msgspec.json.encode(LEADER))
    assert scheduler_metrics.read(tmp_path, 1000 + STALE_NS - 1) == LEADER
    assert scheduler_metrics.read(tmp_path, 1000 + STALE_NS) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[" * 100_000, b" " * (BYTES_MAX + 1)])
def test_a_file_that_is_none_of_a_scheduler_says_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / FILE).write_bytes(data)
    assert scheduler_metrics.read(tmp_path, 1000) is None
