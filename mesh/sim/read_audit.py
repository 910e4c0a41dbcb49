# SPDX-License-Identifier: Apache-2.0
"""The auditor of reads: none shows less than what any scheduler had applied when it began.

Whatever a user was told is applied somewhere, so the rule is a little stronger than the promise.
Owns one exception: a leader whose clock stood still lately may answer a read at itself too late,
which nothing but its next pledges can show; no follower is excused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.replica.events import ReadPosition
from stoker.mesh.sim.authority_audit import BELIEVED_NS, AuditedScheduler
from stoker.mesh.sim.log_audit import LogAudit
from stoker.native.errors import NotFound

Name = tuple[str, int]
"""The user and the number of a read."""


class _Begun(NamedTuple):
    """The least that a read must show."""

    last: int
    """The last entry that any scheduler had applied."""
    job: int | None
    """A job of which its user had been told."""


class ReadAudit:
    """The auditor of the reads in one cluster; `log` has what any replica applied."""

    def __init__(self, violated: Callable[[str], None], log: LogAudit) -> None:
        self._violated = violated
        self._log = log
        self._begun: dict[Name, _Begun] = {}
        self.answered = 0
        """The number of reads at followers that were answered with a position."""

    def begins(self, name: Name, job: int | None = None) -> None:
        """Note that a user begins to read, and knows of this job."""
        self._begun[name] = _Begun(self._log.last, job)

    def shows(self, scheduler: AuditedScheduler, name: Name, position: ReadPosition) -> None:
        """Note what a scheduler answers a read with, before the user hears it.

        The network may deliver a read twice, and then both answers count.
        """
        begun = self._begun[name]
        state, leads = scheduler.replica.state, scheduler.replica.role == "leading"
        self.answered += not leads
        if leads and scheduler.clock.steady_ns() < BELIEVED_NS:
            return
        if position.at < begun.last or state.index < position.at:
            self._violated(
                f"{scheduler.name} answers a read of {name[0]} with entry {position.at} and has"
                f" entry {state.index}, though entry {begun.last} was in force before it began"
            )
        elif begun.job is not None and not _has(scheduler, begun.job):
            self._violated(
                f"a read of {name[0]} at {scheduler.name} lacks job {begun.job}, of which it was"
                f" told before"
            )


def _has(scheduler: AuditedScheduler, job: int) -> bool:
    try:
        scheduler.replica.state.book.get(job)
    except NotFound:
        return False
    return True
