# SPDX-License-Identifier: Apache-2.0
"""When a rank is a straggler, and what people are told of ranks."""

from __future__ import annotations

import msgspec

from stoker.probes.collectives.collective_rows import (
    PRESENT,
    Collectives,
    CommunicatorRow,
    MemberRow,
    MissingRow,
    RankRow,
    StuckRow,
    at_the_end,
    ranks_text,
    stuck_text,
)
from stoker.probes.collectives.straggler import straggler

S = 1_000_000_000


def at(
    t_s: float,
    own_s: list[float],
    last: list[int],
    *,
    queued_s: float = 0.0,
    caused_s: list[float] | None = None,
    name: str = "world",
) -> Collectives:
    """Return rows after `t_s` seconds of ranks that took so long for themselves."""
    caused = caused_s or [0.0] * len(own_s)
    members = tuple(MemberRow(r, last[r], int(each * S), 0) for r, each in enumerate(caused))
    row = CommunicatorRow(name, len(members), True, sum(last), 0, members)
    ranks = tuple(
        RankRow(r, 1, False, 1, 1, 1, 0, 0, 0, 1, int(t_s * S) + 1, int(queued_s * S), int(own * S))
        for r, own in enumerate(own_s)
    )
    return Collectives(int(t_s * S), ranks, (row,), ())


def test_a_rank_whose_work_takes_longer_is_named() -> None:
    found = straggler(at(10, [5, 5, 5.1, 6], [10, 10, 0, 80], caused_s=[0.1, 0.1, 0, 4.5]))
    assert found is not None and (found.rank, found.last, found.operations) == (3, 80, 100)
    assert found.text == (
        "rank 3 came last in 80 of 100 operations: the others waited 15.0 % of their time for it,"
        " and its own work takes 20 % longer"
    )


def test_who_comes_last_for_want_of_a_cpu_is_no_straggler() -> None:
    """A neighbour takes the CPU of rank 0: it comes last, and its work takes no longer."""
    assert straggler(at(10, [5, 5, 5, 5], [90, 5, 5, 0], caused_s=[9, 1, 1, 1])) is None
    # The rank with more work is named although it seldom comes last.
    found = straggler(at(10, [5, 6, 5, 5], [90, 10, 0, 0], caused_s=[9, 1, 0, 0]))
    assert found is not None and found.rank == 1


def test_somebody_always_takes_longest() -> None:
    assert straggler(at(10, [5, 5, 5, 5.2], [25, 25, 25, 25])) is None  # by little
    assert straggler(at(10, [0.5, 0.5, 0.5, 0.6], [0, 0, 0, 100])) is None  # of little
    assert straggler(at(10, [4, 5, 6, 6.5], [25, 25, 25, 25])) is None  # less than they differ
    assert straggler(at(10, [5, 5, 5, 9], [0, 0, 0, 9])) is None  # a few operations say nothing
    assert straggler(at(10, [9.0], [100])) is None
    # It is much of the time in which the ranks had a CPU.
    assert straggler(at(10, [0.5, 0.5, 0.5, 0.6], [0, 0, 0, 100], queued_s=8)) is not None


def test_only_what_is_new_counts() -> None:
    before = at(10, [5, 9], [0, 100])
    assert straggler(at(15, [9, 12], [50, 100]), before) == straggler(at(5, [4, 3], [50, 0]))
    assert straggler(at(15, [8, 12], [50, 100]), before) is None
    # Another communicator has the name by now.
    assert straggler(at(15, [9, 12], [50, 0]), before) is not None


def exchanging(own_s: list[float], waited_s: list[float], *, operations: int = 2) -> Collectives:
    """Return rows after 10 s of ranks that wait for messages, and have had few collectives."""
    found = at(10, own_s, [operations, *[0] * (len(own_s) - 1)])
    ranks = tuple(
        msgspec.structs.replace(row, messages=100, message_ns=int(each * S))
        for row, each in zip(found.ranks, waited_s, strict=True)
    )
    return msgspec.structs.replace(found, ranks=ranks)


def test_by_messages_the_rank_with_more_work_is_named_too() -> None:
    found = straggler(exchanging([5, 5, 8, 5.1], [4, 4, 1, 4]))
    assert found is not None and (found.rank, found.operations) == (2, 100)
    assert found.text == (
        "rank 2 works longest between messages: the others waited 40.0 % of their time for"
        " messages, and its own work takes 60 % longer"
    )
    assert straggler(exchanging([5, 5, 5.1, 5], [4, 4, 4, 4])) is None
    assert straggler(exchanging([0.1, 5, 6], [9, 4, 1])) is None, "by less than they differ"
    # Collectives show who comes last, so they are looked at where there are enough.
    found = straggler(exchanging([5, 5, 8, 5], [4, 4, 1, 4], operations=50))
    assert found is not None and found.communicator == "world"


def test_messages_say_nothing_of_two_ranks_or_of_a_part_of_the_ranks() -> None:
    assert straggler(exchanging([5, 8], [4, 1])) is None
    part = exchanging([5, 5, 8], [4, 4, 1])
    world = msgspec.structs.replace(part.communicators[0], size=6)
    assert straggler(msgspec.structs.replace(part, communicators=(world,))) is None


def test_ranks_are_told_in_few_words() -> None:
    assert ranks_text((3,)) == "rank 3"
    assert ranks_text((5, 0, 1, 2)) == "ranks 0-2,5"


def test_a_job_that_is_over_has_no_present() -> None:
    said = (f"{PRESENT}rank 1 came last", "rank 2 came last")
    rows = msgspec.structs.replace(at(5, [1, 1], [1, 1]), said=said, trouble="rank 1 came last")
    over = at_the_end(rows)
    assert (over.said, over.trouble) == (("rank 2 came last",), "")


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
