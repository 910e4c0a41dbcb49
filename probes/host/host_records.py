# SPDX-License-Identifier: Apache-2.0
"""Reports of the host probes: times of threads and jobs, and events of processes.

Times are CLOCK_MONOTONIC nanoseconds unless a name says otherwise; states are those of
`native/records/span.h`. A value that was not measured is None, with a reason in the record.
"""

from __future__ import annotations

from typing import Literal

import msgspec

ON_CPU, RUNNABLE, BLOCKED, BLOCKED_IO = 1, 2, 3, 4
"""Thread states, as in `enum sk_span_state` of span.h."""

DETAIL_UNKNOWN = 0xFFFF
"""A blocked span whose system call is not known, or one on a CPU without a page fault."""

FAULTED_ALL = 0xFFFE
"""Detail of a span on a CPU that was spent in page faults alone; less is as much less."""

SPAN_BYTES = 24
"""Size of `struct sk_span`: {u64 from_ns; u64 to_ns; u32 tid; u16 state; u16 detail}."""


class StateDurations(msgspec.Struct, frozen=True):
    """The time by state, including the interval that is open at the moment of reading."""

    on_cpu_ns: int
    runnable_ns: int
    """Waited for a CPU: woken or preempted, until switched in."""
    blocked_ns: int
    io_ns: int
    """Blocked in I/O or uninterruptibly (state D, which includes paging)."""
    switches: int
    """The number of times it was switched in."""
    wakeups: int
    longest_delay_ns: int
    """The longest single wait for a CPU."""
    delay_log2: tuple[int, ...]
    """Waits for a CPU by size: bucket i counts those of [2^i, 2^(i+1)) ns, the last all above."""
    fault_ns: int = 0
    """Part of `io_ns` inside a page fault of user code, which is paging in. From here on a figure
    is 0 also if its probe is not attached: `JobPressure` tells the two apart."""
    memory_ns: int = 0
    """Part of the blocked times spent on memory, as PSI counts it (reclaim, refaults, limits)."""
    minor_faults: int = 0
    major_faults: int = 0
    """Page faults up to the thread's last switch; major ones had to wait for a disk."""
    irq_ns: int = 0
    """Part of `on_cpu_ns` taken by interrupt handlers."""
    softirq_ns: int = 0
    """Part of `on_cpu_ns` taken by softirqs."""
    user_faults: int = 0
    kernel_faults: int = 0
    """Page faults as they come, by mode: code of the program, or the kernel on its behalf."""
    handling_ns: int = 0
    """Part of `on_cpu_ns` inside page faults; both are set only while the job opts in to them."""
    stolen_ns: int = 0
    """Part of `on_cpu_ns` in which the hypervisor ran something else, or interrupts if the kernel
    times them; in pieces of 0.1 ms or more. Spans show it as runnable."""

    @property
    def total_ns(self) -> int:
        """Return the observed time in all states together."""
        return self.on_cpu_ns + self.runnable_ns + self.blocked_ns + self.io_ns


class ThreadTimes(msgspec.Struct, frozen=True):
    """One living thread: in `state` since `since_ns`, first seen at `seen_ns`."""

    tid: int
    state: int
    detail: int
    """System call number while blocked, only of jobs followed in full; on a CPU what part of the
    time since `since_ns` went into page faults, in parts of FAULTED_ALL; else DETAIL_UNKNOWN."""
    since_ns: int
    seen_ns: int
    times: StateDurations


class HostTimes(msgspec.Struct, frozen=True):
    """One job's threads at `t_ns`. `totals` = living threads + those that ended, or None."""

    job: int
    asked_ns: int
    """A time before the reading began: a thread in `state` since an earlier time was in it then."""
    t_ns: int
    totals: StateDurations | None
    threads: tuple[ThreadTimes, ...] = ()
    ended: int = 0
    """The number of threads that exited; their times are in `totals` alone."""
    unsettled: int = 0
    """Threads that changed while they were read too often to be exact; 0 means exact."""
    absent: str = ""
    """The reason why `totals` is None."""


EventKind = Literal["exec", "fork", "thread", "exit", "thread_exit"]


class ProcessEvent(msgspec.Struct, frozen=True):
    """One event of a job's process; `fork` and `thread` describe the child."""

    kind: EventKind
    t_ns: int
    job: int
    pid: int
    """Process (thread group) id in the initial pid namespace."""
    tid: int
    parent_pid: int
    start_boot_ns: int
    """Start of the thread on CLOCK_BOOTTIME, as in /proc/<pid>/stat (which counts ticks)."""
    comm: str
    exit_code: int | None = None
    signal: int | None = None
    """The signal that ended it, for `exit` and `thread_exit`."""
    core_dumped: bool = False
    oom_killed: bool = False
    """True if the kernel chose it as the victim when memory ran out."""
