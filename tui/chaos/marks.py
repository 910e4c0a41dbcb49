# SPDX-License-Identifier: Apache-2.0
"""The marks that jobs leave of their own running, and what they prove against the cluster.

Pure. A job appends a line with the time before it does anything else, so that a mark says that this
attempt ran on that host at that instant, whatever schedulers, agents and records say of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

NS = 1e9
SCRIPT = (
    "LC_ALL=C; exec 9<> <(:); n=0; while [ $n -lt {rounds} ]; do"
    ' echo "$STOKER_JOB_ID $STOKER_ATTEMPT $STOKER_NODE ${{EPOCHREALTIME/./}}000" >> {path};'
    " read -r -t {pause_s} -u 9; n=$((n+1)); done; exit 0"
)
"""The script of a job that leaves marks in a file, for bash: a mark and a pause start no process,
so that the jobs do not load the machine on which the cluster is measured."""


def argv(rounds: int, pause_s: float, path: Path) -> tuple[str, ...]:
    """Return the program of a job that leaves so many marks, with pauses between them."""
    return "bash", "-c", SCRIPT.format(rounds=rounds, path=path, pause_s=pause_s)


class JobMark(NamedTuple):
    """One instant at which an attempt of a job ran on a host; CLOCK_REALTIME, ns."""

    job: int
    attempt: int
    node: str
    t_ns: int


class Presence(NamedTuple):
    """The first and the last mark of one attempt."""

    job: int
    attempt: int
    node: str
    first_ns: int
    last_ns: int


def read(text: str) -> list[JobMark]:
    """Return the marks of a file; a line that a full disk has cut off counts as no mark."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[0].isdigit() and words[1].isdigit() and words[3].isdigit():
            found.append(JobMark(int(words[0]), int(words[1]), words[2], int(words[3])))
    return found


def presences(marks: Iterable[JobMark]) -> list[Presence]:
    """Return the attempts that ran, by their first mark. An attempt that ran on two hosts is two
    spans."""
    times: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    for mark in marks:
        times[mark.job, mark.attempt, mark.node].append(mark.t_ns)
    found = [Presence(*key, min(each), max(each)) for key, each in times.items()]
    return sorted(found, key=lambda one: one.first_ns)


def violations(found: Sequence[Presence], once: set[int], exclusive: set[int]) -> Iterator[str]:
    """Yield what must never be. `once`: the jobs that may run one time at most; `exclusive`: those
    that have their host's only device for themselves."""
    yield from _of_jobs(found, once)
    yield from _of_devices([one for one in found if one.job in exclusive])


def _of_jobs(found: Sequence[Presence], once: set[int]) -> Iterator[str]:
    """Yield the jobs that ran twice, at one time or although they may run only once."""
    jobs: dict[int, list[Presence]] = defaultdict(list)
    for one in found:
        jobs[one.job].append(one)
    for job, attempts in jobs.items():
        if job in once and len(attempts) > 1:
            yield f"job {job} may run once and ran {_told(attempts)}"
        for one, other in _overlaps(attempts):
            yield f"two attempts of job {job} ran at one time: {_told((one, other))}"


def _of_devices(found: Sequence[Presence]) -> Iterator[str]:
    """Yield the devices that two jobs had at one time."""
    hosts: dict[str, list[Presence]] = defaultdict(list)
    for one in found:
        hosts[one.node].append(one)
    for node, held in hosts.items():
        for one, other in _overlaps(held):
            yield f"the device of {node} had two jobs at one time: {_told((one, other))}"


def _overlaps(found: Sequence[Presence]) -> Iterator[tuple[Presence, Presence]]:
    """Yield pairs that ran at one time. `found` is by first mark, so each is compared with the one
    before it that ended last."""
    last: Presence | None = None
    for one in sorted(found, key=lambda one: one.first_ns):
        if last is not None and one.first_ns <= last.last_ns:
            yield last, one
        if last is None or one.last_ns > last.last_ns:
            last = one


def _told(found: Sequence[Presence]) -> str:
    began_ns = min(one.first_ns for one in found)
    return ", ".join(
        f"{one.job}.{one.attempt} on {one.node} from {(one.first_ns - began_ns) / NS:.3f} s"
        f" to {(one.last_ns - began_ns) / NS:.3f} s"
        for one in found
    )
