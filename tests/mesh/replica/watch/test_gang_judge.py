# SPDX-License-Identifier: Apache-2.0
"""Ranks of one gang on two nodes, which tell once a second what they have done: who is named."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from stoker.mesh.replica.watch.gang_judge import FRESH_NS, SILENT_NS, GangJudge, RankVerdict
from stoker.native.slow_rank import WELL_NS
from stoker.scheduler.nouns import CommunicatorSample, MemberSample

S = 1_000_000_000
MS = 1_000_000
KEY, RANKS = 7, 4
CALL = "mpi.MPI_Allreduce"
WAY_NS = 3 * MS
CLOCKS = {"a": 5_000 * S, "b": 77 * S}


@dataclass
class Gang:
    """Ranks 0 and 1 on node a, 2 and 3 on node b, which tells `apart_ns` later. All go from one
    operation to the next together, when the slowest has come. The clocks of the nodes are CLOCKS
    ahead of the judge's."""

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
    parts: tuple[int, ...] = (0,) * RANKS
    """The part of each rank; one call has made them of all ranks."""
    silent: set[str] = field(default_factory=set)
    late_ns: dict[str, int] = field(default_factory=lambda: {"a": MS, "b": WAY_NS})
    """The time for which a node's words are on their way."""
    on_way: list[tuple[int, str, CommunicatorSample, int]] = field(default_factory=list)

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
        absent = self.absent
        waits = absent is not None and rank != absent and self.parts[rank] == self.parts[absent]
        return MemberSample(
            rank, rank, self.entered + waits, int(self.own_ns[rank]), int(self.queue_ns[rank]),
            self.now_ns - self.absent_ns if waits else None, self.from_start, self.parts[rank],
        )  # fmt: skip

    def tell(self, node: str) -> tuple[RankVerdict, ...]:
        ranks = (0, 1) if node == "a" else (2, 3)
        members = tuple(self.sample(rank) for rank in ranks)
        if node not in self.silent:
            row = CommunicatorSample(KEY, RANKS, CALL, members)
            comes_ns = self.now_ns + self.late_ns[node]
            self.on_way.append((comes_ns, node, row, self.now_ns + CLOCKS[node]))
        return self.hear(self.now_ns + WAY_NS)

    def hear(self, to_ns: int) -> tuple[RankVerdict, ...]:
        """Have the judge hear what comes until then."""
        for words in sorted(self.on_way, key=lambda each: each[0]):
            came_ns, node, row, told_ns = words
            if came_ns <= to_ns:
                self.on_way.remove(words)
                self.judge.take(node, (row,), came_ns, told_ns)
                self.judge.judge(came_ns)
        return self.judge.judge(to_ns)

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
    assert later[0].lag_ns <= WAY_NS


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
    assert 0 <= hung.since_ns - began_ns <= WAY_NS
    gang.absent, gang.done_ns = None, gang.now_ns
    assert gang.second() == ()


