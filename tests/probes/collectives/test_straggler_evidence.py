# SPDX-License-Identifier: Apache-2.0
"""The account of a judgement of ranks says what was seen of each, and why nobody is named."""

from __future__ import annotations

from stoker.probes.collectives.straggler import straggler
from tests.probes.collectives.rank_rows import S, rows
from tests.soak import rank_evidence


def test_the_account_has_the_times_of_each_rank_and_the_conditions() -> None:
    (line,) = rank_evidence.account(rows(9, [5, 5.1]))
    assert line.startswith("world: 100 operations in 9.000 s; rank 0: own 5.000 s, no CPU 0.000 s")
    assert "rank 1 is 0.100 s behind, 5 % of the others' own time is 0.250 s" in line


def test_a_window_counts_what_came_since() -> None:
    before, now = rows(10, [5, 5, 5], times=100), rows(13, [6, 6, 6.5], queued_s=0.2, times=130)
    found = rank_evidence.since(now, before)
    assert [row.own_ns for row in found.ranks] == [S, S, 3 * S // 2]
    assert found.communicators[0].operations == 30
    assert rank_evidence.account(found)[0].endswith("every condition holds")
    whole = straggler(now, before)
    assert whole is not None and whole.rank == 2
