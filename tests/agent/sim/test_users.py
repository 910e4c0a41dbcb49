# SPDX-License-Identifier: Apache-2.0
"""The simulated users follow arrays, whose ends are entries that faults may delay."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World, shape_of
from stoker.mesh.log.entry import ArrayBlob, ArrayCancelBlob, RangeEndBlob
from stoker.mesh.replica import array_steps
from stoker.mesh.replica.entry_step import EntryStep
from stoker.scheduler.book import Book


def test_jobs_follow_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    told: set[int] = set()
    take = array_steps.take

    def noted(
        book: Book, blob: ArrayBlob | ArrayCancelBlob | RangeEndBlob, step: EntryStep
    ) -> None:
        if isinstance(blob, RangeEndBlob):
            told.update(job for job, _ in blob.told)
        take(book, blob, step)

    monkeypatch.setattr(array_steps, "take", noted)
    world = World(1_200_000, shape_of(1_200_000))
    world.run()
    assert world.audit.violations == [] and world.runs.violations == []
    assert len(told) > 5, "these jobs waited for all jobs of an array"
