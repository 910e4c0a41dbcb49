# SPDX-License-Identifier: Apache-2.0
"""The tracing plan of one job carried out: tracer modes, published records, the window's files.

It owns the files `mode`, `window.json` and `window.perfetto` of a job's folder. The mode outlives
the agent, and a window's file exists from the moment its state is `ready`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.local_records import LOCAL_RECORDS_PER_S_MAX, Bus
from stoker.agent.tracing.record_publisher import Allowance, Publication, RecordTarget, Send
from stoker.agent.tracing.tracers import Tracers
from stoker.agent.tracing.tracing_plan import TracingPlan
from stoker.agent.tracing.window_capture import WindowCapture
from stoker.mesh.wire.queries import TracingQuery
from stoker.mesh.wire.schema import Steered, TracingView
from stoker.native.errors import NotFound, StokerError
from stoker.probes.kernels.job_trace import JobTrace, TimelineCounts, TimeWindow

MODE_FILE = "mode"
WINDOW_FILE = "window.json"
WINDOW_TIMELINE_FILE = "window.perfetto"
CAPTURE_FILE = "window.records"

Write = Callable[[Path, TimeWindow, BinaryIO], TimelineCounts]


class RecordSink(msgspec.Struct, frozen=True):
    """The publisher of the records of this node, with its allowance of bytes."""

    node: str
    send: Send
    allowance: Allowance
    bus: Bus | None = None
    """The node-local bus, for records at full rate; None without one."""
    local_allowance: Allowance = msgspec.field(
        default_factory=lambda: Allowance(LOCAL_RECORDS_PER_S_MAX)
    )


class TraceWindow:
    """The windows of one job. Before `attach`, while there is no fold, only the plan changes."""

    def __init__(self, record: StartRecord, store: Path, sink: RecordSink) -> None:
        self._record, self._store, self._sink = record, store, sink
        self.plan = TracingPlan(record.trace)
        self._trace: JobTrace | None = None
        self._tracers: Tracers | None = None
        self._publication: Publication | None = None
        self._capture: WindowCapture | None = None

    def attach(self, trace: JobTrace) -> None:
        """Attach the fold, through which the tracers are controlled."""
        self._trace, self._tracers = trace, Tracers(trace)
        self.plan.mode = _stored_mode(self._store) or self.plan.mode
        (self._store / CAPTURE_FILE).unlink(missing_ok=True)  # left by an agent that died

    def take(self, query: TracingQuery, now_ns: int) -> TracingView:
        """Carry out a user's query and return the view after it."""
        if self._trace is None and query.do == "open":
            raise NotFound(f"no process of job {query.job} has called a device yet")
        before = self.plan.window
        self.plan.take(query, now_ns)
        if query.do == "mode":
            self._store_mode(query.mode)
        if self.plan.window is not before:
            self._begin()
        self.apply_mode()
        return self.view()

    def _begin(self) -> None:
        window = self.plan.window
        assert window is not None and self._trace is not None
        for name in (WINDOW_FILE, WINDOW_TIMELINE_FILE):
            (self._store / name).unlink(missing_ok=True)
        self._capture = WindowCapture(self._store / CAPTURE_FILE, self._trace)
        if window.records:
            sink, key = self._sink, self._record.key
            target = RecordTarget(sink.node, key, window.number, window.by)
            self._publication = Publication(target, self._trace, sink.send, sink.allowance)

    def apply_mode(self) -> None:
        """Before a drain, set the mode that is wanted now."""
        if self._tracers is not None:
            self._tracers.apply(self.plan.wanted, self.plan.budget_ppm)

    def drained(self, now_ns: int, write: Write) -> None:
        """After a drain, store and publish new records and end the window when its time is over."""
        plan = self.plan
        if self._tracers is None or not plan.active:
            return
        if self._capture is not None:
            self._capture.drained()
        if self._publication is not None:
            self._publish(lambda publication: publication.drained(now_ns))
        if plan.step(now_ns, self._tracers.settled(plan.wanted)):
            self._finish(now_ns, write)

    def finish(self, ended_ns: int, now_ns: int, write: Write) -> None:
        """End the window of a job that is over."""
        if self.plan.active:
            self.plan.end(ended_ns)
            self._finish(now_ns, write)

    def fail(self, why: str) -> None:
        """End the window because nothing can be folded any more."""
        if self.plan.active:
            self.plan.end(0)
            self.plan.failed(why)
        if self._capture is not None:
            self._capture.close()
            self._capture = None

    def _finish(self, now_ns: int, write: Write) -> None:
        window = self.plan.window
        assert window is not None and window.to_ns is not None
        if self._publication is not None:
            self._publish(lambda publication: publication.end(now_ns))
            self._publication = None
        part = TimeWindow(window.from_ns, max(window.to_ns, window.from_ns))
        capture, self._capture = self._capture, None
        assert capture is not None
        try:
            capture.drained()
            counts = write(self._store / WINDOW_TIMELINE_FILE, part, capture.file)
        except StokerError as error:
            self.plan.failed(error.message)
        else:
            self.plan.written(counts.records, capture.lost)
        finally:
            capture.close()
        self._store_view()

    def _publish(self, act: Callable[[Publication], None]) -> None:
        window = self.plan.window
        assert window is not None and self._publication is not None
        act(self._publication)
        window.published = self._publication.published
        window.publish_dropped = self._publication.dropped

    def view(self) -> TracingView:
        """Return how the job is traced, as users see it."""
        plan, record = self.plan, self._record
        window = plan.window
        return TracingView(
            job=record.job,
            node=self._sink.node,
            mode=plan.mode,
            wanted=plan.wanted,
            budget_ppm=plan.budget_ppm,
            reason=plan.reason,
            tracers=tuple(self._tracers.views()) if self._tracers is not None else (),
            window=window.view() if window is not None else None,
        )

    def _store_view(self) -> None:
        """Store the view for queries after the job's end and after the agent's."""
        _replace(self._store / WINDOW_FILE, msgspec.json.encode(self.view()))

    def _store_mode(self, mode: Steered) -> None:
        self._store.mkdir(mode=0o700, exist_ok=True)
        _replace(self._store / MODE_FILE, mode.encode())


def stored_view(store: Path) -> TracingView:
    """Return the last view of a job that is over, with its newest window; NotFound without one."""
    try:
        return msgspec.json.decode((store / WINDOW_FILE).read_bytes(), type=TracingView)
    except (FileNotFoundError, msgspec.MsgspecError):
        raise NotFound("the job is over, and it had no window") from None


def _stored_mode(store: Path) -> Steered | None:
    try:
        mode: Steered = msgspec.convert((store / MODE_FILE).read_text(), type=Steered)
    except (OSError, ValueError):  # ValidationError is a ValueError
        return None
    return mode


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.new")
    partial.write_bytes(data)
    partial.replace(path)
