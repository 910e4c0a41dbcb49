# SPDX-License-Identifier: Apache-2.0
"""Records of two jobs' ranks, given to the right job, with what nobody takes."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from typing import Any, cast

import pytest

from stoker.agent.tracing.rank_watch import RankWatch
from stoker.native import _peers
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_targets import TARGETS
from stoker.probes.calls.library_copies import Copy, copies_of

RECORD = struct.Struct("<QQQIIHHIII")
RECV = [target.id for target in TARGETS].index("mpi.MPI_Recv")


class Told:
    """Stands in for the probes: it has what the kernel has told."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.processes: dict[int, dict[int, Copy]] = {}

    def collectives(self) -> bytes:
        found, self.records = b"".join(self.records), []
        return found

    def told(self, job: int) -> dict[int, Copy]:
        return self.processes.get(job, {})

    def call(self, pid: int, enter: int, leave: int) -> None:
        for at, what in ((enter, _peers.ENTER), (leave, _peers.LEAVE)):
            self.records.append(RECORD.pack(at, 0, 0, pid, pid, RECV, what, 0, 0, 0))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], env={"RANK": "3", "WORLD_SIZE": "4"})
    yield process
    process.kill()
    process.wait()


def waits(watch: RankWatch, job: int) -> list[tuple[int, int]]:
    found = watch.waits(job)
    assert found is not None
    return [(a, b) for a, b, *_ in struct.iter_unpack("<QQIHH", found[0])]


def test_each_job_gets_its_own_and_the_rest_is_counted(sleeper: subprocess.Popen[bytes]) -> None:
    told, watch = Told(), RankWatch()
    probes = cast(CallProbes, cast(Any, told))
    (copy,) = copies_of(os.getpid(), ("libc.so",))
    told.processes = {1: {os.getpid(): copy}, 2: {sleeper.pid: copy}}
    for job in (1, 2):
        watch.begin(job)
        assert watch.waits(job) is None
    told.call(os.getpid(), 10, 20)
    told.call(sleeper.pid, 30, 50)
    told.call(1, 60, 70)
    watch.drain(probes)
    assert waits(watch, 1) == [(10, 20)] and waits(watch, 2) == [(30, 50)]
    assert watch.strays == 2
    found = watch.collectives(2, 100)
    assert found is not None and [(row.rank, row.wait_ns) for row in found.ranks] == [(3, 20)]


def test_tasks_of_a_gang_are_ranks_of_one_another(sleeper: subprocess.Popen[bytes]) -> None:
    """Each task gets the waits of its own threads; both tell of all ranks."""
    told, watch = Told(), RankWatch()
    probes = cast(CallProbes, cast(Any, told))
    (copy,) = copies_of(os.getpid(), ("libc.so",))
    told.processes = {1: {os.getpid(): copy}, 2: {sleeper.pid: copy}}
    for task in (1, 2):
        watch.begin(task, (77, 1))
    told.call(os.getpid(), 10, 20)
    told.call(sleeper.pid, 30, 50)
    watch.drain(probes)
    assert waits(watch, 1) == [(10, 20)] and waits(watch, 2) == [(30, 50)]
    assert watch.strays == 0
    for task in (1, 2):
        found = watch.collectives(task, 100)
        assert found is not None and [row.rank for row in found.ranks] == [0, 3]
    watch.end(1)
    assert watch.collectives(1, 100) is None and watch.collectives(2, 100) is not None
    watch.end(2)
    assert watch.collectives(2, 100) is None and watch.judge(lambda task: False) == []


def test_the_last_records_of_a_process_are_taken_when_it_is_gone(
    sleeper: subprocess.Popen[bytes],
) -> None:
    told, watch = Told(), RankWatch()
    probes = cast(CallProbes, cast(Any, told))
    (copy,) = copies_of(os.getpid(), ("libc.so",))
    told.processes = {2: {sleeper.pid: copy}}
    watch.begin(2)
    watch.drain(probes)
    sleeper.kill()
    sleeper.wait()
    told.processes = {}
    watch.drain(probes)
    told.call(sleeper.pid, 30, 50)  # was in the ring before its end was noticed
    watch.drain(probes)
    assert waits(watch, 2) == [(30, 50)]
    told.call(sleeper.pid, 60, 80)  # of another process with its id
    watch.drain(probes)
    assert waits(watch, 2) == [] and watch.strays == 2
    found = watch.collectives(2, 100)
    assert found is not None and found.ranks[0].ended
    watch.end(2)
    assert watch.collectives(2, 100) is None
