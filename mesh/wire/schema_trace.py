# SPDX-License-Identifier: Apache-2.0
"""The public messages about traces: a job's timeline, and how a running job is traced.

The agent builds a TracingView; the scheduler passes it on.
"""

from __future__ import annotations

from typing import Literal

from stoker.mesh.wire.schema_cluster import Int, Message, Part, Wait

PIECE_BYTES_MAX = 256 * 1024
"""Most bytes of a timeline in one TraceView, before base64."""
WINDOW_S_MAX = 600.0
"""Longest window of one `job.tracing`."""
WINDOW_S_MIN = 0.01

JobRef = Int | str
"""A job number, or "last": the caller's newest job."""

Steered = Literal["dormant", "governed", "full"]
"""Modes between which a tracer in a running job is switched."""


class TraceRequest(Message, frozen=True):
    """`job.trace`: the Perfetto timeline of a job, or of a window of it, piece by piece."""

    job: JobRef = "last"
    offset: Int = 0
    limit: Int = PIECE_BYTES_MAX
    wait_s: Wait = 0.0
    window: Int = 0
    """Number of a window that `job.tracing` opened; 0: all that is kept of the job."""


class TraceView(Message, frozen=True):
    """A piece of the timeline file (base64); `size_bytes` is null while it still grows."""

    job: int
    data: bytes
    next_offset: int
    eof: bool
    size_bytes: int | None = None


class TracingRequest(Message, frozen=True):
    """`job.tracing`: how a running job is traced; the owner and administrators may ask.

    `look` changes nothing. `mode` sets the mode the job has from now on. `open` begins a window of
    `seconds` in `mode`, after which the job has its former mode again; its file is asked for with
    `job.trace`. `close` ends the window early. One window at a time; the newest one's file is kept.
    """

    job: JobRef = "last"
    do: Literal["look", "mode", "open", "close"] = "look"
    mode: Steered = "full"
    seconds: float = 5.0
    """Of `open`, from 0.01 to 600, counted from when every tracer has switched."""
    window: Int = 0
    """Of `open` and `close`: a number from 1 of the caller's choice. The same again is the same
    window, so a request can be repeated."""
    records: bool = False
    """Of `open`: publish what is recorded on `stoker.v1.records.<user>.<node>.<job>`."""
    wait_s: Wait = 0.0


class WindowView(Part, frozen=True):
    """The newest window. Times are CLOCK_MONOTONIC ns of the node."""

    window: int
    state: Literal["opening", "open", "closing", "ready", "failed"]
    """`opening`: tracers are switching; `closing`: the last records are on their way; `ready`: its
    timeline can be fetched; `failed`: `reason` says why it cannot."""
    mode: Steered
    seconds: float
    by: str
    """Who opened it."""
    from_ns: int
    to_ns: int | None = None
    """Null while it is open."""
    records: int | None = None
    """Records in its timeline; null before it is ready."""
    records_lost: int = 0
    """Of the window and not in its timeline: the newest 262,144 are."""
    published: int = 0
    publish_dropped: int = 0
    """Records that were to be published and were not, for the limit of their rate."""
    reason: str = ""


class TracerView(Part, frozen=True):
    """The tracer in one process of the job. `mode` is in force, whatever is wanted."""

    pid: int
    tracer: str
    """Which one: `opencl`, `cupti`, `rocprofiler`, `level_zero`; ends in ` SIM` where its devices
    are simulated."""
    mode: str
    phase: str = ""
    """Of `governed`, at this moment: `timed`, `counted` or `blind`."""
    switches: int = 0
    switches_late: int = 0
    """Put off because a call was in a queue, and tried again."""
    pinned: int = 0
    """Queues that cannot be switched, so stay as they were made."""
    holder: str = ""
    """Another profiler holds the only place, so this tracer stays dormant."""


class TracingView(Message, frozen=True):
    """`mode` is wanted from now on; `wanted` at this moment (of the window, if one is open)."""

    job: int
    node: str
    mode: Steered
    wanted: Steered
    budget_ppm: int
    """Share of the job's time that `governed` tracing may cost, in millionths."""
    reason: str = ""
    """Why the governor changed the budget or the mode, if it did."""
    tracers: tuple[TracerView, ...] = ()
    window: WindowView | None = None
    subject: str = ""
    """Where records are published for whoever asks this, while a window of theirs is open that
    asked for it."""
