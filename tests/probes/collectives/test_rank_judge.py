# SPDX-License-Identifier: Apache-2.0
"""Ranks judged while they run: soon, and without flapping."""

from __future__ import annotations

import random
from collections.abc import Iterator

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    MissingRow,
    RankRow,
    StuckRow,
)
from stoker.probes.collectives.rank_judge import WELL_NS, RankJudge

S = 1_000_000_000
RANKS = 4


class Job:
    """Ranks whose own time of each second is given; an operation takes a tenth of a second."""

    def __init__(self) -> None:
        self.judge = RankJudge()
        self.t_s = 0
        self.own = [0.0] * RANKS
        self.last = [0] * RANKS

    def second(self, own: list[float], last: int = 0, stuck: tuple[StuckRow, ...] = ()) -> str:
        """One second; returns what began (+) and ended (-) in it."""
        self.t_s += 1
        self.own = [a + b for a, b in zip(self.own, own, strict=True)]
        self.last[last] += 10
        began, ended = self.judge.judge(self._rows(stuck))
        names = [f"+{each.kind}{each.ranks}" for each in began]
        return " ".join(names + [f"-{each.kind}{each.ranks}" for each in ended])

    def _rows(self, stuck: tuple[StuckRow, ...]) -> Collectives:
        at_ns = self.t_s * S
        members = tuple(MemberRow(rank, self.last[rank], 0, 0) for rank in range(RANKS))
        ranks = tuple(
            RankRow(r, r + 1, False, 1, 1, 1, 0, 0, 0, 1, at_ns, 0, int(own * S))
            for r, own in enumerate(self.own)
        )
        row = CommunicatorRow("world", RANKS, True, sum(self.last), 0, members)
        return Collectives(at_ns, ranks, (row,), (), stuck)


def stuck(since_s: int, missing: int = 3) -> StuckRow:
    waiting = tuple(rank for rank in range(RANKS) if rank != missing)
    return StuckRow("world", "mpi.MPI_Barrier", 7, since_s * S, waiting, (MissingRow(missing),))


def seconds(job: Job, count: int, own: list[float], last: int = 0) -> Iterator[str]:
    for _ in range(count):
        yield job.second(own, last)


EVEN = [0.5, 0.5, 0.5, 0.5]
LATE = [0.5, 0.5, 0.62, 0.5]


def test_a_slow_rank_is_named_within_five_seconds_and_once() -> None:
    job = Job()
    said = list(seconds(job, 5, LATE))
    assert [each for each in said if each] == ["+slow(2,)"]
    assert set(seconds(job, 20, LATE)) == {""}
    (trouble,) = job.judge.troubles
    assert trouble.text.endswith("its own work takes 24 % longer")


def test_a_rank_that_becomes_slow_later_is_named_as_soon() -> None:
    job = Job()
    assert set(seconds(job, 100, EVEN)) == {""}
    assert "+slow(2,)" in list(seconds(job, 5, LATE))


def test_a_slow_rank_is_well_only_after_a_while() -> None:
    job = Job()
    list(seconds(job, 10, LATE))
    for _ in range(20):  # it is better now and then
        assert [*seconds(job, 2, EVEN), *seconds(job, 2, LATE)] == [""] * 4
    said = list(seconds(job, 12, EVEN))
    assert [each for each in said if each] == ["-slow(2,)"]
    assert said.index("-slow(2,)") >= WELL_NS // S - 1


def test_ranks_that_are_slow_in_turn_are_not_accused() -> None:
    chance = random.Random(7)
    job = Job()
    for _ in range(400):
        own = list(EVEN)
        own[chance.randrange(RANKS)] += 0.1
        job.second(own)
        assert not [each for each in job.judge.troubles if each.kind == "hung"]
    even = Job()
    for _ in range(2_000):
        noise = [0.5 * (1 + chance.gauss(0, 0.01)) for _ in range(RANKS)]
        assert even.second(noise, last=chance.choice((1, 1, 1, 2))) == ""


def test_a_rank_that_does_not_come_is_named_at_once_and_until_it_comes() -> None:
    job = Job()
    list(seconds(job, 3, EVEN))
    assert job.second(EVEN, stuck=(stuck(1),)) == "+hung(3,)"
    assert job.second(EVEN, stuck=(stuck(1),)) == ""
    (trouble,) = job.judge.troubles
    assert trouble.text == "MPI_Barrier #7: ranks 0-2 wait since 4.0 s for rank 3"
    assert job.second(EVEN) == "-hung(3,)"
    assert job.judge.troubles == ()


def test_the_time_in_which_a_job_was_frozen_is_no_fault_of_its_ranks() -> None:
    job = Job()
    list(seconds(job, 3, EVEN))
    job.judge.rest((job.t_s + 1) * S)
    for _ in range(3):
        assert job.second(EVEN, stuck=(stuck(1),)) == ""
    assert job.second(EVEN, stuck=(stuck(1),)) == "+hung(3,)"
