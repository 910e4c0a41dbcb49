# SPDX-License-Identifier: Apache-2.0
"""What a job did on its GPUs: its trace segments, folded into the summary that everybody reads.

Relied on by the agent (one JobTrace per traced job) and by the report. The segments belong to the
job and are read as hostile input; the fold is the agent's own file and is whole after kill -9 at
any point: no record is lost or counted twice. All times are CLOCK_MONOTONIC ns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from stoker.native import errors

Mode = Literal["off", "governed", "full"]

SPAN_BYTES = 24
"""One thread span as BPF writes it: {u64 from_ns; u64 to_ns; u32 tid; u16 state; u16 detail}."""

STORE_FILES = ("fold", "events", "spans")
"""What a JobTrace keeps in its store folder; created with the first segment, removed by nobody."""


class Window(msgspec.Struct, frozen=True):
    """The accounted time of a job."""

    from_ns: int
    to_ns: int


class KernelRow(msgspec.Struct, frozen=True):
    """All launches of one kernel name. `error_ns` is the half-width of the 95 % interval of
    `total_ns`; it is 0 exactly when every launch was timed."""

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    estimate: bool = False
    error_ns: int = 0


class CopyRow(msgspec.Struct, frozen=True):
    """All copies of one kind (read, write, copy, fill, map, ...)."""

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    bytes: int
    estimate: bool = False
    error_ns: int = 0


class Causes(msgspec.Struct, frozen=True):
    """Where a device's window went; the fields add up to `window_ns` exactly."""

    kernel_ns: int = 0
    copy_ns: int = 0
    host_on_cpu_ns: int = 0
    host_runnable_ns: int = 0
    host_blocked_ns: int = 0
    host_paging_ns: int = 0
    peer_ns: int = 0
    throttled_ns: int = 0
    held_idle_ns: int = 0
    not_observed_ns: int = 0


class DeviceRow(msgspec.Struct, frozen=True):
    """One granted or used device."""

    id: str
    window_ns: int
    causes: Causes
    estimate: bool = False


class ClockRow(msgspec.Struct, frozen=True):
    """How device stamps were put on CLOCK_MONOTONIC; `error_ns` bounds the alignment."""

    source: str
    offset_ns: int
    drift_ppb: int
    error_ns: int


class CostRow(msgspec.Struct, frozen=True):
    """What tracing cost the job's threads, by the tracer's own clock; share is of their time."""

    launches: int
    tracer_ns: int
    ns_per_launch: float
    share: float


class TraceSummary(msgspec.Struct, frozen=True):
    """The trace of one job as the contract page spells it. `absent`: what has no value, and why."""

    mode: Mode
    window: Window
    kernels: tuple[KernelRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    loss: dict[str, int] = {}
    clock: ClockRow | None = None
    cost: CostRow | None = None
    absent: dict[str, str] = {}


class DrainStats(msgspec.Struct, frozen=True):
    """One drain: records folded now, all losses so far, and what the caller may want to know."""

    records: int
    lost: int
    threads: tuple[int, ...]
    """Thread ids that own rings, i.e. feed a device: worth thread spans."""
    segments: int
    """Processes with a segment that is still read."""
    fill: float
    """Fullest ring seen, 0 to 1; above 0.25 drain again at once."""


class HostTimes(msgspec.Struct, frozen=True):
    """Aggregate states of one thread over the window, ns, where no spans are known."""

    on_cpu_ns: int
    runnable_ns: int
    blocked_ns: int
    io_ns: int


class TimelineStats(msgspec.Struct, frozen=True):
    """What a Perfetto file holds and what it does not."""

    records: int
    spans: int
    timeline_dropped: int
    spans_dropped: int
    bytes: int


def layer_environment(
    library: Path, segment_dir: Path, mode: Mode, *, layers: str = ""
) -> dict[str, str]:
    """Environment that loads the OpenCL layer into a job; empty when tracing is off.

    `layers`: OPENCL_LAYERS as the job already has it; ours comes first, i.e. nearest the driver.
    """
    if mode == "off":
        return {}
    return {
        "OPENCL_LAYERS": f"{library}:{layers}" if layers else str(library),
        "STOKER_TRACE_DIR": str(segment_dir),
        "STOKER_TRACE_MODE": mode,
    }


class JobTrace:
    """The fold of one job. Not for two threads at once; drain, summary and finish release the GIL."""

    @classmethod
    def open(
        cls,
        segment_dir: Path,
        store_dir: Path,
        mode: Mode,
        owner_uid: int | None = None,
        devices: Sequence[str] = (),
    ) -> JobTrace:
        """Open or continue. `owner_uid`: whose segments are believed (None: the caller's own);
        `devices`: ids granted to the job, listed in the summary also when never used.

        Raises NotFound where `segment_dir` is missing, Corrupt where the fold contradicts itself.
        """
        raise errors.NotSupported("the tracer is not built")

    def drain(self) -> DrainStats:
        """Fold every published record; cheap when nothing happened."""
        raise errors.NotSupported("the tracer is not built")

    def add_spans(self, spans: bytes) -> None:
        """Thread spans of the job, SPAN_BYTES each, per thread in order; call it before drain.

        A state that is still going on may be sent up to now and continued by the next span.
        """
        raise errors.NotSupported("the tracer is not built")

    def set_host_times(self, times: Mapping[int, HostTimes]) -> None:
        """Aggregates by thread id, cumulative, for gaps that no span explains."""
        raise errors.NotSupported("the tracer is not built")

    def set_window(self, from_ns: int, to_ns: int | None = None) -> None:
        """The time to account for; without `to_ns` it ends at the last drain. It only ever grows."""
        raise errors.NotSupported("the tracer is not built")

    def summary(self) -> TraceSummary:
        """What is known now, without draining."""
        raise errors.NotSupported("the tracer is not built")

    def finish(self, to_ns: int | None = None) -> TraceSummary:
        """After the job's last process: drain the rest, close the window, give the final summary.

        Removes the segments it has folded. Calling it again gives the same summary.
        """
        raise errors.NotSupported("the tracer is not built")

    def write_timeline(
        self, path: Path, *, title: str = "", process_names: Mapping[int, str] | None = None
    ) -> TimelineStats:
        """Write the newest records and spans as a Perfetto trace; `path` is replaced whole."""
        raise errors.NotSupported("the tracer is not built")

    def close(self) -> None:
        """Let go of files; the store stays and can be opened again."""

    def __enter__(self) -> JobTrace:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def bounded_uid(owner_uid: int | None) -> int:
    """The uid whose files are believed."""
    return os.getuid() if owner_uid is None else owner_uid
