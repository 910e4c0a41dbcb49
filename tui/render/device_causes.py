# SPDX-License-Identifier: Apache-2.0
"""The causes of a device's time as a report names them, and their shares, which add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.tui.render import text, units

CAUSES = {
    "kernel_ns": "busy: kernel",
    "copy_ns": "busy: copy",
    "host_on_cpu_ns": "host: on CPU",
    "host_runnable_ns": "host: waits for a CPU",
    "host_blocked_ns": "host: blocked",
    "host_paging_ns": "host: paging or I/O",
    "peer_ns": "waiting for a peer",
    "throttled_ns": "throttled",
    "held_idle_ns": "held but idle",
    "not_observed_ns": "not observed",
}
"""The causes of a trace summary in the order of the accounting, with their names in a report."""


def percentages(parts: Sequence[int], whole: int) -> list[float]:
    """Shares in tenths of a percent, by largest remainder: 100.0 in all if parts fill the whole."""
    if whole <= 0:
        return [0.0] * len(parts)
    exact = [part * 1000 / whole for part in parts]
    floors = [int(value) for value in exact]
    spare = round(sum(exact)) - sum(floors)
    by_remainder = sorted(range(len(parts)), key=lambda i: floors[i] - exact[i])
    for index in by_remainder[:spare]:
        floors[index] += 1
    return [floor / 10 for floor in floors]


_SOURCES = {
    "counter": "by the driver's counters",
    "quota": "by the kernel's counters",
    "sampled": "by the driver's reasons, looked up once a second",
}


def throttles(device: Mapping[str, Any]) -> str:
    """The throttles of a device with their times; empty if there were none, or none is known."""
    found = device.get("throttle") or {}
    rows = found.get("causes") or ()
    if not rows:
        return ""
    said = ", ".join(f"{text.clean(row['cause'])} {units.duration(row['ns'])}" for row in rows)
    source = _SOURCES.get(found["source"], "")
    error = f", within {units.duration(found['error_ns'])}" if found["error_ns"] else ""
    return f"throttled by {said}{' ' + source if source else ''}{error}"
