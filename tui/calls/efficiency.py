# SPDX-License-Identifier: Apache-2.0
"""The efficiency of a job: its bottleneck, and its use of GPUs, CPUs and memory.

Pure: the object of a job with its trace in, the object of `explain -o json` out. A value that is
not known is null, and `absent` says why the device time is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stoker.tui.calls.bottleneck import Bottleneck, bottleneck

Object = Mapping[str, Any]


class Efficiency(msgspec.Struct, frozen=True):
    """The use of what a job held; `ran_ns` up to now while it runs."""

    ran_ns: int | None
    bottleneck: Bottleneck | None
    absent: str
    """The reason why there is no bottleneck although the job holds devices; else empty."""
    cpus: float | None
    """The CPUs that it used on average; null while it runs."""
    cpus_asked: float | None
    memory_peak_bytes: int | None
    memory_asked_bytes: int | None


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
        cpu_ns / ran_ns if cpu_ns is not None and ran_ns else None,
        spec["cpu_milli"] / 1000 if spec.get("cpu_milli") else None,
        usage.get("memory_peak_bytes"),
        spec.get("memory_bytes") or None,
    )


def _rank(time: Object) -> Object:
    """The device time of a rank in the form of a device."""
    return {"id": f"rank {time['rank']}", **time}


def _absent(job: Object, trace: Object) -> str:
    return str(job.get("trace_absent") or "") or (
        "no device time is known yet" if trace else "it was not traced"
    )
