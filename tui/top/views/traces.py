# SPDX-License-Identifier: Apache-2.0
"""The view `traces`: a device's time, second by second: a lane for each cause and for each kernel.

Pure: differences of the summaries that nodes publish once a second while a traced job launches. A
cell is a share of its second; a blank is a second without a summary, which is not a second of rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.mesh.client.kept_telemetry import Told
from stoker.tui.render import units
from stoker.tui.render.device_causes import CAUSES
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, cell, line
from stoker.tui.top.view import View
from stoker.tui.top.views import device as device_view
from stoker.tui.top.views import job, words

SECOND_NS = 1_000_000_000
LABEL = 24
TOTAL = 10
KERNEL_LANES = 24
"""The most kernels with a lane, those with the most time first."""


class Delta(NamedTuple):
    """The growth of a summary since the one before it: nanoseconds by name, between two moments."""

    from_ns: int
    to_ns: int
    causes: Mapping[str, int]
    kernels: Mapping[str, int]


def deltas(told: Sequence[Told], node: str, device: str) -> Iterator[Delta]:
    """Yield what each summary of an attempt on this device says beyond the one before it."""
    before: dict[tuple[int, int, int], tuple[int, dict[str, int], dict[str, int]]] = {}
    for each in told:
        row = each.row
        found = next((d for d in row.get("devices", ()) if d["id"] == device), None)
        if found is None or row.get("node") != node:
            continue
        attempt = row["job"], row["attempt"], row.get("task", 0)
        causes = {name: found["causes"].get(name) or 0 for name in CAUSES}
        kernels = _totals(row)
        t_ns = row.get("t_ns", each.t_ns)
        if attempt in before:
            then_ns, causes_then, kernels_then = before[attempt]
            yield Delta(then_ns, t_ns, _less(causes, causes_then), _less(kernels, kernels_then))
        before[attempt] = t_ns, causes, kernels


def _totals(row: Mapping[str, Any]) -> dict[str, int]:
    """Return the device time of each kernel and copy of a summary, by name."""
    totals: dict[str, int] = {}
    for each in (*row.get("kernels", ()), *row.get("copies", ())):
        totals[each["name"]] = totals.get(each["name"], 0) + each["total_ns"]
    return totals


def _less(now: Mapping[str, int], then: Mapping[str, int]) -> dict[str, int]:
    """Return what has grown; a total that shrank was an estimate, and says nothing of a second."""
    return {name: max(0, value - then.get(name, 0)) for name, value in now.items()}


def cells(
    found: Sequence[Delta], lane: str, name: str, end_ns: int, count: int
) -> list[float | None]:
    """Return the share of each of the last `count` seconds in which a lane was at work."""
    spent: list[float] = [0.0] * count
    seen: list[float] = [0.0] * count
    for each in found:
        value = (each.causes if lane == "cause" else each.kernels).get(name, 0)
        for at, part in _spread(each, end_ns, count):
            spent[at] += value * part / max(each.to_ns - each.from_ns, 1)
            seen[at] += part
    return [
        None if not covered else total / SECOND_NS
        for total, covered in zip(spent, seen, strict=True)
    ]


def _spread(delta: Delta, end_ns: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (second, nanoseconds of the difference that lie in it)."""
    start_ns = end_ns - count * SECOND_NS
    first = max(0, (delta.from_ns - start_ns) // SECOND_NS)
    for at in range(first, count):
        low = start_ns + at * SECOND_NS
        part = min(delta.to_ns, low + SECOND_NS) - max(delta.from_ns, low)
        if part <= 0:
            break
        yield at, part


def _lines(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.devices is None or answers.summaries is None:
        return [words.absent("summaries", answers.refused.get("summaries", ""))]
    device = device_view.device_of(answers, subject)
    if device is None:
        return [line(f"there is no device {subject}: `:devices` lists them", "bad")]
    found = list(deltas(answers.summaries, device.node, device.id))
    sim = " SIM" if device.sim else ""
    head = (Piece(f"{device.model}{sim} ", "title"), Piece(f"{device.id} on {device.node}"))
    if not found:
        why = "no traced job has launched anything here in the past minutes"
        return [head, line(why, "dim")]
    count = max(4, look.columns - LABEL - TOTAL - 1)
    end_ns = max(each.to_ns for each in found)
    age = f"; the newest summary is {words.ago(end_ns, look.now_ns)} old"
    lines: list[Line] = [head, line(f"{count} seconds, each a cell{age}", "dim")]
    lines += _lanes(found, "cause", CAUSES, (end_ns, count), look)
    names = _busiest(found)
    lines.append((Piece(f"{'kernels and copies':<{LABEL}}", "head"),))
    lines += _lanes(found, "kernel", {name: name for name in names}, (end_ns, count), look)
    return lines


def _busiest(found: Sequence[Delta]) -> list[str]:
    totals: dict[str, int] = {}
    for each in found:
        for name, spent in each.kernels.items():
            totals[name] = totals.get(name, 0) + spent
    return sorted(totals, key=lambda name: -totals[name])[:KERNEL_LANES]


def _lanes(
    found: Sequence[Delta], lane: str, names: Mapping[str, str], axis: tuple[int, int], look: Look
) -> Iterator[Line]:
    for name, title in names.items():
        shares = cells(found, lane, name, *axis)
        total = sum(share for share in shares if share is not None)
        if total <= 0:
            continue
        drawn = "".join(_cell(share, look) for share in shares)
        tone: Tone = job.CAUSE_TONES.get(name, "") if lane == "cause" else "good"
        yield (
            Piece(cell(title, LABEL, look.marks), "dim"), Piece(drawn, tone),
            Piece(f"{units.duration(total * SECOND_NS):>{TOTAL}}"),
        )  # fmt: skip


def _cell(share: float | None, look: Look) -> str:
    if share is None:
        return " "
    return look.marks.dot if share < 0.01 else look.marks.level(max(share, 0.13))


VIEW = View(
    name="traces",
    title="Traces",
    says="where a device's time goes, second by second, by cause and by kernel",
    needs=("summaries", "devices"),
    subject="device",
    lines=_lines,
)
