# SPDX-License-Identifier: Apache-2.0
"""Quantities as text: three digits and a unit."""

import pytest

from stoker.tui.render import units


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (812, "812 ns"),
        (1240, "1.24 us"),
        (12_340_000, "12.3 ms"),
        (999_999, "1.00 ms"),
        (4_560_000_000, "4.56 s"),
        (125_000_000_000, "2m 05s"),
        (3 * 3600 * 10**9, "3h 00m"),
        (100 * 3600 * 10**9, "4d 04h"),
        (None, "-"),
    ],
)
def test_durations_keep_three_digits(ns: int | None, text: str) -> None:
    assert units.duration(ns) == text


def test_sizes_and_shares_for_people() -> None:
    assert [units.size(n) for n in (0, 1536, 4 << 30, 3 << 40)] == [
        "0 B",
        "1.50 KiB",
        "4 GiB",
        "3 TiB",
    ]
    assert [units.share(n) for n in (0, 5, 500, 2000)] == ["0", "0.005", "0.5", "2"]
