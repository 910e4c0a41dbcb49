# SPDX-License-Identifier: Apache-2.0
"""The device time of a gang in its report: a line for each rank, and one for all of them.

Pure: the object of `stoker job -o json` in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.tui.render import text, units
from stoker.tui.render.device_causes import CAUSES, percentages

RANKS_MAX = 16
"""The most ranks with a line; `-o json` has all."""
CAUSES_MAX = 3
"""The most causes in a line, the largest first; fewer where they do not fit."""
LABEL = 11

Object = Mapping[str, Any]


def lines(job: Object, width: int = text.PAGE) -> Iterator[str]:
    """Return the lines, none for a job whose ranks called no device."""
    times: Sequence[Object] = job.get("rank_times") or ()
    if not any(time["window_ns"] for time in times):
        return
    yield f"time of the devices of {len(times)} ranks"
    for time in times[:RANKS_MAX]:
        yield _line(f"  rank {time['rank']}", time, width)
    if len(times) > RANKS_MAX:
        yield f"  and {len(times) - RANKS_MAX} more: stoker job {job['job']} -o json"
    causes = {name: sum(time["causes"].get(name, 0) for time in times) for name in CAUSES}
    window_ns = sum(time["window_ns"] for time in times)
    yield _line("  all", {"window_ns": window_ns, "causes": causes, "absent": ""}, width)


def _line(name: str, time: Object, width: int) -> str:
    if time["absent"]:
        return _fitted(f"{name:<{LABEL}}not known: {text.clean(time['absent'])}", width)
    shares = percentages([time["causes"].get(cause, 0) for cause in CAUSES], time["window_ns"])
    largest = sorted(zip(shares, CAUSES.values(), strict=True), key=lambda each: -each[0])
    parts = [f"{cause} {share:.1f} %" for share, cause in largest[:CAUSES_MAX] if share]
    start = f"{name:<{LABEL}}{units.duration(time['window_ns']):>10}: "
    while len(parts) > 1 and text.cells(start + ", ".join(parts)) > width:
        parts.pop()  # a whole cause rather than half a word
    return _fitted(start + ", ".join(parts), width)


def _fitted(line: str, width: int) -> str:
    return text.fit(line, width).rstrip()
