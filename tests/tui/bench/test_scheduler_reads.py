# SPDX-License-Identifier: Apache-2.0
"""The reads of the log's bench: which rounds count. `test_log.py` has real ones."""

from __future__ import annotations

from stoker.tui.bench import scheduler_reads

MS = 1_000_000


def test_the_ratio_is_that_of_the_best_round() -> None:
    quiet = ([1 * MS] * 3, [2 * MS] * 3, [1 * MS] * 3)
    noisy = ([2 * MS] * 3, [9 * MS] * 3, [1 * MS] * 3)
    leader, follower, stale = scheduler_reads.rows([quiet, noisy])
    assert [row.kind for row in (leader, follower, stale)] == list(scheduler_reads.KINDS)
    assert (leader.reads, leader.p50_ms, leader.p99_ms, leader.ratio) == (6, 1.0, 2.0, 1.0)
    assert (follower.p99_ms, follower.ratio, follower.added_p50_ms) == (9.0, 2.0, 1.0)
    assert stale.ratio == 0.5, "the round in which the leader was disturbed"
