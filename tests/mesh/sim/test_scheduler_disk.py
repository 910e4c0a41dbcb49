# SPDX-License-Identifier: Apache-2.0
"""The simulated disk keeps exactly what was stored, and two snapshot files."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest

from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from tests.agent.sim.quiet_world import quiet_world


def stored(disk: SchedulerDisk, after: int, first: int, last: int, promised: int = 1) -> None:
    entries = tuple((index, b"%d" % index) for index in range(first, last + 1))
    disk.store(events.Store(after, entries, promised))


def test_entries_behind_a_place_are_replaced() -> None:
    disk = SchedulerDisk()
    stored(disk, 0, 1, 5)
    stored(disk, 3, 4, 4, promised=9)
    assert [index for index, _ in disk.held] == [1, 2, 3, 4]
    assert disk.promised == 9
    assert disk.entry(4) == b"4" and disk.entry(5) is None and disk.entry(0) is None


class Saved(NamedTuple):
    """A disk with two files, and the place of the state in them."""

    disk: SchedulerDisk
    index: int


@pytest.fixture
def saved() -> Saved:
    state = quiet_world().schedulers[0].replica.state
    disk = SchedulerDisk()
    for before in (2, 0, 1):  # the newest is not the one that was written last
        save(disk, msgspec.structs.replace(state.snapshot(), index=state.index - before))
    return Saved(disk, state.index)


def save(disk: SchedulerDisk, snapshot: Snapshot) -> None:
    disk.save(snapshot, snapshots.encode(snapshot).data)


def test_two_files_are_kept_and_a_damaged_one_is_passed_over(saved: Saved) -> None:
    disk, index = saved
    assert [file.last_index for file in disk.files] == [index - 1, index]
    found, _ = disk.newest()
    assert found is not None and found.index == index
    disk.damage(100)
    assert disk.files[-1].place is None
    found, _ = disk.newest()
    assert found is not None and found.index == index - 1
    assert disk.snapshot_place is not None and disk.snapshot_place.index == index - 1


def test_an_installed_file_is_the_only_one_and_the_word_stays(saved: Saved) -> None:
    disk, index = saved
    disk.store(events.Store(0, (), 17, (9, 2)))
    disk.install(disk.files[-1].data)
    assert disk.held == [] and len(disk.files) == 1
    assert (disk.promised, disk.floor) == (17, (9, 2))
    assert disk.snapshot_place is not None and disk.snapshot_place.index == index
    disk.install(b"")
    assert disk.files == [] and disk.newest() == (None, b"")


def test_a_lost_disk_has_nothing_and_says_so(saved: Saved) -> None:
    disk, _ = saved
    stored(disk, 0, 1, 2, promised=17)
    disk.lose()
    assert (disk.held, disk.files, disk.promised, disk.floor) == ([], [], 0, FORGOTTEN)
