# SPDX-License-Identifier: Apache-2.0
"""The account of a judgement of ranks: it comes to the verdict of the rule, and says why not."""

from __future__ import annotations

from random import Random

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
)
from stoker.probes.collectives.straggler import straggler
from tests.soak import rank_evidence

S = 1_000_000_000


def rows(
    at_s: float, own_s: list[float], *, queued_s: float = 0.0, times: int = 100
) -> Collectives:
    members = tuple(MemberRow(rank, 1, 0, S) for rank in range(len(own_s)))
    ranks = tuple(
        RankRow(
            rank, 1, False, 1, 1, 1, 0, 0, 0, 1, round(at_s * S) + 1, round(queued_s * S),
            round(own * S),
        )
        for rank, own in enumerate(own_s)
    )  # fmt: skip
    row = CommunicatorRow("world", len(members), True, times, 0, members)
    return Collectives(round(at_s * S), ranks, (row,), ())


def why(found: Collectives) -> list[str]:
    ranks = {row.rank: row for row in found.ranks}
    passed_ns = max((row.until_ns - row.seen_ns for row in found.ranks), default=0)
    return [*rank_evidence.unmet(found.communicators[0], ranks, passed_ns)]


def test_the_account_has_no_objection_exactly_where_the_rule_names_a_rank() -> None:
    random, named = Random(5), 0
    for _ in range(3000):
        own = [random.uniform(0.4, 0.6) for _ in range(random.randrange(1, 6))]
        own[0] *= random.choice((1.0, 1.1, 1.5))
        found = rows(
            random.choice((1, 9)), own, queued_s=random.choice((0, 0.7)),
            times=random.choice((3, 9, 10, 500)),
        )  # fmt: skip
        assert (straggler(found) is not None) == (why(found) == [])
        named += why(found) == []
    assert 200 < named < 2800


def test_each_condition_that_does_not_hold_is_told_with_both_figures() -> None:
    assert why(rows(9, [5, 5, 5, 6], times=4)) == ["4 operations, 10 are needed"]
    assert why(rows(9, [5])) == ["1 ranks, 2 are needed"]
    assert why(rows(9, [4.0, 5, 5, 5.6])) == [
        "rank 3 is 0.600 s behind, the spread of the others is 1.000 s"
    ]
    (line,) = rank_evidence.account(rows(9, [5, 5.1]))
    assert line.startswith("world: 100 operations in 9.000 s; rank 0: own 5.000 s, no CPU 0.000 s")
    assert "rank 1 is 0.100 s behind, 5 % of the others' own time is 0.250 s" in line


def test_a_window_counts_what_came_since() -> None:
    before, now = rows(10, [5, 5, 5], times=100), rows(13, [6, 6, 6.5], queued_s=0.2, times=130)
    found = rank_evidence.since(now, before)
    assert [row.own_ns for row in found.ranks] == [S, S, 3 * S // 2]
    assert found.communicators[0].operations == 30
    assert why(found) == []
    whole = straggler(now, before)
    assert whole is not None and whole.rank == 2
