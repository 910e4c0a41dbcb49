# SPDX-License-Identifier: Apache-2.0
"""Simulated users: they submit, repeat what was not answered, cancel, repeat what was, and read.

A user knows only what it was told. Owns the promise that every request is repeated with its key
until there is an answer. A read is sent once, to any scheduler.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from stoker.agent.sim.run_audit import RunAudit
from stoker.mesh.replica import events
from stoker.mesh.sim.log_audit import array_key
from stoker.mesh.sim.scheduler_process import (
    SchedulerAnswer,
    SchedulerProcess,
    SchedulerRequest,
    Surroundings,
    post,
)
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.mesh.sim.timeouts import Timeouts
from stoker.native.errors import BadRequest, StokerError
from stoker.scheduler.array_indexes import ArrayIndexes, Run
from stoker.scheduler.book import Job
from stoker.scheduler.followed_ranges import JobRange
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import JobSpec, Owner

ANSWER_NS = 3 * SECOND
AGAIN_NS = (200 * MS, 800 * MS)
RUN_MS = (80, 1400)
"""The time for which most jobs run: so short that all jobs of a run fit into the seconds after the
last fault, if none ran before."""
LONG, LONG_MS = 0.35, (4_000, 8_000)
"""The share of jobs that run so long that the lease of their node may end meanwhile, and for how
long they run. They do not fail, so that a second attempt ends in time as well."""
LONG_UNTIL = 0.5
"""The part of the time of faults in which long jobs are submitted."""
GANGS, TASKS = 0.15, (2, 2, 3, 4, 6)
"""The share of jobs that are gangs, and their numbers of tasks."""
CANCELS, REPEATS = 0.12, 0.1
READS, READS_EACH, READ_GAP_MS = 8, 4, 12
"""A user reads so many times, each time so often in a row, with at most so many ms in between."""
ARRAYS_EVERY = 4
"""One of so many short requests is an array, where there are arrays."""
FOLLOWS_EVERY = 2
"""One of so many requests for one job follows the newest array of its user, if there is one."""
PREEMPTIBLE_EVERY = 2
"""One of so many jobs is preemptible, where nodes are drained: a drain may move it."""
GPU_MILLI = (250, 500, 1000, 1000, 1000, 2000)
GANG_MILLI = (250, 500, 1000, 1000)


class Wish(NamedTuple):
    """One job that a user wants, with the key of its request."""

    key: str
    spec: JobSpec
    indexes: ArrayIndexes = ArrayIndexes()
    """The indexes of an array; empty for one job."""


class SimUser:
    """One user with the wishes that it will make."""

    def __init__(self, around: Surroundings, name: str, audit: RunAudit) -> None:
        self.name = name
        self.schedulers: list[SchedulerProcess] = []
        self.has_arrays = False
        """True if some of its requests are arrays, of which some jobs go on at once."""
        self.is_moved = False
        """True if nodes are drained, and some of its jobs may be moved any number of times."""
        self.launches_fail = False
        """True if nodes cannot launch some attempts of its jobs."""
        self.unanswered: set[str] = set()
        self._wishes = 0
        """The keys of requests without an answer."""
        self._around = around
        self._audit = audit
        self._owner = Owner(name, 1000, 1000)
        self._numbers = 0
        self._known: int | None = None
        """The job of which this user was told last."""
        self._array: JobRange | None = None
        """The array of which this user was told last."""
        self._open: dict[int, Wish] = {}
        self._timeouts = Timeouts(around.timeline, ANSWER_NS, self._open, self._too_late)

    def plan(self, chance: random.Random, wishes: int, until_ns: int) -> None:
        """Plan so many submits at random times up to this one."""
        for _ in range(wishes):
            at = int(until_ns * chance.random())
            self._plan(chance, at, may_be_long=at < until_ns * LONG_UNTIL)
        for _ in range(READS):
            self._around.timeline.at(int(until_ns * chance.random()), self._read_on, None)

    def wish_more(self, chance: random.Random, within_ns: int) -> None:
        """Plan one more submit of a short job at a random time within this one."""
        at = self._around.timeline.now + int(within_ns * chance.random())
        self._plan(chance, at, may_be_long=False)

    def _plan(self, chance: random.Random, at_ns: int, *, may_be_long: bool) -> None:
        key = f"{self.name}-{self._wishes}"
        self._wishes += 1
        failed = _launches_failed(key) if self.launches_fail else 0
        spec = _spec(chance, key, failed, may_be_long=may_be_long)
        if self.is_moved and zlib.crc32(key.encode()) // 64 % PREEMPTIBLE_EVERY == 0:
            spec = msgspec.structs.replace(spec, preemptible=True)
        wish = Wish(key, spec, _indexes(key, spec) if self.has_arrays else ArrayIndexes())
        self._around.timeline.at(at_ns, self._submit, wish)

    def _submit(self, wish: Wish) -> None:
        self.unanswered.add(wish.key)
        follows = _follows(wish, self._array) if self._array is not None else {}
        self._send(wish._replace(spec=msgspec.structs.replace(wish.spec, **follows)))

    def _send(self, wish: Wish) -> None:
        self._numbers += 1
        self._open[self._numbers] = wish
        owner, key = self._owner, wish.key.encode().ljust(16, b".")

        def make(token: Any) -> events.Event:
            return events.JobSubmitted(token, owner, key, wish.spec, indexes=wish.indexes)

        if self._post(self._numbers, make):
            self._timeouts.begin(self._numbers)
        else:
            self._too_late(self._numbers)

    def _post(self, number: int, make: Callable[[Any], events.Event]) -> bool:
        request = SchedulerRequest(self.name, number, make, self._take)
        return post(request, self.schedulers) > 0

    def _read_on(self, _: None) -> None:
        """Read some times in a row at a scheduler by chance."""
        chance, timeline = self._around.chance, self._around.timeline
        chosen = chance.choice(self.schedulers)
        wait = 0
        for _each in range(READS_EACH):
            timeline.after(wait, self._read, chosen)
            wait += chance.randint(1, READ_GAP_MS) * MS

    def _read(self, chosen: SchedulerProcess) -> None:
        """Read at this scheduler; the auditor looks at what it answers."""
        self._numbers += 1
        self._around.watch.reads.begins((self.name, self._numbers), self._known)
        request = SchedulerRequest(
            self.name,
            self._numbers,
            lambda token: events.ReadRequested(token, self.name),
            lambda answered: None,
        )
        self._around.network.post(self.name, chosen.name, chosen.take_read, request)

    def _take(self, answered: SchedulerAnswer) -> None:
        wish = self._open.get(answered.number)
        value = answered.value
        is_never = isinstance(value, BadRequest) and wish is not None and _names_array(wish.spec)
        if wish is None or (
            isinstance(value, StokerError) and len(self.schedulers) > 1 and not is_never
        ):
            return
        del self._open[answered.number]
        if isinstance(value, Job):
            self._told(wish, value)
        elif is_never:  # the array has ended otherwise than this job wants
            self.unanswered.discard(wish.key)
        else:
            self._send_again(wish)

    def _told(self, wish: Wish, job: Job) -> None:
        self.unanswered.discard(wish.key)
        named = array_key(wish.key, 0) if wish.indexes else wish.key
        self._around.audit.acknowledged_job(named, job.job)
        self._audit.told_job(named, job.job)
        if wish.indexes:
            self._array = JobRange(job.job, wish.indexes.size)
        for place in range(1, wish.indexes.size):
            self._audit.told_job(array_key(wish.key, place), job.job + place)
        self._known = job.job
        draw = self._around.chance.random()
        if draw < CANCELS:
            wait = int(1500 * MS * self._around.chance.random())
            parts = _part_of(job.job, wish)
            self._around.timeline.after(wait, self._cancel, (job.job, parts))
        elif draw < CANCELS + REPEATS:
            self._send(wish)

    def _cancel(self, chosen: tuple[int, tuple[ArrayPart, ...]]) -> None:
        job, parts = chosen
        self._numbers += 1
        self._around.story.tell("{} cancels job {}", self.name, parts or job)
        jobs = [] if parts else [job]
        self._post(
            self._numbers,
            lambda token: events.CancelRequested(token, jobs, "changed", parts=parts),
        )

    def _too_late(self, number: int) -> None:
        self._send_again(self._open.pop(number))

    def _send_again(self, wish: Wish) -> None:
        low, high = AGAIN_NS
        wait = low + int((high - low) * self._around.chance.random())
        self._around.timeline.after(wait, self._send, wish)


def _spec(chance: random.Random, key: str, failed: int, *, may_be_long: bool) -> JobSpec:
    is_long = may_be_long and chance.random() < LONG
    run_ms = chance.randint(*(LONG_MS if is_long else RUN_MS))
    end = "failed" if chance.random() < 0.15 and not is_long else "succeeded"
    retries = chance.choice((0, 0, 1))
    restart: Literal["never", "on-node-loss", "always"] = "never"
    if retries:
        restart = chance.choice(("on-node-loss", "always"))
    tasks, per_node = _gang(chance) if chance.random() < GANGS else (1, 0)
    return JobSpec(
        ("job", key, str(run_ms), end, str(failed)),
        gpu_milli=chance.choice(GPU_MILLI if tasks == 1 else GANG_MILLI),
        retries=retries,
        restart=restart,
        trace="off",
        tasks=tasks,
        tasks_per_node=per_node,
    )


def _follows(wish: Wish, array: JobRange) -> dict[str, tuple[int, ...]]:
    """Return how a request follows an array; empty for most. No chance is drawn for it."""
    draw = zlib.crc32(wish.key.encode()) // 4096
    if wish.indexes or draw % FOLLOWS_EVERY:
        return {}
    how = ("after_any", "after_any", "after", "after_fail")[draw // FOLLOWS_EVERY % 4]
    return {how: (array.number,)}


def _names_array(spec: JobSpec) -> bool:
    return bool(spec.after or spec.after_any or spec.after_fail)


def _indexes(key: str, spec: JobSpec) -> ArrayIndexes:
    """Return the indexes of a request that is an array: few short jobs of one task, of which some
    go on at once. No chance is drawn for it."""
    draw = zlib.crc32(key.encode()) // 16
    if draw % ARRAYS_EVERY or spec.tasks > 1 or int(spec.argv[2]) > RUN_MS[1]:
        return ArrayIndexes()
    return ArrayIndexes((Run(1, 1, 2 + draw % 5),), 1 + draw % 3)


def _part_of(job: int, wish: Wish) -> tuple[ArrayPart, ...]:
    """Return the later half of an array, which is cancelled; nothing of a single job."""
    size = wish.indexes.size
    return (ArrayPart(job, job + size // 2, job + size - 1),) if size else ()


def _launches_failed(key: str) -> int:
    """Return how many of a job's first attempts their nodes cannot launch: mostly none, and never
    so many in a row that the job fails. No chance is drawn for it."""
    return (2, 1, 1, *(0,) * 13)[zlib.crc32(key.encode()) % 16]


def _gang(chance: random.Random) -> tuple[int, int]:
    """Return a number of tasks and how many go on each node; 0: as it fits."""
    tasks = chance.choice(TASKS)
    return tasks, chance.choice((0, 1, 2) if tasks % 2 == 0 else (0, 1))
