# SPDX-License-Identifier: Apache-2.0
"""The benchmark of telemetry on a real broker: what it counts, and the table of it."""

from __future__ import annotations

from typing import Any

from stoker.tui.bench import telemetry


def test_a_short_run() -> None:
    said: list[str] = []
    result: dict[str, Any] = telemetry.measure(1, 64, said.append)
    assert [row["message_bytes"] for row in result["rows"]] == list(telemetry.SIZES)
    for row in result["rows"]:
        assert row["messages"] == 128
        assert min(row[name] for name in row if name.endswith("_ns")) > 0
    assert said == ["400 bytes: round 1 of 1", "8000 bytes: round 1 of 1"]
    lines = telemetry.text(result).splitlines()
    assert len(lines) == 3 and lines[1].split()[0] == "400"
