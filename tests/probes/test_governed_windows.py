# SPDX-License-Identifier: Apache-2.0
"""Windows in which governed tracers time launches: one in each period, anywhere in it alike."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROBES = HERE.parents[1] / "probes"


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("windows") / "windows"
    source = HERE / "governed" / "windows.c"
    argv = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{PROBES}", "-o", program, source]
    subprocess.run(argv, check=True)
    return program


def drawn(
    program: Path, share_ppm: int, seconds: int, *, tick_ms: int = 1, seed: int = 7
) -> list[list[int]]:
    """Each tick: [ms, timed, start of the period, its length, length of its window]."""
    argv = [program, str(share_ppm), str(seconds), str(tick_ms), str(seed)]
    out = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return [list(map(int, line.split())) for line in out.splitlines()]


@pytest.mark.parametrize("share_ppm", [500_000, 100_000, 20_000, 5_000])
def test_the_share_is_what_was_asked_for(windows: Path, share_ppm: int) -> None:
    ticks = drawn(windows, share_ppm, 1200, tick_ms=10)
    whole = [tick for tick in ticks if tick[2] + tick[3] <= ticks[-1][0]]
    share = sum(tick[1] for tick in whole) / len(whole)
    assert share == pytest.approx(share_ppm / 1e6, rel=0.05)


def test_every_period_has_one_window_of_its_length_inside_of_it(windows: Path) -> None:
    periods: dict[int, list[list[int]]] = defaultdict(list)
    for tick in drawn(windows, 100_000, 60):
        periods[tick[2]].append(tick)
    starts = sorted(periods)
    assert all(after - before == 1000 for before, after in pairwise(starts))
    for start in starts[:-1]:
        timed = [tick[0] for tick in periods[start] if tick[1]]
        assert len(timed) == periods[start][0][4] == 100
        assert timed[-1] - timed[0] == 99
        assert start <= timed[0] and timed[-1] < start + 1000


def test_a_small_share_makes_periods_longer_and_windows_not_shorter(windows: Path) -> None:
    tick = drawn(windows, 10_000, 20)[-1]
    assert (tick[3], tick[4]) == (6000, 60)


def test_a_window_is_anywhere_in_its_period_alike(windows: Path) -> None:
    ticks = drawn(windows, 100_000, 1000, tick_ms=5)
    first = [tick[0] - tick[2] for before, tick in pairwise(ticks) if tick[1] and not before[1]]
    bins = [sum(1 for at in first if low <= at < low + 180) for low in range(0, 900, 180)]
    # 1,000 draws, 5 equal bins: 200 each, give or take 4 standard deviations of 13.
    assert all(abs(count - len(first) / 5) < 55 for count in bins), bins


def test_all_the_time_is_no_window_at_all(windows: Path) -> None:
    assert all(tick[1] for tick in drawn(windows, 1_000_000, 5))


def test_seeds_differ(windows: Path) -> None:
    assert drawn(windows, 100_000, 20, seed=3) != drawn(windows, 100_000, 20, seed=5)
