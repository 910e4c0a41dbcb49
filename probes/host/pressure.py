# SPDX-License-Identifier: Apache-2.0
"""Delays of a job's threads from outside: memory, disks, network, interrupts, drivers.

Pure: tallies and thread times in, records out. A figure is None if its probe is not attached, with
the reason in `absent`. Every other figure is counted from `attached_ns` of the probes on, so 0
means that it did not happen.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.probes.catalogue import ProbeState
from stoker.probes.host.host_records import HostTimes

RECLAIM, GROUP_RECLAIM, RECLAIM_SLEEP, BLOCK, RETRANSMIT, FENCE = 1, 2, 3, 4, 5, 6
GPU_QUEUED, GPU_RUN, IOCTL, FREQUENCY, TEMPERATURE, TRIP, COOLING = 7, 8, 9, 10, 11, 12, 13
"""Subjects of tallies, as in `enum sk_tally_what` of native/records/tally.h."""

MINOR_BITS = 20
"""Minor bits of a device number in one word, include/linux/kdev_t.h."""

READ, WRITE, FLUSH, DISCARD = 0, 1, 2, 3
"""Operations of block requests, include/linux/blk_types.h."""

TRIPS = ("active", "passive", "hot", "critical")
"""Kinds of trip points, enum thermal_trip_type of include/uapi/linux/thermal.h."""


class Tally(msgspec.Struct, frozen=True):
    """One entry of the kernel's table, see native/records/tally.h."""

    job: int
    what: int
    pid: int
    detail: int
    count: int
    ns: int
    longest_ns: int
    amount: int
    last: int
    lengths: tuple[int, ...]


class Spread(msgspec.Struct, frozen=True):
    """Events of one kind with their lengths; `length_log2`: bucket i is [2^i, 2^(i+1)) ns."""

    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0
    amount: int = 0
    """The bytes, for kinds that have any."""
    length_log2: tuple[int, ...] = (0,) * 32


class DeviceCalls(msgspec.Struct, frozen=True):
    """Calls (ioctl) of one process into one character device."""

    pid: int
    major: int
    minor: int
    calls: Spread


class JobPressure(msgspec.Struct, frozen=True):
    """One job, from attaching until now; None: not seen, and `absent` has the reason by field."""

    job: int
    t_ns: int
    minor_faults: int | None = None
    major_faults: int | None = None
    """Page faults up to each thread's last switch; major ones had to wait for a disk."""
    user_faults: int | None = None
    kernel_faults: int | None = None
    """Page faults by the mode they come from, while the job opts in to them."""
    handling_ns: int | None = None
    """Threads' time on a CPU inside of page faults, while the job opts in to them."""
    fault_ns: int | None = None
    """Threads' blocked time inside page faults of user code: paging in from disk or swap."""
    memory_ns: int | None = None
    """Threads' blocked time for want of memory, as PSI counts it; limits' throttling is in it."""
    stolen_ns: int | None = None
    """Threads' time on a CPU in which it was taken from the kernel: steal time."""
    irq_ns: int | None = None
    softirq_ns: int | None = None
    """CPU time that interrupts took from running threads; a part of their time on CPU."""
    reclaim: Spread | None = None
    """The job's own threads had to free memory of the node."""
    group_reclaim: Spread | None = None
    """The job's own threads had to free memory for the limit of their cgroup."""
    reclaim_sleep: Spread | None = None
    """Put to sleep because reclaim made no progress."""
    block: dict[int, Spread] | None = None
    """Requests to block devices by operation (READ, WRITE, ...); `amount` is bytes."""
    retransmits: Spread | None = None
    """TCP segments sent again; `amount` is bytes, nothing is timed."""
    fence_waits: Spread | None = None
    """Waits inside the kernel for a GPU's fence."""
    gpu_queued: Spread | None = None
    gpu_run: Spread | None = None
    """Jobs in a DRM scheduler: until given to the device, and on it."""
    device_calls: tuple[DeviceCalls, ...] | None = None
    """Calls by process and device, made while the job opted in to them."""
    absent: dict[str, str] = msgspec.field(default_factory=dict)
    """The reason for each field that is None."""


class NodeSignals(msgspec.Struct, frozen=True):
    """Clocks and heat of the node since attaching: (times, last) by CPU, zone or device."""

    cpu_khz: dict[int, tuple[int, int]] | None = None
    temperature_mc: dict[int, tuple[int, int]] | None = None
    """Thousandths of a degree Celsius by thermal zone."""
    trips: dict[int, tuple[int, str]] | None = None
    """Trip points passed by thermal zone; last: the kind of the last one."""
    cooling: dict[int, tuple[int, int]] | None = None
    """State by cooling device: 0 does not cool, higher cools (and throttles) more."""
    absent: dict[str, str] = msgspec.field(default_factory=dict)


ASK_CALLS, ASK_STACKS, ASK_FAULTS = 1, 2, 4
"""Opt-ins of a job, as in native/records/opt_in.h."""

NOT_ASKED = "this job did not ask for it"

