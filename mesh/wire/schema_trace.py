# SPDX-License-Identifier: Apache-2.0
"""The public messages about traces: a job's timeline, the tracing of a running job, its kernels.

The agent makes a TracingView, which the scheduler passes on.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stoker.mesh.wire.schema_cluster import Int, Message, Part, ReplyMessage, Wait

PIECE_BYTES_MAX = 256 * 1024
"""The most bytes of a timeline in one TraceView, before base64."""
WINDOW_S_MAX = 600.0
"""The longest window of one `job.tracing`."""
WINDOW_S_MIN = 0.01

JobRef = Int | str
"""A job number, or "last" for the caller's newest job."""

Steered = Literal["dormant", "governed", "full"]
"""The modes between which a tracer in a running job can be switched."""


class TraceRequest(Message, frozen=True):
    """`job.trace`: the Perfetto timeline of a job, or of a window of it, piece by piece."""

    job: JobRef = "last"
    offset: Int = 0
    limit: Int = PIECE_BYTES_MAX
    wait_s: Wait = 0.0
    window: Int = 0
    """The number of a window that `job.tracing` opened; 0 is everything that is kept of the job."""
    rank: Int = 0
    """The rank of a gang whose timeline is requested."""


class TraceView(ReplyMessage, frozen=True):
    """A piece of the timeline file (base64); `size_bytes` is null while it still grows."""

    job: int
    data: bytes
    next_offset: int
    eof: bool
    size_bytes: int | None = None


class TracingRequest(Message, frozen=True):
    """`job.tracing`: query or change how a running job is traced, for its owner or administrators.

    `look` changes nothing. `mode` sets the mode from now on. `open` begins a window of `seconds` in
    `mode`, after which the former mode returns; `job.trace` has its file. `close` ends the window
    early. There is one window at a time, and the file of the newest one is kept.
    """

    job: JobRef = "last"
    do: Literal["look", "mode", "open", "close"] = "look"
    mode: Steered = "full"
    seconds: float = 5.0
    """The length for `open`, 0.01 to 600, which begins when every tracer has switched."""
    window: Int = 0
    """The number, from 1, that the caller of `open` and `close` chooses; a repeated number is the
    same window, so that a request can be repeated."""
    records: bool = False
    """True if `open` is to publish the records on `stoker.v1.records.<user>.<node>.<job>`."""
    wait_s: Wait = 0.0
    rank: Int = 0
    """The rank of a gang that is meant; each is traced by itself."""


class WindowView(Part, frozen=True):
    """The newest window; its times are CLOCK_MONOTONIC ns of the node."""

    window: int
    state: Literal["opening", "open", "closing", "ready", "failed"]
    """The state: `opening` while tracers switch, `closing` while the last records arrive, `ready`
    when its timeline can be fetched, `failed` for the reason in `reason`."""
    mode: Steered
    seconds: float
    by: str
    """The user who opened it."""
    from_ns: int
    to_ns: int | None = None
    """The end; null while it is open."""
    records: int | None = None
    """The number of records in its timeline; null before it is ready."""
    records_lost: int = 0
    """The number of its records that are not in its timeline, which has the newest 262,144."""
    published: int = 0
    publish_dropped: int = 0
    """The number of records that were not published because of the limit of their rate."""
    reason: str = ""


class TracerView(Part, frozen=True):
    """The tracer in one process of the job; `mode` is the one in force."""

    pid: int
    tracer: str
    """The tracer: `opencl`, `cupti`, `rocprofiler` or `level_zero`, followed by ` SIM` if its
    devices are simulated."""
    mode: str
    phase: str = ""
    """The present phase in mode `governed`: `timed`, `counted` or `blind`."""
    switches: int = 0
    switches_late: int = 0
    """The number of switches that were tried again later because a call was in a queue."""
    pinned: int = 0
    """The number of queues that cannot be switched and stay as they were made."""
    holder: str = ""
    """The other profiler that prevents this tracer from leaving the mode `dormant`, or empty."""


class TracingView(ReplyMessage, frozen=True):
    """The tracing of a job: `mode` holds from now on, `wanted` at present (in an open window)."""

    job: int
    node: str
    mode: Steered
    wanted: Steered
    budget_ppm: int
    """The share of the job's time that `governed` tracing may cost, in millionths."""
    reason: str = ""
    """The reason why the governor changed the budget or the mode, or empty."""
    tracers: tuple[TracerView, ...] = ()
    window: WindowView | None = None
    subject: str = ""
    """The subject on which records are published for the caller while the caller's window with
    `records` is open."""


class KernelRequest(Message, frozen=True):
    """`kernel.list`: GPU kernels of the caller's running jobs, or of one job."""

    job: JobRef | None = None


class KernelRow(Part, frozen=True):
    """One GPU kernel name of one job. With `estimate`, total_ns is exact to +-error_ns.

    `seen` is the part of the time in which launches were counted; below 1, `count` is a lower
    bound. `unseen` estimates the launches beyond `count` that sampling left out.
    """

    job: int
    node: str
    name: str
    count: int
    total_ns: int
    p50_ns: int | None = None
    p99_ns: int | None = None
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0
    seen: float = 1.0
    rank: int = 0
    """The rank in a gang whose processes launched it."""


class KernelList(ReplyMessage, frozen=True):
    """Kernels by total time; `absent` has the reason of each node that has none."""

    kernels: tuple[KernelRow, ...]
    absent: dict[str, str] = msgspec.field(default_factory=dict)
