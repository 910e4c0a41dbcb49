# SPDX-License-Identifier: Apache-2.0
"""The view `users`: who holds how much, and who waits for what, added up from the jobs.

Pure. A user who is no administrator is shown the own jobs alone, and the head line says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stoker.mesh.wire.schema import JobView
from stoker.scheduler.nouns import ENDED
from stoker.tui.render import units
from stoker.tui.top import answers as parts
from stoker.tui.top.answers import Answers
from stoker.tui.top.lines import Line, Look, line
from stoker.tui.top.table import ViewColumn
from stoker.tui.top.view import View
from stoker.tui.top.views import words


class UserRow(NamedTuple):
    """The jobs of one user, added up; `oldest_ns` is when the oldest of those that wait came."""

    user: str
    running: int
    waiting: int
    held_milli: int
    wanted_milli: int
    failed: int
    oldest_ns: int | None


def fold(jobs: Sequence[JobView]) -> list[UserRow]:
    """Add up the jobs of each user, who holds most first."""
    users: dict[str, list[JobView]] = {}
    for job in jobs:
        users.setdefault(job.user, []).append(job)
    rows = [_row(user, theirs) for user, theirs in users.items()]
    return sorted(rows, key=lambda row: (-row.held_milli, -row.wanted_milli, row.user))


def _row(user: str, jobs: Sequence[JobView]) -> UserRow:
    found = UserRow(user, 0, 0, 0, 0, 0, None)
    for job in jobs:
        milli = job.spec.gpu_milli * job.spec.tasks
        for state, count in words.states(job).items():
            found = _with(found, job, state, count, milli * count)
    return found


def _with(row: UserRow, job: JobView, state: str, count: int, milli: int) -> UserRow:
    """Return the row with some more jobs of one state, which want or hold so much."""
    if state == "pending":
        came_ns = job.times.submitted_ns
        oldest_ns = min(row.oldest_ns or came_ns, came_ns)
        return row._replace(
            waiting=row.waiting + count, wanted_milli=row.wanted_milli + milli, oldest_ns=oldest_ns
        )
    if state not in ENDED:
        return row._replace(running=row.running + count, held_milli=row.held_milli + milli)
    bad = state in ("failed", "lost", "timeout")
    return row._replace(failed=row.failed + count) if bad else row


_rows = parts.newest(fold)

COLUMNS: tuple[ViewColumn[UserRow], ...] = (
    ViewColumn("USER", 12, lambda row, look: row.user, grows=True, most=24,
                    order=lambda row: row.user),
    ViewColumn("RUNNING", 7, lambda row, look: units.number(row.running), right=True,
           order=lambda row: row.running),
    ViewColumn("HOLDS", 8, lambda row, look: units.share(row.held_milli), right=True,
           order=lambda row: row.held_milli),
    ViewColumn("WAITING", 7, lambda row, look: units.number(row.waiting), right=True,
           order=lambda row: row.waiting),
    ViewColumn("WANTS", 8, lambda row, look: units.share(row.wanted_milli), right=True, leaves=2,
           order=lambda row: row.wanted_milli),
    ViewColumn("OLDEST", 8, lambda row, look: words.ago(row.oldest_ns, look.now_ns), right=True,
           leaves=3, order=lambda row: row.oldest_ns),
    ViewColumn("FAILED", 6, lambda row, look: units.number(row.failed), right=True, leaves=4,
           order=lambda row: row.failed),
)  # fmt: skip


def _head(answers: Answers, subject: str, look: Look) -> list[Line]:
    if answers.jobs is None:
        return [words.absent("jobs", answers.refused.get("jobs", ""))]
    cut = ", the newest only" if answers.jobs_cut else ""
    return [
        line(f"added up from the {words.count(answers.jobs):,} jobs that you may see{cut}", "dim"),
        *_queues(answers),
    ]


def _queues(answers: Answers) -> list[Line]:
    """Return a line for each queue in which somebody waits or something is held."""
    busy = [queue for queue in answers.queues or () if queue.live]
    return [
        line(
            f"queue {'  ' * (queue.depth - 1)}{queue.queue}: {queue.pending} wait, "
            f"{units.share(queue.used_milli)} devices held, order {queue.order}", "dim",
        )
        for queue in busy[:6]
    ]  # fmt: skip


VIEW = View(
    name="users",
    title="Users",
    says="who holds how many devices, and who waits for how many",
    needs=("jobs", "queues"),
    items=lambda answers, subject: _rows(answers.jobs) if answers.jobs is not None else (),
    head=_head,
    columns=COLUMNS,
    key=lambda row: row.user,
    text=lambda row: row.user,
    empty="nobody has a job",
)
