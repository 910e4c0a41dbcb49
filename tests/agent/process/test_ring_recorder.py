# SPDX-License-Identifier: Apache-2.0
"""The node's recorder outlives what fails beside it, and writes what it has at the end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes.sampled_cluster import SampledCluster
from product_node import wait_until

from stoker.agent.process import loop_thread
from stoker.agent.process.ring_recorder import RingRecorder
from stoker.mesh.client import client
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.recording.ring_files import FOLDER, RecordingLimits, segments
from stoker.mesh.wire.schema import NodeList
from stoker.native.errors import NotFound, Unavailable


def recorder(folder: Path, *, joined: bool = False, enabled: bool = True) -> RingRecorder:
    limits = RecordingLimits(enabled=enabled, interval_s=0.01)
    setting = SimpleNamespace(
        state=SimpleNamespace(root=folder),
        config=SimpleNamespace(recording=limits),
        agent=folder,
        cluster=SimpleNamespace(joined=joined),
    )
    return RingRecorder(cast(Any, setting))


class Changing(SampledCluster):
    """A cluster whose devices change between two samples."""

    samples = 0
    user = "root"

    async def nodes(self) -> NodeList:
        self.samples += 1
        self.second += 1
        return await super().nodes()


@pytest.fixture
def clusters() -> list[Changing]:
    """The clusters to which the recorder has connected."""
    return []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, clusters: list[Changing]) -> list[Exception | None]:
    """The answers to the recorder's next connections; None: the cluster answers, as it does when
    the list is at its end."""
    given: list[Exception | None] = []

    @contextlib.asynccontextmanager
    async def opened(state: str, *, patience_s: float) -> AsyncIterator[Changing]:
        if (error := given.pop(0) if given else None) is not None:
            raise error
        clusters.append(Changing())
        yield clusters[-1]

    monkeypatch.setattr(client, "Client", SimpleNamespace(open=opened))
    monkeypatch.setattr(loop_thread, "AGAIN_S", 0.0)
    monkeypatch.setattr(loop_thread, "STOP_S", 60.0)
    return given


def recorded(folder: Path) -> list[tuple[int, str]]:
    """The time and the part of everything in the ring."""
    files = [RecordingFile(path.read_bytes(), path.name) for path in segments(folder / FOLDER)]
    found = [each for file in files for block in file.blocks for each in file.moments(block)]
    return [(each.t_ns, each.part) for each in found]


def test_it_goes_on_after_every_kind_of_failure(
    tmp_path: Path, answers: list[Exception | None]
) -> None:
    answers += [NotFound("no endpoint yet"), Unavailable("the broker is gone"), OSError(28, "full")]
    answers += [RuntimeError("nobody expected this")]
    made = recorder(tmp_path)
    made.start()
    wait_until(lambda: made.counters.get("recording_ring_bytes", 0) > 0, "a block is written")
    made.stop()
    assert answers == [] and {part for _, part in recorded(tmp_path)} >= {"nodes", "devices"}
    assert not made._thread.alive


def test_what_was_sampled_is_written_at_the_end_and_the_next_one_goes_on(
    tmp_path: Path, answers: list[Exception | None], clusters: list[Changing]
) -> None:
    """Blocks are written every five seconds, so the end comes before the second one."""
    times = set[int]()
    for number in range(2):
        made = recorder(tmp_path)
        made.start()
        wait_until(lambda at=number: len(clusters) > at and clusters[at].samples > 3, "samples")  # type: ignore[misc]
        made.stop()
        before, times = times, {t_ns for t_ns, part in recorded(tmp_path) if part == "nodes"}
        assert before < times and len(times) >= len(before) + 3


@pytest.mark.parametrize("given", [{"joined": True}, {"enabled": False}])
def test_a_node_that_records_nothing_has_no_thread(tmp_path: Path, given: dict[str, bool]) -> None:
    made = recorder(tmp_path, **given)
    made.start()
    made.stop()
    assert not made._thread.alive and made.counters == {} and not list(tmp_path.iterdir())
