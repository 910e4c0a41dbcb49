# SPDX-License-Identifier: Apache-2.0
"""The device time of a gang's ranks: the largest causes of each, a reason where it is unknown."""

from __future__ import annotations

from typing import Any

from stoker.tui.render import rank_times


def time(rank: int, absent: str = "", **causes: int) -> dict[str, Any]:
    return {"rank": rank, "window_ns": sum(causes.values()), "causes": causes, "absent": absent}


def test_each_rank_has_its_largest_causes_and_all_have_the_sum() -> None:
    first = time(0, kernel_ns=600_000_000, peer_ns=300_000_000, throttled_ns=100_000_000)
    second = time(1, kernel_ns=900_000_000, copy_ns=50_000_000, peer_ns=40_000_000, held_idle_ns=9)
    lost = time(2, absent="node n2 does not answer")
    rows = {"job": 7, "rank_times": [first, second, lost]}
    narrow = list(rank_times.lines(rows))
    assert narrow[1] == "  rank 0          1 s: busy: kernel 60.0 %, waiting for a peer 30.0 %"
    found = list(rank_times.lines(rows, 100))
    assert found == [
        "time of the devices of 3 ranks",
        "  rank 0          1 s: busy: kernel 60.0 %, waiting for a peer 30.0 %, throttled 10.0 %",
        "  rank 1       990 ms: busy: kernel 90.9 %, busy: copy 5.1 %, waiting for a peer 4.0 %",
        "  rank 2   not known: node n2 does not answer",
        "  all          1.99 s: busy: kernel 75.4 %, waiting for a peer 17.1 %, throttled 5.0 %",
    ]


def test_many_ranks_are_cut_and_the_sum_has_all() -> None:
    many = [time(rank, kernel_ns=1_000_000_000) for rank in range(20)]
    found = list(rank_times.lines({"job": 7, "rank_times": many}))
    assert len(found) == 1 + rank_times.RANKS_MAX + 2
    assert found[-2] == "  and 4 more: stoker job 7 -o json"
    assert found[-1].split()[:3] == ["all", "20", "s:"]


def test_a_job_without_device_time_has_no_lines() -> None:
    assert list(rank_times.lines({"job": 7})) == []
    assert list(rank_times.lines({"job": 7, "rank_times": [time(0, absent="off")]})) == []
