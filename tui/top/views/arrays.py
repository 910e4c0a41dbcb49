# SPDX-License-Identifier: Apache-2.0
"""The view `array`: the jobs of one array in their order, each in its row.

Pure. The subject is the array as every verb takes it, `5-14`. Of a large array those jobs are read
first that run or went wrong, since the others are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stoker.mesh.wire.schema import JobView
from stoker.scheduler.nouns import JobState
from stoker.tui.render import units
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Tone, line
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words

READ_BY: Final[tuple[tuple[JobState, ...], ...]] = (
    ("running", "starting", "stopping", "failed", "timeout", "lost"),
    ("pending", "cancelled", "succeeded"),
)
"""The states of jobs in the order in which they are read."""


def within(jobs: Sequence[JobView] | None, subject: str) -> tuple[JobView, ...] | None:
    """Return the jobs of an array among others, in their order."""
    first, _, last = subject.partition("-")
    if jobs is None or not (first.isdecimal() and last.isdecimal()):
        return None
    found = (job for job in jobs if int(first) <= job.job <= int(last))
    return tuple(sorted(found, key=lambda job: job.job))


def _index(job: JobView) -> str:
    return str(job.array.index) if job.array is not None else "-"


COLUMNS: tuple[ViewColumn[JobView], ...] = (
    ViewColumn("JOB", 9, lambda job, look: str(job.job), right=True, order=lambda job: job.job),
    ViewColumn("INDEX", 8, lambda job, look: _index(job), right=True),
    ViewColumn("STATE", 9, lambda job, look: job.state, order=lambda job: job.state),
    ViewColumn("AGE", 7, lambda job, look: words.since(job, look.now_ns), right=True, leaves=1),
    ViewColumn("WHERE", 14, lambda job, look: words.where(job), leaves=2, grows=True, most=24,
               order=words.where),
    ViewColumn("REASON", 24, lambda job, look: words.reason(job, look.now_ns), grows=True),
)  # fmt: skip


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    found = answers.array
    if found is None:
        return [words.absent(f"jobs {subject}", answers.refused.get("array", ""))]
    if not found:
        return []
    first = found[0]
    counts: dict[str, int] = {}
    for job in found:
        counts[job.state] = counts.get(job.state, 0) + 1
    size = first.array.size if first.array is not None else len(found)
    part = f"{len(found):,} of its {size:,} jobs: " if len(found) < size else ""
    named = f"{words.job_name(first)} of {first.user}: "
    return [line(named + part + units.counted(counts), "dim")]


def _tone(job: JobView, answers: Answers, look: Look) -> Tone:
    return "bad" if job.troubles else words.JOB_TONES.get(job.state, "")


VIEW = View(
    name="array",
    title="Array",
    says="the jobs of one array, each in its row",
    needs=("array",),
    items=lambda answers, subject: answers.array or (),
    head=_head,
    columns=COLUMNS,
    key=lambda job: str(job.job),
    text=lambda job: f"{job.job} {_index(job)} {job.state} {words.where(job)} {job.reason}",
    tone=_tone,
    empty="no job of it is known",
    subject="array",
    into="job",
    into_subject=lambda job: str(job.job),
    job=lambda job: str(job.job),
)
