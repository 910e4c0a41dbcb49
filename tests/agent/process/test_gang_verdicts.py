# SPDX-License-Identifier: Apache-2.0
"""A verdict of the leader on ranks here holds while the leader repeats it."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.process import gang_verdicts
from stoker.agent.process.gang_verdicts import GangVerdicts
from stoker.agent.tracing.rank_notice import RankNotice
from stoker.mesh.wire.queries import RanksQuery
from stoker.scheduler.nouns import TaskKey, TroubleSample

START = StartRecord(7, 1, 3, 99, 1, 0, 5.0, devices=("gpu-3",), rank_trouble="restart")
SLOW = TroubleSample(3, "slow", "rank 3 of 8: its own work takes 20 % longer", 3, 0.2, 1, 2, 0)
HUNG = TroubleSample(3, "hung", "MPI_Barrier #7: rank 0 waits since 3.0 s for rank 3", 3)


class Node:
    def __init__(self) -> None:
        self.alive = {START.key: START}
        self.said: list[str] = []
        self.heard = asyncio.Event()
        self.verdicts = GangVerdicts(self.alive.get, self.notice)

    def notice(self, notice: RankNotice) -> None:
        assert notice.home == START and notice.devices == ("gpu-3",)
        found = notice.found
        self.lasts_ns = time.monotonic_ns() - found.trouble.since_ns
        self.heard.set()
        self.said.append(f"{'-' if found.over else '+'}{found.trouble.kind} {found.rank}")

    def tell(self, *troubles: TroubleSample, key: TaskKey = START.key) -> list[str]:
        known = self.verdicts.told(RanksQuery(*key, troubles))
        assert known == (key in self.alive)
        said, self.said = self.said, []
        return said


async def test_each_verdict_begins_once_and_ends_once() -> None:
    node = Node()
    assert node.tell(SLOW) == ["+slow 3"]
    assert node.tell(SLOW) == []
    assert sorted(node.tell(HUNG)) == ["+hung 3", "-slow 3"]
    assert node.tell() == ["-hung 3"]
    assert node.tell() == []


async def test_a_verdict_is_as_old_as_the_leader_says() -> None:
    node = Node()
    lasts_ns = 20_000_000_000
    node.tell(msgspec.structs.replace(HUNG, lasts_ns=lasts_ns))
    assert lasts_ns <= node.lasts_ns <= lasts_ns + 10_000_000_000


async def test_an_attempt_that_is_not_here_is_not_judged() -> None:
    node = Node()
    assert node.tell(SLOW, key=TaskKey(7, 1, 3, 100)) == []
    assert node.tell(SLOW, key=TaskKey(7, 2, 3, 99)) == []


async def test_a_verdict_is_over_when_the_leader_repeats_it_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_verdicts, "SILENT_S", 0.01)
    node = Node()
    node.tell(SLOW)
    node.heard.clear()
    async with asyncio.timeout(60):
        await node.heard.wait()
    assert node.said == ["-slow 3"]


async def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_verdicts, "TASKS_MAX", 0)
    assert Node().tell(SLOW) == []
