# SPDX-License-Identifier: Apache-2.0
"""The efficiency of a job: its bottleneck, and its use of GPUs, CPUs and memory.

Pure: the object of a job with its trace in, the object of `explain -o json` out. A value that is
not known is null, and `absent` says why the device time is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stoker.mesh.wire.bottleneck import Bottleneck, bottleneck
from stoker.tui.render.units import MILLI

Object = Mapping[str, Any]

RAN_LEAST_NS = 100_000_000
"""The CPU time of a shorter run is that of its start, which says nothing of the job."""

UNTOLD = "its node does not tell it"
_UNREAD = ("causes.throttled_ns", "clocks_lowered")
"""The keys under which a trace says why it knows no throttling: `THROTTLED` of
probes/kernels/trace_summary.py."""


class Throttled(msgspec.Struct, frozen=True):
    """A device that did less than it could, for `ns` of the job's time."""

    device: str
    ns: int
    share: float
    """The part of the time for which the job held the device, from 0 to 1."""
    throttle: Object | None
    """The causes with their times, source and error, as the trace has them; null for a rank."""


class Efficiency(msgspec.Struct, frozen=True):
    """The use of what a job held; `ran_ns` up to now while it runs."""

    ran_ns: int | None
    bottleneck: Bottleneck | None
    absent: str
    """The reason why there is no bottleneck although the job holds devices; else empty."""
    cpus: float | None
    """The CPUs that it used on average; null while it runs, and below RAN_LEAST_NS."""
    cpus_asked: float | None
    memory_peak_bytes: int | None
    memory_asked_bytes: int | None
    energy_j: float | None = None
    """The energy of its whole devices by their counters; null with `energy_absent`."""
    energy_absent: str = ""
    """The reason why the energy of a job with devices is not known."""
    wasted_ns: int | None = None
    """The time of devices, or of its shares of them, that it held and nobody used."""
    throttled: tuple[Throttled, ...] = ()
    """The devices that were throttled, the worst first."""
    throttled_absent: str = ""
    """The reason why the throttling of traced devices is not known; empty where it is."""


def efficiency(job: Object, times: Sequence[Object], now_ns: int) -> Efficiency | None:
    """The efficiency of a job that was started; None before its start.

    `times` are the device times of the ranks of a gang; without them those of its trace count.
    """
    started_ns, ended_ns = job["times"].get("started_ns"), job["times"].get("ended_ns")
    if started_ns is None:
        return None
    ran_ns = max(0, (ended_ns or now_ns) - started_ns)
    usage, spec = job.get("usage") or {}, job["spec"]
    cpu_ns = usage.get("cpu_ns")
    trace = job.get("trace") or {}
    devices = [_rank(each) for each in times] or trace.get("devices") or ()
    found = bottleneck(devices, trace.get("kernels") or ())
    return Efficiency(
        ran_ns,
        found,
        "" if found or not spec.get("gpu_milli") else _absent(job, trace),
        cpu_ns / ran_ns if cpu_ns is not None and ran_ns >= RAN_LEAST_NS else None,
        spec["cpu_milli"] / 1000 if spec.get("cpu_milli") else None,
        usage.get("memory_peak_bytes"),
        spec.get("memory_bytes") or None,
        *(_energy(spec["gpu_milli"], times or devices) if spec.get("gpu_milli") else (None, "")),
        round(found.idle_ns * min(spec["gpu_milli"], MILLI) / MILLI) if found else None,
        tuple(sorted(_throttled(devices), key=lambda each: -each.share)),
        _unread(trace) if found and not times else "",
    )


def _energy(gpu_milli: int, told: Sequence[Object]) -> tuple[float | None, str]:
    """Return the energy of all devices, or why it is not known: a sum that lacks one is none."""
    if gpu_milli % MILLI:
        return None, "a part of a device has no counter of its own"
    energies = [each for row in told for each in _energies(row)]
    absent = next((each["absent"] or UNTOLD for each in energies if each["joules"] is None), "")
    if absent or not energies:
        return None, absent or UNTOLD
    return sum(each["joules"] for each in energies), ""


def _energies(row: Object) -> list[Object]:
    """Return the energy of a device, or of all devices of a rank."""
    found = row.get("energy")
    each = found if isinstance(found, list) else [found]
    return [one or {"joules": None, "absent": UNTOLD} for one in each]


def _throttled(devices: Sequence[Object]) -> Iterator[Throttled]:
    for device in devices:
        ns, window_ns = device["causes"].get("throttled_ns") or 0, device["window_ns"]
        if ns and window_ns:
            yield Throttled(str(device["id"]), ns, ns / window_ns, device.get("throttle"))


def _unread(trace: Object) -> str:
    """Return why a trace knows no throttling, or not what lowered clocks."""
    absent = trace.get("absent") or {}
    return next((str(absent[key]) for key in _UNREAD if key in absent), "")


def _rank(time: Object) -> Object:
    """The device time of a rank in the form of a device."""
    return {"id": f"rank {time['rank']}", **time}


def _absent(job: Object, trace: Object) -> str:
    return str(job.get("trace_absent") or "") or (
        "no device time is known yet" if trace else "it was not traced"
    )
