# SPDX-License-Identifier: Apache-2.0
"""This module tells how long a process was ready and got no CPU, between two looks at its threads.

A process that sleeps is not starved, and neither is one of which any thread gets its CPU: such a
thread may do what the others cannot. Invariant: what is read of one process is bounded, and beyond
that nothing of it counts as starved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stoker.probes.calls.library_copies import PROC

THREADS_MAX = 128
"""The most threads of one process that are read."""


class ThreadTime(NamedTuple):
    """The time of one thread since it began, as the kernel counts it when it gets a CPU."""

    ready: bool
    """True if it runs, or could."""
    ran_ns: int
    waited_ns: int
    """The time in which it was ready and had no CPU."""


NEW = ThreadTime(False, 0, 0)
"""A thread before its first look."""


def thread_times(pid: int) -> dict[int, ThreadTime]:
    """Return the threads of a process by their ids; none if it is gone or has too many."""
    try:
        folders = list((PROC / str(pid) / "task").iterdir())
        if len(folders) > THREADS_MAX:
            return {}
        return {int(folder.name): _thread(folder.name, pid) for folder in folders}
    except (OSError, ValueError):
        return {}


def _thread(thread: str, pid: int) -> ThreadTime:
    folder = PROC / str(pid) / "task" / thread
    state = (folder / "stat").read_text().rpartition(") ")[2][:1]
    ran, waited, *_ = (folder / "schedstat").read_text().split()
    return ThreadTime(state == "R", int(ran), int(waited))


def starved_ns(
    before: Mapping[int, ThreadTime], now: Mapping[int, ThreadTime], interval_ns: int
) -> int:
    """Return for how much of an interval every thread that was awake had no CPU. Pure."""
    awake = [
        (thread, before.get(key, NEW))
        for key, thread in now.items()
        if thread.ready or thread.ran_ns > before.get(key, NEW).ran_ns
    ]
    return min((_starved(thread, old, interval_ns) for thread, old in awake), default=0)


def _starved(thread: ThreadTime, old: ThreadTime, interval_ns: int) -> int:
    ran_ns = thread.ran_ns - old.ran_ns
    if not ran_ns:  # it waits still, and the kernel counts a wait at its end
        return interval_ns
    return max(0, min(thread.waited_ns - old.waited_ns, interval_ns - ran_ns))
