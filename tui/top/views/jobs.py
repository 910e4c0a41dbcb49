# SPDX-License-Identifier: Apache-2.0
"""The views `jobs` and `why`: all jobs, and those that wait, each with its reason.

Pure. Below the table of `why` stands the explanation of the job under the cursor: what holds it
back, by rank, and what would help.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.mesh.wire.schema import JobView
from stoker.tui.render import units
from stoker.tui.top import answers as parts
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, Piece, Tone, line
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import explain, words

FOOT_ROWS = 8


def _milli(job: JobView) -> int:
    return job.spec.gpu_milli * job.spec.tasks


def _changed_ns(job: JobView) -> int:
    return job.times.ended_ns or job.times.started_ns or job.times.submitted_ns


_JOB = ViewColumn[JobView]("JOB", 11, lambda job, look: words.number(job), right=True,
                       order=lambda job: job.job)  # fmt: skip
_NAME = ViewColumn[JobView]("NAME", 12, lambda job, look: words.job_name(job), grows=True,
                        most=24, order=words.job_name)  # fmt: skip
_USER = ViewColumn[JobView]("USER", 8, lambda job, look: job.user, leaves=3,
                        order=lambda job: job.user)  # fmt: skip
_STATE = ViewColumn[JobView]("STATE", 9, lambda job, look: job.state, order=lambda job: job.state)
_GPUS = ViewColumn[JobView]("GPUS", 5, lambda job, look: units.share(_milli(job)), right=True,
                        leaves=4, order=_milli)  # fmt: skip
_AGE = ViewColumn[JobView]("AGE", 7, lambda job, look: words.since(job, look.now_ns), right=True,
                       leaves=5, order=lambda job: -_changed_ns(job))  # fmt: skip
_WHERE = ViewColumn[JobView]("WHERE", 14, lambda job, look: words.where(job), leaves=2,
                         grows=True, most=24, order=words.where)  # fmt: skip
_QUEUE = ViewColumn[JobView]("QUEUE", 10, lambda job, look: job.spec.queue, leaves=1,
                         order=lambda job: job.spec.queue)  # fmt: skip
_REASON = ViewColumn[JobView]("REASON", 24, lambda job, look: words.reason(job, look.now_ns),
                          grows=True)  # fmt: skip

COLUMNS = (_JOB, _NAME, _USER, _STATE, _GPUS, _AGE, _WHERE, _QUEUE, _REASON)
WHY_COLUMNS = (_JOB, _NAME, _USER, _QUEUE._replace(leaves=2), _GPUS, _AGE, _REASON)


def _tone(job: JobView, answers: Answers, look: Look) -> Tone:
    return "bad" if job.troubles else words.JOB_TONES.get(job.state, "")


def _text(job: JobView) -> str:
    node = ",".join(job.nodes) or (job.decision.node if job.decision is not None else "")
    told = " ".join((job.waits or job.reason, *(f"{t.kind} rank" for t in job.troubles)))
    told += " " + " ".join(words.states(job)) if words.array(job) else ""
    about = f"{words.number(job)} {words.job_name(job)} {job.user} {job.state} {job.spec.queue}"
    return f"{about} {node} {told}"


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.jobs is None:
        return [words.absent("jobs", answers.refused.get("jobs", ""))]
    if answers.jobs_cut:
        return [line(f"the newest {words.count(answers.jobs):,} jobs; there are more", "dim")]
    return []


@parts.newest
def _pending(jobs: Sequence[JobView]) -> list[JobView]:
    """Return the jobs that wait, the oldest first: a queue is read from its head."""
    waiting = [job for job in jobs if "pending" in words.states(job)]
    return sorted(waiting, key=lambda job: job.times.submitted_ns)


def _foot(answers: Answers, job: JobView | None, look: Look) -> list[Line]:
    if job is None:
        return []
    found = answers.explain
    waits = words.waiting(job)
    if found is None or str(found.job) != waits:
        return [words.absent(f"job {waits}", answers.refused.get("explain", ""))]
    return [(Piece(f"job {found.job} ", "title"),), *explain.told(found, look)]


JOBS = View(
    name="jobs",
    title="Jobs",
    says="jobs, newest first, and why each waits, lags or ended",
    needs=("jobs",),
    items=lambda answers, subject: answers.jobs or (),
    head=_head,
    columns=COLUMNS,
    key=lambda job: str(job.job),
    text=_text,
    tone=_tone,
    empty="no jobs",
    into="job",
    into_of=lambda job: "array" if words.array(job) else "",
    into_subject=words.number,
    job=lambda job: str(job.job),
    several=words.array,
)
WHY = View(
    name="why",
    title="Queue-why",
    says="jobs that wait, what holds each back, and what would help",
    needs=("jobs",),
    cursor_needs=("explain",),
    items=lambda answers, subject: _pending(answers.jobs) if answers.jobs is not None else (),
    head=_head,
    foot=_foot,
    foot_rows=FOOT_ROWS,
    columns=WHY_COLUMNS,
    key=lambda job: str(job.job),
    text=_text,
    tone=_tone,
    empty="no job waits",
    into="explain",
    into_subject=words.waiting,
    job=words.waiting,
    several=words.array,
)
