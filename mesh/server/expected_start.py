# SPDX-License-Identifier: Apache-2.0
"""The expected start of a pending job, with what it rests on, or the reason why nobody can tell.

Pure. The core expects a start where every job that decides it said how long it runs. Otherwise the
time limits of running jobs bound the start of a job that is next and lacks nothing but room. Owns
the rule that no time is told that one unknown end could make wrong without a word of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import array_wait_words
from stoker.mesh.wire import schema
from stoker.scheduler.book import Job
from stoker.scheduler.effects import Explained
from stoker.scheduler.reasons import Reason

LOOKED_MAX = 4096
"""The most running jobs whose time limits are read for one explanation."""
NS = 1_000_000_000
BY_ESTIMATES = "the run times that the jobs in its way were submitted with"
BY_LIMITS = "the time limits of the jobs that run"
_AHEAD = frozenset({Reason.BEHIND, Reason.HELD_BY_ORDER, Reason.QUEUE_TURN, Reason.USER_TURN})
_ROOM = frozenset(
    {
        Reason.NEEDS_DEVICES,
        Reason.NEEDS_SHARE,
        Reason.NEEDS_CPU,
        Reason.NEEDS_MEMORY,
        Reason.NODE_JOBS_FULL,
        Reason.HOLDS,
        Reason.GANG_SHORT,
        Reason.NEEDS_NUMA,
        Reason.NEEDS_ONE_VENDOR,
        Reason.NEEDS_LINK,
        Reason.NEEDS_DEVICE_MEMORY,
        Reason.WAS_PREEMPTED,
        Reason.READY,
    }
)
"""Reasons that end by themselves when all running jobs are over."""
_HOST = frozenset({Reason.NEEDS_CPU, Reason.NEEDS_MEMORY, Reason.NODE_JOBS_FULL})
_ABSENT: dict[int, str] = {
    Reason.WAITS_FOR_JOB: "it follows a job that has not ended",
    Reason.WAITS_UNTIL: "it waits for its next attempt first",
    Reason.AFTER_FAILED: "it follows a job that did not end as it must",
    Reason.NEVER_AS_IT_IS: "it can never start as it is",
    Reason.NO_NODES: "there is no node",
    Reason.NEEDS_CHOICE: "a function chooses its place",
}


def expected_start(
    replica: Replica, job: Job, lines: Sequence[Explained], now_ns: int
) -> schema.ExpectedStart:
    """Return when a pending job is expected to start."""
    if not lines and array_wait_words.waits(replica.state.book, job):
        return schema.ExpectedStart(absent="its turn in its array has not come")
    codes = {line.reason for line in lines}
    by_core = next((line.have for line in lines if line.reason == Reason.EXPECTED_START), None)
    why = next((_ABSENT[code] for code in _ABSENT if code in codes), "")
    if why:
        return schema.ExpectedStart(absent=why)
    if by_core is not None:
        return schema.ExpectedStart(t_ns=by_core, basis=BY_ESTIMATES)
    if codes & _AHEAD:
        return schema.ExpectedStart(
            absent="jobs are ahead of it, and not all in its way said how long they run"
        )
    if not codes or codes - _ROOM:
        return schema.ExpectedStart(absent="it lacks something that no end of a job gives it")
    return _by_limits(replica, now_ns, devices_alone=not codes & _HOST)


def _by_limits(replica: Replica, now_ns: int, *, devices_alone: bool) -> schema.ExpectedStart:
    """Return the latest start of the next job: the end of all time limits. `devices_alone`: jobs
    that hold no device are not in its way."""
    latest_ns, looked = now_ns, 0
    for other in replica.state.book.live_after(0):
        if other.state == "pending":
            continue
        spec = other.decoded_spec()
        if devices_alone and not spec.gpu_milli:
            continue
        looked += 1
        if not spec.time_limit_s:
            why = "a job that runs has neither a time limit nor an estimate of its run time"
            return schema.ExpectedStart(absent=why)
        if looked > LOOKED_MAX:
            return schema.ExpectedStart(absent=f"more than {LOOKED_MAX} jobs run")
        lasts_ns = round((spec.time_limit_s + spec.grace_s) * NS)
        latest_ns = max(latest_ns, (other.started_ns or now_ns) + lasts_ns)
    if not looked:
        return schema.ExpectedStart(absent="nothing runs whose end would make room for it")
    return schema.ExpectedStart(t_ns=latest_ns, latest=True, basis=BY_LIMITS)
