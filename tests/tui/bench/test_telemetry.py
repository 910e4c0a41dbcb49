# SPDX-License-Identifier: Apache-2.0
"""The benchmark of telemetry on a real broker: what it counts, and the table of it."""

from __future__ import annotations

from typing import Any

from stoker.tui.bench import telemetry
from stoker.tui.bench.telemetry_flood import FloodLoad


def test_a_short_run() -> None:
    said: list[str] = []
    result: dict[str, Any] = telemetry.measure(1, 64, FloodLoad(1, 20, 500), said.append)
    assert [row["message_bytes"] for row in result["rows"]] == list(telemetry.SIZES)
    for row in result["rows"]:
        assert row["messages"] == 128
        assert min(row[name] for name in row if name.endswith("_ns")) > 0
    assert said[:2] == ["400 bytes: round 1 of 1", "8000 bytes: round 1 of 1"]
    lines = telemetry.text(result).splitlines()
    assert lines[1].split()[0] == "400" and len(lines[:3]) == 3
    assert said[2:] == ["appends beside a flood: round 1 of 1"]
    log = result["log"]
    assert log["appends"] == 40
    assert 0 < log["quiet_p50_ms"] <= log["quiet_p99_ms"]
    assert 0 < log["flood_p50_ms"] <= log["flood_p99_ms"]
    assert log["flood_messages_per_s"] > 0
    assert [line.split()[0] for line in lines[4:]] == ["APPEND", "quiet", "beside"]
