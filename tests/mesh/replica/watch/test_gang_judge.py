# SPDX-License-Identifier: Apache-2.0
"""Ranks of one gang on two nodes, which tell once a second what they have done: who is named."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from stoker.mesh.replica.watch.gang_judge import FRESH_NS, GangJudge, RankVerdict
from stoker.native.slow_rank import WELL_NS
from stoker.scheduler.nouns import CommunicatorSample, MemberSample

S = 1_000_000_000
MS = 1_000_000
KEY, RANKS = 7, 4
CALL = "mpi.MPI_Allreduce"


@dataclass
class Gang:
    """Ranks 0 and 1 on node a, 2 and 3 on node b, which tells `apart_ns` later. All go from one
    operation to the next together, when the slowest has come."""

    work_ms: list[float] = field(default_factory=lambda: [10.0] * RANKS)
    apart_ns: int = 400 * MS
    queued_ms: list[float] = field(default_factory=lambda: [0.0] * RANKS)
    judge: GangJudge = field(default_factory=GangJudge)
    now_ns: int = S
    done_ns: int = S
    entered: int = 1
    own_ns: list[float] = field(default_factory=lambda: [0.0] * RANKS)
    queue_ns: list[float] = field(default_factory=lambda: [0.0] * RANKS)
    absent: int | None = None
    """A rank that comes into no operation any more."""
    absent_ns: int = 0
    from_start: bool = True
    silent: set[str] = field(default_factory=set)

    def go_on(self, to_ns: int) -> None:
        both = [a + b for a, b in zip(self.work_ms, self.queued_ms, strict=True)]
        while self.absent is None and self.done_ns + max(both) * MS <= to_ns:
            self.done_ns += int(max(both) * MS)
            self.entered += 1
            for rank in range(RANKS):
                self.own_ns[rank] += self.work_ms[rank] * MS
                self.queue_ns[rank] += self.queued_ms[rank] * MS
        self.now_ns = to_ns

    def sample(self, rank: int) -> MemberSample:
        waits = self.absent is not None and rank != self.absent
        return MemberSample(
            rank, rank, self.entered + waits, int(self.own_ns[rank]), int(self.queue_ns[rank]),
            self.now_ns - self.absent_ns if waits else None, self.from_start,
        )  # fmt: skip

    def tell(self, node: str) -> tuple[RankVerdict, ...]:
        ranks = (0, 1) if node == "a" else (2, 3)
        members = tuple(self.sample(rank) for rank in ranks)
        if node not in self.silent:
            row = CommunicatorSample(KEY, RANKS, CALL, members)
            self.judge.take(node, (row,), self.now_ns)
        return self.judge.judge(self.now_ns)

    def second(self) -> tuple[RankVerdict, ...]:
        self.go_on(self.now_ns + self.apart_ns)
        self.tell("b")
        self.go_on(self.now_ns + S - self.apart_ns)
        return self.tell("a")

    def seconds(self, count: int) -> tuple[RankVerdict, ...]:
        found: tuple[RankVerdict, ...] = ()
        for _ in range(count):
            found = self.second()
        return found

    def stop_coming(self, rank: int) -> None:
        self.absent, self.absent_ns = rank, self.now_ns


@pytest.mark.parametrize("apart_ms", [1, 300, 700, 999])
def test_a_slow_rank_is_named_with_its_node_within_five_seconds(apart_ms: int) -> None:
    gang = Gang(apart_ns=apart_ms * MS)
    assert gang.seconds(20) == ()
    began_ns = gang.now_ns
    gang.work_ms[2] = 12.0
    found: tuple[RankVerdict, ...] = ()
    while not found:
        found = gang.second()
        assert gang.now_ns - began_ns <= 5 * S
    (slow,) = found
    assert (slow.kind, slow.rank, slow.task, slow.node) == ("slow", 2, 2, "b")
    assert slow.named_ns - began_ns <= 5 * S and slow.since_ns < slow.named_ns
    assert slow.text.startswith("rank 2 of 4: in ")
    later = gang.seconds(10)
    assert [each.named_ns for each in later] == [slow.named_ns]
    assert later[0].text.endswith("its own work took 20 % longer")
    assert later[0].longer == pytest.approx(0.2, abs=0.001)
    assert later[0].lag_ns == 0


def test_it_is_well_only_after_a_while() -> None:
    gang = Gang(work_ms=[10, 10, 12, 10])
    gang.seconds(8)
    gang.work_ms[2] = 10.0
    well = next(second for second in range(1, 20) if not gang.second())
    assert well >= WELL_NS // S


def test_nobody_is_named_for_a_wait_for_a_cpu_or_for_what_all_differ_by() -> None:
    assert Gang(queued_ms=[0, 0, 30, 0]).seconds(20) == ()
    assert Gang(work_ms=[10, 11, 12, 12.5]).seconds(20) == ()
    assert Gang(work_ms=[10, 10, 10, 10.3]).seconds(20) == ()
    chance = random.Random(3)
    gang = Gang()
    for _ in range(500):
        gang.work_ms = [10 * (1 + chance.gauss(0, 0.01)) for _ in range(RANKS)]
        assert gang.second() == ()


def test_few_operations_say_nothing_until_there_are_enough() -> None:
    gang = Gang(work_ms=[400, 400, 500, 400])
    assert gang.seconds(15) == ()
    (slow,) = gang.seconds(10)
    assert slow.rank == 2


@pytest.mark.parametrize("from_start", [True, False])
@pytest.mark.parametrize("rank", [1, 3])
def test_a_rank_that_does_not_come_is_named_until_it_comes(rank: int, from_start: bool) -> None:
    gang = Gang(from_start=from_start)
    gang.seconds(3)
    began_ns = gang.now_ns
    gang.stop_coming(rank)
    found: tuple[RankVerdict, ...] = ()
    while not found:
        found = gang.second()
        assert gang.now_ns - began_ns <= 5 * S
    (hung,) = found
    assert (hung.kind, hung.rank, hung.node) == ("hung", rank, "a" if rank < 2 else "b")
    number = f" #{gang.entered + 1}" if from_start else ""
    others = ", ".join(str(each) for each in range(RANKS) if each != rank)
    assert hung.text.startswith(f"MPI_Allreduce{number}: ranks {others} wait since 3.")
    assert hung.text.endswith(f" s for rank {rank}")
    assert hung.since_ns == began_ns
    gang.absent, gang.done_ns = None, gang.now_ns
    assert gang.second() == ()


def test_nobody_is_judged_while_a_node_says_nothing() -> None:
    gang = Gang(work_ms=[10, 10, 12, 10])
    assert [each.rank for each in gang.seconds(8)] == [2]
    gang.silent.add("b")
    gang.seconds(FRESH_NS // S + 1)
    gang.stop_coming(3)
    assert all(each.kind == "slow" for each in gang.seconds(4))
    assert gang.seconds(WELL_NS // S) == ()


def test_the_time_in_which_a_node_could_not_speak_is_its_lag() -> None:
    gang = Gang()
    gang.seconds(10)
    gang.work_ms[2] = 12.0
    gang.second()
    gang.go_on(gang.now_ns + 1200 * MS)  # nobody had a CPU
    found: tuple[RankVerdict, ...] = ()
    while not found:
        found = gang.second()
    assert 1000 * MS <= found[0].lag_ns <= 1300 * MS
