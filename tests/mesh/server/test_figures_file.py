# SPDX-License-Identifier: Apache-2.0
"""The file of a scheduler's figures: what a leader tells of the log, and a follower does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.server.figures_file import OBJECTS, FiguresFile, figures
from stoker.mesh.wire import scheduler_figures
from stoker.mesh.wire.scheduler_figures import EVERY_S, FILE, QueueFigures
from tests.mesh.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(identity.create(tmp_path / "s"))


def test_a_leader_tells_of_queues_and_of_what_the_core_has(bench: Bench) -> None:
    bench.lead().hello()
    bench.submit("runs", gpu_milli=1000)
    bench.submit("waits", gpu_milli=1000)
    found = figures(bench.replica, 5, 7)
    assert (found.start_ns, found.t_ns, found.leads) == (5, 7, True)
    assert (found.term, found.index) == (bench.replica.state.term, bench.replica.state.index)
    assert found.events == bench.replica.counters
    assert (found.totals["submitted"], found.totals["placed"]) == (2, 1)
    assert (found.objects["pending_device"], found.objects["tasks"]) == (1, 1)
    assert found.objects.keys() == OBJECTS
    assert found.queues == (QueueFigures("default", 1, 2, 1000),)


def test_what_the_log_replicates_is_told_by_the_leader_alone(bench: Bench) -> None:
    found = figures(bench.replica, 5, 7)
    assert not found.leads
    assert (found.totals, found.objects, found.queues) == ({}, {}, ())


async def test_the_file_is_written_now_and_then(bench: Bench, tmp_path: Path) -> None:
    file = FiguresFile(tmp_path, 5)
    written = []
    for second in range(2 * EVERY_S):
        await file.second(bench.replica, second)
        found = scheduler_figures.decode((tmp_path / FILE).read_bytes(), second)
        assert found is not None
        written.append(found.t_ns)
    assert written == [0] * EVERY_S + [EVERY_S] * EVERY_S


async def test_a_full_disk_stops_nothing(bench: Bench, tmp_path: Path) -> None:
    await FiguresFile(tmp_path / "missing", 5).second(bench.replica, 1)
