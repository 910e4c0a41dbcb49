# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job in its report."""

from __future__ import annotations

from typing import Any

from stoker.tui.render import ranks


def rank(number: int, wait_ns: int, caused_ns: int, last: int, **more: Any) -> dict[str, Any]:
    about = {"calls": 100, "ended": False, "seen_ns": 0, "until_ns": 10**10}
    return {
        "rank": number,
        "wait_ns": wait_ns,
        "caused_ns": caused_ns,
        "last": last,
        **about,
    } | more


def trace(rows: list[dict[str, Any]], *said: str) -> dict[str, Any]:
    communicators = [{"operations": 100}]
    return {"collectives": {"ranks": rows, "communicators": communicators, "said": said}}


def test_the_rank_that_others_waited_for_comes_first() -> None:
    rows = [rank(0, 2 * 10**9, 0, 3), rank(1, 0, 2 * 10**9, 97, ended=True)]
    assert list(ranks.lines(trace(rows, "rank 1 came last in 97 of 100 operations"))) == [
        "ranks of 100 collective operations        waited           waited for  came last",
        "  rank 1, ended                             0 ns   0.0 %          2 s         97",
        "  rank 0                                     2 s  20.0 %         0 ns          3",
        "  rank 1 came last in 97 of 100 operations",
    ]


def test_why_nobody_is_named_is_told_where_the_ranks_waited_long() -> None:
    why = "rank 3 is 0.600 s behind, the spread of the others is 1.000 s"
    for wait_ns, told in ((2 * 10**9, True), (10**7, False)):
        found = trace([rank(each, wait_ns, 0, 50) for each in range(2)])
        found["collectives"]["unnamed"] = why
        assert (f"  no rank is named as slow: {why}" in " ".join(ranks.lines(found, 120))) == told


def test_a_job_without_ranks_has_no_lines() -> None:
    assert list(ranks.lines({})) == []
    assert list(ranks.lines({"collectives": None})) == []
    assert list(ranks.lines(trace([rank(0, 0, 0, 0, calls=0)]))) == []


def test_many_ranks_are_cut_and_lines_fit() -> None:
    rows = [rank(number, 1, number, 1) for number in range(40)]
    found = list(ranks.lines(trace(rows, "word " * 60 + "\x1b[31m")))
    assert "  and 28 more" in found
    lines = "\n".join(found).splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
