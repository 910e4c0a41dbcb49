# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them."""

from __future__ import annotations

import pytest

from stoker.scheduler.figures import Figure


@pytest.mark.parametrize(
    ("number", "unit", "says"),
    [
        (1, "bytes", "1 byte"),
        (1023, "bytes", "1023 bytes"),
        (20 << 20, "bytes", "20 MiB"),
        (3 << 29, "bytes", "1.5 GiB"),
        (1 << 70, "bytes", "1024 EiB"),
        (1000, "cpus", "1 CPU"),
        (2500, "cpus", "2.5 CPUs"),
        (0, "cpus", "0 CPUs"),
        (300, "devices", "0.3 of a device"),
        (1000, "devices", "1 device"),
        (2500, "devices", "2.5 devices"),
        (500, "share", "0.5"),
        (350, "span", "350 ns"),
        (35_200, "span", "35.2 us"),
        (3_200_000_000, "span", "3.2 s"),
        (238_266_506_497, "span", "3 min 58 s"),
        (7_810 * 10**9, "span", "2 h 10 min"),
        (90 * 3600 * 10**9, "span", "3 days 18 h"),
        (-5, "span", "0 ns"),
        (7, "", "7"),
        (7, "03d", "007"),
    ],
)
def test_a_figure_is_said_in_its_unit(number: int, unit: str, says: str) -> None:
    assert format(Figure(number), unit) == says
