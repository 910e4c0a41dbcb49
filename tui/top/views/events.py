# SPDX-License-Identifier: Apache-2.0
"""The view `events`: what happened in the past minutes, oldest first; it stays at its end.

Pure. What may be missing stands in its place.
"""

from __future__ import annotations

from datetime import datetime

from stoker.mesh.client.kept_telemetry import Told
from stoker.tui.render import telemetry_lines
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Tone
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words

_BAD = ("failed", "lost", "evicted", "silent", "timeout", "cordoned")


def _time(row: Told, look: Look) -> str:
    return datetime.fromtimestamp(row.t_ns / 1e9).strftime("%H:%M:%S")


def _about(row: Told) -> str:
    if row.lost:
        return "--"
    if "job" in row.row:
        return f"job {row.row['job']}"
    return ":".join(filter(None, (str(row.row.get("node", "")), str(row.row.get("device", "")))))


def _what(row: Told) -> str:
    if row.lost:
        return "lost"
    return str(row.row.get("what", "")) or telemetry_lines.line(row.kind, 0, row.row)


def _why(row: Told) -> str:
    return row.lost or str(row.row.get("reason", ""))


def _tone(row: Told, answers: Answers, look: Look) -> Tone:
    if row.lost:
        return "warn"
    return "bad" if str(row.row.get("what", "")) in _BAD else ""


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.events is None:
        return [words.absent("events", answers.refused.get("events", ""))]
    return []


VIEW = View(
    name="events",
    title="Events",
    says="what happened to jobs, nodes and devices in the past minutes",
    needs=("events",),
    items=lambda answers, subject: answers.events or (),
    head=_head,
    columns=(
        ViewColumn[Told]("TIME", 8, _time, leaves=1),
        ViewColumn("ABOUT", 16, lambda row, look: _about(row), order=_about),
        ViewColumn("WHAT", 14, lambda row, look: _what(row), order=_what),
        ViewColumn("USER", 10, lambda row, look: str(row.row.get("user", "-")), leaves=2),
        ViewColumn("REASON", 16, lambda row, look: _why(row), grows=True),
    ),
    key=lambda row: f"{row.t_ns} {_about(row)} {_what(row)}",
    text=lambda row: f"{_about(row)} {_what(row)} {row.row.get('user', '')} {_why(row)}",
    tone=_tone,
    empty="nothing has happened in the past minutes",
    into="job",
    into_subject=lambda row: str(row.row.get("job", "")),
    job=lambda row: str(row.row.get("job", "")),
    ends=True,
)
