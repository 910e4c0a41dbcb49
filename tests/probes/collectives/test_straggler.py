# SPDX-License-Identifier: Apache-2.0
"""When a rank is a straggler, and what people are told of ranks."""

from __future__ import annotations

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    MissingRow,
    RankRow,
    StuckRow,
    ranks_text,
    stuck_text,
)
from stoker.probes.collectives.straggler import straggler

S = 1_000_000_000


def at(t_s: float, caused_s: list[float], last: list[int], name: str = "world") -> Collectives:
    """Return rows after `t_s` seconds of ranks that cost the others so much."""
    members = tuple(
        MemberRow(rank, last[rank], int(each * S), 0) for rank, each in enumerate(caused_s)
    )
    row = CommunicatorRow(name, len(members), True, sum(last), 0, members)
    ranks = (RankRow(0, 1, False, 1, 1, 1, 0, 0, 0, 1, int(t_s * S) + 1),)
    return Collectives(int(t_s * S), ranks, (row,), ())


def test_a_rank_for_which_the_others_wait_is_named() -> None:
    found = straggler(at(10, [0.1, 0.1, 0.0, 4.5], [10, 10, 0, 80]))
    assert found is not None and (found.rank, found.last, found.operations) == (3, 80, 100)
    assert found.text == (
        "rank 3 came last in 80 of 100 operations: the others waited 15.0 % of their time for it"
    )


def test_somebody_always_comes_last() -> None:
    assert straggler(at(10, [0.01, 0.01, 0.01, 0.04], [10, 10, 0, 80])) is None  # hardly any wait
    assert straggler(at(10, [2, 2, 2, 2.5], [25, 25, 25, 25])) is None  # for all alike
    assert straggler(at(10, [0, 0, 0, 9], [0, 0, 0, 9])) is None  # a few operations say nothing
    assert straggler(at(10, [9.0], [100])) is None


def test_only_what_is_new_counts() -> None:
    before = at(10, [0.0, 5.0], [0, 100])
    assert straggler(at(15, [2.0, 5.0], [50, 100]), before) == straggler(at(5, [2.0, 0.0], [50, 0]))
    assert straggler(at(15, [0.0, 5.0], [50, 100]), before) is None
    # Another communicator has the name by now.
    assert straggler(at(15, [2.0, 0.0], [50, 0]), before) is not None


def test_ranks_are_told_in_few_words() -> None:
    assert ranks_text((3,)) == "rank 3"
    assert ranks_text((5, 0, 1, 2)) == "ranks 0-2,5"


def test_what_does_not_go_on_is_one_sentence() -> None:
    row = StuckRow("world", "mpi.MPI_Allreduce", 1042, S, (0, 1, 2), (MissingRow(3),))
    assert stuck_text(row, int(7.2 * S)) == (
        "MPI_Allreduce #1042: ranks 0-2 wait since 6.2 s for rank 3"
    )
    row = StuckRow(
        "world", "mpi.MPI_Barrier", 1, S, (0,), (MissingRow(1, "mpi.MPI_Recv", S), MissingRow(2))
    )
    assert stuck_text(row, 5 * S) == (
        "MPI_Barrier #1: rank 0 waits since 4.0 s for ranks 1-2 (rank 1 is in MPI_Recv)"
    )
    row = StuckRow("world", "mpi.MPI_Barrier", 8, S, (0, 1), ())
    assert stuck_text(row, 5 * S) == (
        "MPI_Barrier #8: ranks 0-1 are all in it since 4.0 s and none comes out"
    )
