# SPDX-License-Identifier: Apache-2.0
"""The reads of the log's bench: which rounds count, and real reads at three schedulers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stoker.tui.bench import brokers, scheduler_reads

MS = 1_000_000


def test_the_ratio_is_that_of_the_best_round() -> None:
    quiet = ([1 * MS] * 3, [2 * MS] * 3, [1 * MS] * 3)
    noisy = ([2 * MS] * 3, [9 * MS] * 3, [1 * MS] * 3)
    leader, follower, stale = scheduler_reads.rows([quiet, noisy])
    assert [row.kind for row in (leader, follower, stale)] == list(scheduler_reads.KINDS)
    assert (leader.reads, leader.p50_ms, leader.p99_ms, leader.ratio) == (6, 1.0, 2.0, 1.0)
    assert (follower.p99_ms, follower.ratio, follower.added_p50_ms) == (9.0, 2.0, 1.0)
    assert stale.ratio == 0.5, "the round in which the leader was disturbed"


def test_reads_at_three_schedulers(tmp_path: Path) -> None:
    with (
        brokers.running(tmp_path, scheduler_reads.SERVERS, servers=True) as group,
        scheduler_reads.running(group),
    ):
        rows = asyncio.run(scheduler_reads.measure(group, 1, 10))
    assert [row.reads for row in rows] == [10, 10, 10]
    assert all(0 < row.p50_ms <= row.p99_ms for row in rows)