def test_nobody_is_judged_while_a_node_says_nothing() -> None:
    gang = Gang(work_ms=[10, 10, 12, 10])
    assert [each.rank for each in gang.seconds(8)] == [2]
    gang.silent.add("b")
    gang.seconds(FRESH_NS // S + 1)
    gang.stop_coming(3)
    assert all(each.kind == "slow" for each in gang.seconds(4))
    assert gang.seconds(SILENT_NS // S) == ()


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


def test_a_rank_that_does_not_come_is_named_once_although_nodes_speak_seldom() -> None:
    """No node has a CPU for more than a moment in four seconds, and its words are on their way."""
    gang = Gang(late_ns={"a": 700 * MS, "b": 1200 * MS})
    gang.seconds(3)
    gang.stop_coming(1)
    found: list[RankVerdict] = []
    for _ in range(10):
        gang.go_on(gang.now_ns + 4 * S)
        gang.tell("a")
        gang.go_on(gang.now_ns + 2 * S)
        found += gang.tell("b")
    assert {(each.kind, each.rank) for each in found} == {("hung", 1)}
    assert len(found) >= 8 and len({(each.since_ns, each.named_ns) for each in found}) == 1


def test_a_rank_is_not_missing_because_its_nodes_words_come_late() -> None:
    """The words of the node of ranks 2 and 3 are four seconds on their way when rank 1 comes no
    more. When those come that are from before, ranks of the other node have waited for 3 s."""
    gang = Gang()
    gang.seconds(30)
    gang.late_ns["b"] = 4 * S
    found: set[int] = set()
    for step in range(100):
        if step == 15:
            gang.stop_coming(1)
        gang.go_on(gang.now_ns + 100 * MS)
        found |= {each.rank for each in (*gang.tell("b"), *gang.tell("a"))}
    assert found == {1}


def test_words_that_are_repeated_are_no_news() -> None:
    """An agent without a CPU for its tracing thread tells again what it knew last."""
    gang = Gang(work_ms=[10, 10, 12, 10])
    assert [each.rank for each in gang.seconds(8)] == [2]
    row = CommunicatorSample(KEY, RANKS, CALL, (gang.sample(2), gang.sample(3)))
    told_ns = gang.now_ns + CLOCKS["b"]
    gang.silent.add("b")
    for _ in range(SILENT_NS // S + WELL_NS // S):
        gang.judge.take("b", (row,), gang.now_ns, told_ns)
        found = gang.second()
    assert found == ()


def test_ranks_of_one_part_are_compared_with_each_other_alone() -> None:
    """Ranks 0 and 2, and 1 and 3, are together: one of each node."""
    gang = Gang(work_ms=[10, 20, 12, 20], parts=(0, 1, 0, 1))
    (slow,) = gang.seconds(12)
    assert (slow.kind, slow.rank, slow.node) == ("slow", 2, "b")
    assert slow.text.startswith("rank 2 of ranks 0, 2: in ")
    assert slow.longer == pytest.approx(0.2, abs=0.001)


def test_a_rank_that_does_not_come_into_its_part_is_named_by_those_of_the_part() -> None:
    gang = Gang(parts=(0, 1, 0, 1))
    gang.seconds(3)
    gang.stop_coming(3)
    (hung,) = gang.seconds(5)
    assert (hung.kind, hung.rank, hung.node) == ("hung", 3, "b")
    assert ": rank 1 waits since " in hung.text and hung.text.endswith(" s for rank 3")


def test_nobody_of_a_part_is_judged_before_all_have_come_out_of_the_call_that_made_it() -> None:
    gang = Gang(work_ms=[10, 10, 12, 10], parts=(0, 1, 0, 1))
    for _ in range(8):
        gang.go_on(gang.now_ns + S)
        for node, ranks in (("a", (0, 1)), ("b", (2,))):
            members = tuple(gang.sample(rank) for rank in ranks)
            told = CommunicatorSample(KEY, RANKS, CALL, members)
            gang.judge.take(node, (told,), gang.now_ns)
        assert gang.judge.judge(gang.now_ns) == ()
    assert [each.rank for each in gang.seconds(8)] == [2]


def test_a_rank_is_not_missing_because_its_node_was_frozen() -> None:
    """Ranks of node a wait for 6 s for those of b, which can do nothing and then come at once."""
    gang = Gang()
    gang.seconds(3)
    gang.stop_coming(3)
    gang.silent.add("b")
    assert gang.seconds(6) == ()
    resumed_ns = gang.now_ns + CLOCKS["b"]
    for _ in range(15):
        gang.go_on(gang.now_ns + 100 * MS)
        row = CommunicatorSample(KEY, RANKS, CALL, (gang.sample(2), gang.sample(3)))
        gang.judge.take("b", (row,), gang.now_ns, gang.now_ns + CLOCKS["b"], resumed_ns)
        assert gang.tell("a") == ()
    gang.go_on(gang.now_ns + S)
    row = CommunicatorSample(KEY, RANKS, CALL, (gang.sample(2), gang.sample(3)))
    gang.judge.take("b", (row,), gang.now_ns, gang.now_ns + CLOCKS["b"], resumed_ns)
    assert [each.rank for each in gang.tell("a")] == [3], "it had its time"


def test_words_that_all_come_at_once_are_late() -> None:
    """A judge without a CPU hears everything when it has one."""
    gang = Gang()
    gang.stop_coming(1)
    for _ in range(6):
        gang.go_on(gang.now_ns + S)
        for node, ranks in (("a", (0, 1)), ("b", (2, 3))):
            row = CommunicatorSample(KEY, RANKS, CALL, tuple(map(gang.sample, ranks)))
            gang.on_way.append((9 * S, node, row, gang.now_ns + CLOCKS[node]))
    (hung,) = gang.hear(9 * S)
    assert (hung.rank, hung.named_ns) == (1, 9 * S)
    assert S <= hung.since_ns <= 3 * S, "it is known but for the way of the fastest word"
    assert hung.named_ns - S <= 5 * S + hung.lag_ns