_OF_THREADS = {
    "minor_faults": "host.sched.switch",
    "major_faults": "host.sched.switch",
    "user_faults": "host.memory.user_fault",
    "kernel_faults": "host.memory.kernel_fault",
    "handling_ns": "host.memory.handling",
    "fault_ns": "host.sched.syscall",
    "memory_ns": "host.sched.switch",
    "stolen_ns": "host.sched.switch",
    "irq_ns": "host.irq.handler",
    "softirq_ns": "host.irq.softirq",
}
"""The probe of each figure of the threads' own times."""

_ASKED = {
    ASK_CALLS: ("host.device.ioctl",),
    ASK_FAULTS: ("host.memory.user_fault", "host.memory.kernel_fault", "host.memory.handling"),
}

_OF_TALLIES = {
    "reclaim": ("host.memory.reclaim", RECLAIM),
    "group_reclaim": ("host.memory.group_reclaim", GROUP_RECLAIM),
    "reclaim_sleep": ("host.memory.reclaim_sleep", RECLAIM_SLEEP),
    "retransmits": ("host.network.retransmit", RETRANSMIT),
    "fence_waits": ("host.gpu.fence_wait", FENCE),
    "gpu_queued": ("host.gpu.queue", GPU_QUEUED),
    "gpu_run": ("host.gpu.run", GPU_RUN),
}

_OF_NODE = {
    "cpu_khz": ("host.power.frequency", FREQUENCY),
    "temperature_mc": ("host.power.temperature", TEMPERATURE),
    "cooling": ("host.power.cooling", COOLING),
}


def job_pressure(
    job: int,
    times: HostTimes,
    tallies: Iterable[Tally],
    states: Iterable[ProbeState],
    *,
    asked: int = 0,
    no_psi: str = "",
) -> JobPressure:
    """Return the record of one job from its threads' times and all tallies.

    `asked`: bits of ASK_*; `no_psi`: the reason why the kernel does not mark stalls for memory.
    """
    why = {state.id: state.reason for state in states if state.state != "attached"}
    for bit, ids in _ASKED.items():
        for id in ids if not asked & bit else ():
            why.setdefault(id, NOT_ASKED)
    mine = [tally for tally in tallies if tally.job == job]
    figures: dict[str, object] = {}
    absent: dict[str, str] = {}
    for name, id in _OF_THREADS.items():
        reason = why.get(id, "") or times.absent or (no_psi if name == "memory_ns" else "")
        if reason or times.totals is None:
            absent[name] = reason
        else:
            figures[name] = getattr(times.totals, name)
    for name, (id, what) in _OF_TALLIES.items():
        if id in why:
            absent[name] = why[id]
        else:
            figures[name] = _spread(tally for tally in mine if tally.what == what)
    if "host.block.request" in why:
        absent["block"] = why["host.block.request"]
    else:
        figures["block"] = {each.detail: _spread([each]) for each in mine if each.what == BLOCK}
    calls = tuple(_calls(each) for each in mine if each.what == IOCTL)
    if "host.device.ioctl" in why and not calls:
        absent["device_calls"] = why["host.device.ioctl"]
    else:
        figures["device_calls"] = calls
    return JobPressure(job, times.t_ns, **figures, absent=absent)  # type: ignore[arg-type]


def psi_missing(path: Path = Path("/proc/pressure/memory")) -> str:
    """Return the reason why the kernel does not mark stalls for memory; empty if it does."""
    try:
        path.read_bytes()
    except OSError as error:
        why = error.strerror
        return f"this kernel does not count stalls for memory (PSI; psi=1 at boot): {why}"
    return ""


def node_signals(tallies: Iterable[Tally], states: Iterable[ProbeState]) -> NodeSignals:
    """Return the record of the node from all tallies."""
    why = {state.id: state.reason for state in states if state.state != "attached"}
    of_node = [tally for tally in tallies if not tally.job]
    figures: dict[str, object] = {}
    absent: dict[str, str] = {}
    for name, (id, what) in _OF_NODE.items():
        if id in why:
            absent[name] = why[id]
        else:
            seen = [tally for tally in of_node if tally.what == what]
            figures[name] = {tally.detail: (tally.count, _signed(tally.last)) for tally in seen}
    if "host.power.trip" in why:
        absent["trips"] = why["host.power.trip"]
    else:
        seen = [tally for tally in of_node if tally.what == TRIP]
        figures["trips"] = {tally.detail: (tally.count, _trip(tally.last)) for tally in seen}
    return NodeSignals(**figures, absent=absent)  # type: ignore[arg-type]


def _spread(tallies: Iterable[Tally]) -> Spread:
    """Return one entry as a spread; without a tally, an empty one."""
    for each in tallies:
        return Spread(each.count, each.ns, each.longest_ns, each.amount, each.lengths)
    return Spread()


def _calls(tally: Tally) -> DeviceCalls:
    major, minor = tally.detail >> MINOR_BITS, tally.detail & ((1 << MINOR_BITS) - 1)
    return DeviceCalls(tally.pid, major, minor, _spread([tally]))


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _trip(kind: int) -> str:
    return TRIPS[kind] if kind < len(TRIPS) else f"kind {kind}"
