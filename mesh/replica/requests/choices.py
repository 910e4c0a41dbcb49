# SPDX-License-Identifier: Apache-2.0
"""The leader's questions to scoring functions, for jobs whose placement is user:NAME.

Without I/O. Owns the bounds: so many questions at once, and one in AGAIN_NS for a job that waits.
What a function says is a hint to the core of this replica; the log has the placement alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.events import Score, Scored
from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler.book import Job
from stoker.scheduler.effects import JobInfo
from stoker.scheduler.hints import Candidate
from stoker.scheduler.nouns import JobSpec
from stoker.scheduler.policies import USER
from stoker.scheduler.reasons import Reason

AGAIN_NS: Final = 5_000_000_000
"""Scores are those of the nodes as they were; a job that still waits is asked for again."""
GIVE_UP_NS: Final = 10_000_000_000
"""A question without any answer counts as failed then, whatever became of it."""
IN_FLIGHT_MAX: Final = 16
LOOKED_AT_MAX: Final = 64
"""The most jobs looked at in one round; the rest follow in the next ones."""
_MARK: Final = USER.encode()


class Choices:
    """The questions of one leader."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._waiting: dict[int, str] = {}
        """Live jobs that leave the choice to a function, by number, with its name."""
        self._asked: dict[int, tuple[int, int]] = {}
        """The attempt of each question in flight, and when it was asked."""
        self._told: dict[int, tuple[int, int]] = {}
        """The attempt for which a job was told a choice, and when."""
        self._term = 0
        self._seen = 0
        """All jobs up to this number were looked at, but for the later jobs of arrays."""
        self._turns: dict[int, int] = {}
        """The number up to which the jobs of each array were looked at, by its first job."""

    def _notice(self) -> None:
        """Note the new jobs that leave the choice to a function."""
        book = self._state.book
        for job in book.live_after(self._seen):
            if name := _function(job):
                self._waiting[job.job] = name
        self._seen = book.newest_number
        self._notice_next()

    def _notice_next(self) -> None:
        """Note the jobs of arrays whose turn has come since, as their numbers are older."""
        book = self._state.book
        for array in book.arrays:
            if not array.is_over and (name := _function_of(array.spec)):
                since = self._turns.get(array.first, array.first)
                for job in array.going_on(since, array.first + array.next):
                    self._waiting[job] = name
                self._turns[array.first] = array.first + array.next

    def due(self, now: Instant) -> Iterator[Score]:
        """Yield the questions that are due."""
        if self._state.term != self._term:
            self._begin()
        self._notice()
        self._give_up(now.boot_ns)
        for number in list(self._waiting)[:LOOKED_AT_MAX]:
            name = self._waiting.pop(number)
            info = self._state.core.job(number)
            if info is None or self._state.book.live(number) is None:
                self._told.pop(number, None)
                continue
            self._waiting[number] = name  # it goes to the end, so that all have their turn
            if len(self._asked) < IN_FLIGHT_MAX and self._is_due(info, now.boot_ns):
                yield from self._question(info, name, now)

    def take(self, event: Scored, now: Instant) -> bool:
        """Tell the core what a function said; False if nobody waits for it any more."""
        asked = self._asked.pop(event.job, None)
        info = self._state.core.job(event.job)
        if asked is None or asked[0] != event.attempt or info is None or info.state != "pending":
            return False
        self._state.core.choice(event.job, event.attempt, event.ranks, event.reason)
        self._told[event.job] = (event.attempt, now.boot_ns)
        return True

    def _begin(self) -> None:
        """Begin a term: ask anew, for all jobs that are there."""
        self._term = self._state.term
        self._asked.clear()
        self._told.clear()
        self._waiting.clear()
        self._seen = 0
        self._turns.clear()

    def _give_up(self, now_ns: int) -> None:
        for number, (attempt, asked_ns) in list(self._asked.items()):
            if now_ns - asked_ns >= GIVE_UP_NS:
                del self._asked[number]
                self._state.core.choice(number, attempt, (), Reason.CHOICE_LATE)
                self._told[number] = (attempt, now_ns)

    def _is_due(self, info: JobInfo, now_ns: int) -> bool:
        if info.state != "pending" or info.hold or info.job in self._asked:
            return False
        attempt, told_ns = self._told.get(info.job, (0, 0))
        return attempt != info.attempt + 1 or now_ns - told_ns >= AGAIN_NS

    def _question(self, info: JobInfo, name: str, now: Instant) -> Iterator[Score]:
        state, attempt = self._state, info.attempt + 1
        candidates = state.core.candidates(info.job, now.log_ns, state.index)
        if not candidates:
            return
        job = state.book.get(info.job)
        self._asked[info.job] = (attempt, now.boot_ns)
        rows = [_row(state, candidate) for candidate in candidates]
        request = {"job": _job(job, info), "candidates": rows}
        yield Score(info.job, attempt, name, tuple(c.node for c in candidates), request)


def _function(job: Job) -> str:
    """Return the name of the function to which a job leaves the choice; empty for other jobs."""
    if _MARK not in bytes(job.spec):
        return ""
    return _function_of(job.decoded_spec())


def _function_of(spec: JobSpec) -> str:
    return spec.placement.removeprefix(USER) if spec.placement.startswith(USER) else ""


def _job(job: Job, info: JobInfo) -> dict[str, Any]:
    spec = job.decoded_spec()
    return {
        "job": job.job,
        "user": job.owner.user,
        "name": spec.name,
        "queue": spec.queue,
        "priority": spec.priority,
        "attempt": info.attempt + 1,
        "tasks": spec.tasks,
        "gpus": spec.gpu_milli / 1000,
        "cpus": (spec.cpu_milli or 0) / 1000,
        "memory_bytes": spec.memory_bytes or 0,
    }


def _row(state: ReplicaState, found: Candidate) -> dict[str, Any]:
    node = state.node_name(found.node)
    report = state.book.nodes.get(node)
    devices = report.devices if report is not None else ()
    taken = [devices[share.index] for share in found.shares if share.index < len(devices)]
    return {
        "node": node,
        "labels": _labels(state, found.node),
        "devices": [{"id": d.id, "model": d.model, "sim": d.sim} for d in taken],
        "devices_free": found.devices_free,
        "cpus_free": found.cpu_free_milli / 1000,
        "memory_free_bytes": found.memory_free_bytes,
        "load": found.load_milli / 1000 if found.observation else None,
        "cost": found.cost,
        "tasks": found.tasks,
        "adds_w": found.adds_mw / 1000,
    }


def _labels(state: ReplicaState, node: int) -> list[str]:
    words = (state.book.word(label.label) for label in state.core.labels(node))
    return sorted(word for word in words if word)
