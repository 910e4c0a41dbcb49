# SPDX-License-Identifier: Apache-2.0
"""Lines of telemetry: each kind says what it is about, and hostile text stays one line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from stoker.tui.render import telemetry_lines

T_NS = int(datetime(2026, 5, 4, 3, 2, 1, 234000).timestamp() * 1e9)


@pytest.mark.parametrize(
    ("kind", "row", "says"),
    [
        (
            "events",
            {"user": "eve", "job": 7, "what": "failed", "reason": "exit code 3"},
            "job 7 of eve  failed  exit code 3",
        ),
        (
            "events",
            {"what": "device.cordoned", "node": "n1", "device": "d", "reason": "hot"},
            "n1  d  device.cordoned  hot",
        ),
        (
            "decisions",
            {
                "job": 7,
                "task": 2,
                "node": "n1",
                "devices": [{"device": "d", "milli": 1000}],
                "reason": "coolest",
                "observations": [4, 5],
            },
            "job 7.2  n1  d  coolest  2 observations",
        ),
        ("outcomes", {"job": 7, "state": "failed", "exit_code": 3}, "job 7  failed  exit 3"),
        (
            "kernels",
            {
                "job": 7,
                "simulated": True,
                "final": True,
                "kernels": [{"name": "add", "count": 3, "total_ns": 1_500_000}],
                "other": {"names": 2},
            },
            "job 7  SIM  final  add 3x 1.50 ms  and 2 more",
        ),
        ("kernels", {"job": 7, "kernels": []}, "job 7  no kernels"),
        (
            "observations",
            {
                "node": "n1",
                "load_milli": 1500,
                "devices": [{"id": "d", "busy_ratio": 0.5, "power_w": None, "temperature_c": 51.0}],
            },
            "n1  load 1.50  d 50 % busy 51 C",
        ),
        ("events", {"unreadable": "x"}, ""),
    ],
)
def test_lines(kind: str, row: dict[str, Any], says: str) -> None:
    line = telemetry_lines.line(kind, T_NS, row)
    assert line.rstrip() == f"03:02:01.234  {kind:<12}  {says}".rstrip()


def test_a_name_cannot_break_a_line() -> None:
    row = {"job": 7, "what": "failed", "reason": "one\ntwo\x1b[31m"}
    assert "\n" not in telemetry_lines.line("events", T_NS, row)
    assert "\x1b" not in telemetry_lines.line("events", T_NS, row)
    assert telemetry_lines.lost(T_NS, "events", "3 messages lost").endswith("-- 3 messages lost")
