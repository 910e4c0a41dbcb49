# SPDX-License-Identifier: Apache-2.0
"""A node takes no jobs while a disk is short or its launches fail, and nothing makes that flap."""

from __future__ import annotations

import pytest

from stoker.agent.health.shortage import (
    BACK_FOR_S,
    MIB,
    REST_MAX_S,
    REST_S,
    DiskReserve,
    FileSystem,
    Shortage,
)

PLACE = "/var/lib/stoker"


def disk(free: float, size: float = 512, **more: int) -> FileSystem:
    """Return a disk with so many MiB."""
    return FileSystem(PLACE, int(size * MIB), int(free * MIB), **more)


@pytest.fixture
def shortage() -> Shortage:
    return Shortage(DiskReserve())


def test_a_small_disk_is_short_below_a_twentieth_and_back_at_twice_as_much(
    shortage: Shortage,
) -> None:
    assert shortage.look([disk(25.7)], 0) == ""
    why = shortage.look([disk(20)], 1)
    assert why == (
        f"20.0 MiB are free at {PLACE}, fewer than 25.6 MiB: make room until 51.2 MiB are free"
    )
    assert shortage.look([disk(3)], 2) == why, "the words stay, or each look were a new report"
    assert shortage.look([disk(51.1)], 3) == why
    assert shortage.look([disk(52)], 4) == why, "not for long enough yet"
    assert shortage.look([disk(40)], 5) == why, "and the time begins anew"
    assert shortage.look([disk(52)], 6) == why
    assert shortage.look([disk(52)], 6 + BACK_FOR_S) == ""


def test_a_large_disk_keeps_the_reserve_and_no_more(shortage: Shortage) -> None:
    assert shortage.look([disk(65, size=1 << 20)], 0) == ""
    assert "fewer than 64.0 MiB" in shortage.look([disk(63, size=1 << 20)], 1)
    assert Shortage(DiskReserve(reserve_bytes=0)).look([disk(0)], 0) == ""


def test_inodes_run_out_as_bytes_do(shortage: Shortage) -> None:
    assert shortage.look([disk(500)], 0) == "", "a file system without a limit on inodes"
    assert shortage.look([disk(500, files=1000, files_free=51)], 1) == ""
    why = shortage.look([disk(500, files=1000, files_free=49)], 2)
    assert why == f"49 inodes are free at {PLACE}, fewer than 50: remove files until 100 are free"
    assert shortage.look([disk(500, files=1000, files_free=99)], 3) == why


def test_each_disk_counts_and_one_that_cannot_be_read_is_short(shortage: Shortage) -> None:
    shm = FileSystem("/dev/shm", why="Input/output error")
    why = shortage.look([disk(1), shm], 0)
    assert PLACE in why and why.endswith("/dev/shm cannot be read: Input/output error")
    well = [disk(500), FileSystem("/dev/shm", MIB, MIB)]
    shortage.look(well, 1)
    assert shortage.look(well, 1 + BACK_FOR_S) == ""


def test_a_node_rests_after_a_launch_that_failed_and_longer_each_time(shortage: Shortage) -> None:
    now, rests = 0.0, []
    for _ in range(7):
        shortage.failed("no process", now)
        shortage.failed("another of the same moment", now)
        rests.append(next(s for s in range(1000) if not shortage.look([], now + s)))
        now += rests[-1]
    assert rests == [REST_S, 20, 40, 80, 160, REST_MAX_S, REST_MAX_S]
    shortage.failed("long after that", now + REST_MAX_S)
    assert shortage.why == f"long after that; it takes no jobs for {REST_S:g} s"
