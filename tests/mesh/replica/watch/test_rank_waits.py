# SPDX-License-Identifier: Apache-2.0
"""Ranks in several communicators: which one holds the others up."""

from __future__ import annotations

from stoker.mesh.replica.watch.rank_waits import Heard, Members, held_ranks, stuck_of
from stoker.scheduler.nouns import MemberSample

S = 1_000_000_000
NOW = 100 * S


def members(entered: dict[int, int], waits_s: dict[int, float], counted: bool = True) -> Members:
    return {
        rank: Heard(
            MemberSample(
                rank, rank, count, 0, 0,
                int(waits_s[rank] * S) if rank in waits_s else None, counted,
            ),
            "n1", NOW,
        )
        for rank, count in entered.items()
    }  # fmt: skip


def test_those_who_have_not_entered_the_newest_operation_are_missing() -> None:
    found = stuck_of(members({0: 7, 1: 7, 2: 6, 3: 7}, {0: 4, 1: 2}))
    assert (found.waits, found.missing) == ({0: NOW - 4 * S, 1: NOW - 2 * S}, (2,))
    assert (found.number, found.longest_ns, found.since_ns) == (7, 4 * S, NOW - 4 * S)


def test_without_counts_those_who_do_not_wait_are_missing() -> None:
    found = stuck_of(members({0: 7, 1: 3, 2: 6}, {0: 4, 1: 2}, counted=False))
    assert (set(found.waits), found.missing, found.number) == ({0, 1}, (2,), 0)


def test_nobody_is_missing_where_nobody_waits() -> None:
    found = stuck_of(members({0: 7, 1: 6}, {}))
    assert (found.waits, found.missing, found.longest_ns) == ({}, (), 0)


def test_a_rank_that_waits_for_another_one_holds_nobody_up() -> None:
    """Rows and columns of four ranks: 3 does not come into its row, where 2 waits for it, so 2 does
    not come into its column, where 0 waits, nor 0 into its row, where 1 waits."""
    row, column = {2: 5, 3: 4}, {0: 5, 2: 4}
    chain = [
        stuck_of(members(row, {2: 9})),
        stuck_of(members(column, {0: 9.5})),
        stuck_of(members({1: 8, 0: 7}, {1: 10})),
    ]
    assert [each.missing for each in chain] == [(3,), (2,), (0,)]
    assert held_ranks(chain) == {0, 1, 2}


def test_ranks_that_wait_for_each_other_are_not_held_by_anybody() -> None:
    chain = [stuck_of(members({0: 5, 1: 4}, {0: 9})), stuck_of(members({0: 3, 1: 4}, {1: 9}))]
    assert held_ranks(chain) == set()
