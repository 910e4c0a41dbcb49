# SPDX-License-Identifier: Apache-2.0
"""When a rank is told as one that gets no CPU."""

from __future__ import annotations

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
)
from stoker.probes.collectives.starved_rank import starved_rank

S = 1_000_000_000


def rows(own_s: list[float], queued_s: list[float], last: list[int]) -> Collectives:
    """Return rows after 30 s of ranks."""
    ranks = tuple(
        RankRow(r, 1, False, 1, 1, 1, 0, 0, 0, 1, 30 * S + 1, int(queued * S), int(own * S))
        for r, (own, queued) in enumerate(zip(own_s, queued_s, strict=True))
    )
    members = tuple(MemberRow(rank, each, 0, 0) for rank, each in enumerate(last))
    world = CommunicatorRow("world", len(members), True, sum(last), 0, members)
    return Collectives(30 * S, ranks, (world,), ())


def test_a_rank_that_lacks_a_cpu_longer_than_its_work_explains_is_told() -> None:
    found = starved_rank(rows([0.9, 0.8, 0.8, 0.8], [8, 26, 8, 8], [0, 99, 3, 0]))
    assert found is not None and found.text == (
        "rank 1 came last in 99 of 102 operations for want of a CPU: it had none for 87 % of the"
        " time, 60 points more than its work explains"
    )


def test_on_busy_cpus_ranks_lack_one_in_proportion_to_their_work() -> None:
    slow = rows([0.83, 0.83, 1.33, 0.83], [9.4, 8.4, 13.5, 8.9], [10, 5, 86, 1])
    assert starved_rank(slow) is None
    assert starved_rank(rows([0.8, 0.8, 0.8, 0.8], [5, 7, 7, 9.5], [10, 10, 10, 70])) is None
    assert starved_rank(rows([0.8, 0.8, 0.8], [8, 9, 20], [40, 40, 22])) is None, "seldom last"
    assert starved_rank(rows([0.8, 0.8, 0.8], [1, 1, 2], [0, 0, 100])) is None, "by little"
    assert starved_rank(rows([0.8, 0.8], [1, 20], [0, 9])) is None, "few operations"
    assert starved_rank(rows([0.8], [20], [50])) is None
    assert starved_rank(rows([0, 0], [20, 0], [50, 0])) is None, "nothing is known of their work"
