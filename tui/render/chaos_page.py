# SPDX-License-Identifier: Apache-2.0
"""The page of `stoker chaos`: how long each effect of each kind of fault took, and the judgement.

Pure. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoker.tui.render import tables
from stoker.tui.render.columns import Column, Noun, Row, Says
from stoker.tui.render.nouns import field
from stoker.tui.render.text import clean


def _time(name: str, rank: str) -> Says:
    def says(row: Row, now: int) -> str:
        found = row.get(f"{name}_s")
        return "-" if found is None else f"{found[rank]:.2f}"

    return says


FAULTS = Noun(
    "faults",
    "fault",
    (
        Column("FAULT", field("fault"), least=20),
        Column("TIMES", field("faults"), right=True),
        Column("DECIDES p50", _time("decides", "p50"), right=True),
        Column("max", _time("decides", "max"), right=True),
        Column("ELSEWHERE p50", _time("elsewhere", "p50"), right=True),
        Column("max", _time("elsewhere", "max"), right=True),
        Column("IN STEP p50", _time("in_step", "p50"), right=True),
        Column("max", _time("in_step", "max"), right=True),
        Column("MOVED", field("moved"), right=True),
        Column("FROZE", field("froze"), right=True),
    ),
)


def render(found: Mapping[str, Any]) -> str:
    """Return the page of what `chaos --json` prints."""
    lines = [
        tables.render(FAULTS, found["by_fault"], "table"),
        f"{found['faults']} faults, {found['accepted']} jobs accepted, {found['attempts']} attempts"
        f" that ran, {found['operations']} reads and writes, {found['entries']} entries of the log",
    ]
    lines += [_frames(row) for row in found["by_fault"] if "frames" in row]
    for target in found["targets"]:
        if target["measured_s"] is not None:
            lines.append(_target(target))
    lines += [f"violation: {clean(text)}" for text in found["violations"]]
    lines += [f"not whole: {clean(text)}" for text in found["failures"]]
    if not found["violations"]:
        lines.append("no accepted job was lost, nothing ran twice, and the history is linearizable")
    return "\n".join(lines) + "\n"


def _frames(row: Row) -> str:
    did = row["frames"]
    return (
        f"{row['fault']}: {did['frames']} frames, {did['passed']} passed, {did['lost']} lost,"
        f" {did['full']} too many, {did['under_way']} under way at its end; the latest"
        f" {did['late_s'] * 1000:.1f} ms after it was due"
    )


def _target(target: Mapping[str, Any]) -> str:
    verdict = {None: "too few faults to decide", True: "met", False: "missed"}[target["met"]]
    measured, below = f"{target['measured_s']:.2f} s", f"{target['below_s']:g} s"
    what = f"{target['fault']}, {target['time'].replace('_', ' ')} {target['rank']}"
    return f"{what}: {measured}, target below {below}: {verdict}"
