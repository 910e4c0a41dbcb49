# SPDX-License-Identifier: Apache-2.0
"""The clock check: its figures on known observations, and a real run on PoCL."""

from __future__ import annotations

import pytest

from stoker.native import errors, paths
from stoker.probes.kernels.clock_check import (
    FAR_NS,
    ClockCheck,
    Gaps,
    Observed,
    clock_check,
    figures,
    gaps,
)
from stoker.probes.kernels.job_trace import ClockAlignment

CLAIMED = ClockAlignment("CLOCK_MONOTONIC_RAW", 5, 0, 40)


def observed(shift_ns: int, count: int = 100) -> list[Observed]:
    """A kernel of 1 us whose tracer is `shift_ns` late, seen 150 ns and 90 ns after it wrote."""
    return [
        (at + shift_ns, at + 1_000 + shift_ns, at + 200, at + 940, 60, 60)
        for at in range(10**12, 10**12 + count * 10_000, 10_000)
    ]


def test_figures_of_clocks_that_agree() -> None:
    check = figures(observed(0), CLAIMED)
    assert check.start == Gaps(200, 200, 200, 200)
    assert check.end == Gaps(60, 60, 60, 60)
    assert (check.error_p99_ns, check.too_late_ns, check.launches) == (200, 200, 100)
    assert check.agrees


@pytest.mark.parametrize("shift", [300, FAR_NS + 1_000, -FAR_NS - 1_000])
def test_a_tracer_that_is_off_is_found(shift: int) -> None:
    check = figures(observed(shift), CLAIMED)
    assert not check.agrees
    assert check.start.p50 == 200 - shift


def test_what_an_observer_that_was_not_running_saw_is_left_out_and_counted() -> None:
    rows = observed(0)
    for at in (20, 50):
        start, end, seen_start, seen_end, _, _ = rows[at]
        rows[at] = (start, end, seen_start + 4_000_000, seen_end + 4_000_000, 4_000_050, 60)
    check = figures(rows, CLAIMED)
    assert (check.launches, check.disturbed, check.agrees) == (98, 2, True)
    assert check.start.most == 200


def test_ranks() -> None:
    assert gaps(range(1, 201)) == Gaps(1, 101, 199, 200)
    assert gaps([7]) == Gaps(7, 7, 7, 7)


def test_nothing_observed_is_refused() -> None:
    with pytest.raises(errors.Unavailable):
        figures([])


def watched(launches: int) -> ClockCheck:
    """On a machine so busy that the observer never runs in time there is no answer: once more."""
    for _ in range(4):
        try:
            return clock_check(launches)
        except errors.Unavailable as why:
            assert "observed in time" in why.message, why
    return clock_check(launches)


def test_on_pocl_the_tracer_agrees_with_what_the_host_sees() -> None:
    check = watched(100)
    assert check.launches + check.disturbed == 100
    assert check.claimed is not None and check.claimed.source == "CLOCK_MONOTONIC_RAW"
    assert check.agrees, check


def test_without_the_program_it_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise paths.NotBuilt(f"{name} was not built")

    monkeypatch.setattr(paths, "program", missing)
    with pytest.raises(errors.Unavailable):
        clock_check(10)
