# SPDX-License-Identifier: Apache-2.0
"""Counts and times of calls: sums of them, and what is said of them in a summary."""

from __future__ import annotations

import random

import pytest

from stoker.probes.calls.call_records import NONE, CallTimes, call_row, quantile_ns


def times(*took_ns: int, still_open: int = 0) -> CallTimes:
    log2 = [0] * 40
    for ns in took_ns:
        log2[ns.bit_length() - 1] += 1
    count = len(took_ns)
    longest = max(took_ns, default=0)
    return CallTimes(count + still_open, count, sum(took_ns), longest, tuple(log2))


def test_sums_add_up_and_keep_the_longest() -> None:
    both = times(100, 200, still_open=1).plus(times(1000))
    assert both == times(100, 200, 1000, still_open=1)


def test_quantiles_are_within_the_square_root_of_two() -> None:
    chance = random.Random(1)
    took = sorted(int(chance.lognormvariate(9, 2)) + 1 for _ in range(1001))
    found = times(*took)
    for part in (0.5, 0.99):
        exact = took[int(part * 1000)]
        said = quantile_ns(found.log2, part)
        assert said is not None
        assert exact / 1.5 <= said <= exact * 1.5


def test_a_row_says_what_goes_on_and_how_much_was_seen() -> None:
    row = call_row("cuda.cuLaunchKernel", times(1000, 1000, 9000, still_open=2), 0.5)
    assert (row.name, row.count, row.open, row.seen) == ("cuda.cuLaunchKernel", 5, 2, 0.5)
    assert (row.total_ns, row.longest_ns) == (11_000, 9_000)
    assert row.p50_ns == pytest.approx(724, abs=1)
    assert row.p99_ns == pytest.approx(11585, abs=1)
    assert row.note == ""


def test_without_a_call_there_is_no_quantile() -> None:
    assert quantile_ns(times().log2, 0.5) is None
    assert call_row("x", times(still_open=1), 1.0).p99_ns is None
    none = call_row("x", NONE, 0.25)
    assert (none.count, none.p50_ns, none.seen, none.note) == (0, None, 0.25, "sampled, saw none")
