# SPDX-License-Identifier: Apache-2.0
"""The tracing plan of one job: its mode, and the window that is open now.

Pure: time comes in as CLOCK_MONOTONIC ns. A job has one window at a time. Every window ends, even
if its user is gone, and then the job has its former mode again.
"""

from __future__ import annotations

import msgspec

from stoker.mesh.wire.queries import TracingQuery
from stoker.mesh.wire.schema import Steered, WindowView
from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler.nouns import TraceMode

LEASE_NS = 1_500_000_000
"""Nanoseconds for which tracers keep a mode; they are dormant soon after the agent's death."""
RENEW_NS = 500_000_000
SETTLE_NS = 500_000_000
"""Nanoseconds that a window waits for tracers to switch; the answer names one that is late."""
BUDGET_PPM = 10_000
"""The default share of a job's time that governed tracing may cost: one percent."""


class OpenWindow(msgspec.Struct):
    """One window. `until_ns` and `to_ns` are None until they are known."""

    number: int
    mode: Steered
    seconds: float
    by: str
    records: bool
    from_ns: int
    settle_ns: int
    """The time at which the wait for a switch ends."""
    until_ns: int | None = None
    to_ns: int | None = None
    over: bool = False
    record_count: int | None = None
    lost: int = 0
    published: int = 0
    publish_dropped: int = 0
    reason: str = ""

    @property
    def state(self) -> str:
        if self.over:
            return "failed" if self.reason else "ready"
        if self.to_ns is not None:
            return "closing"
        return "opening" if self.until_ns is None else "open"

    def view(self) -> WindowView:
        """Return the window as users see it."""
        return WindowView(
            window=self.number,
            state=self.state,  # type: ignore[arg-type]
            mode=self.mode,
            seconds=self.seconds,
            by=self.by,
            from_ns=self.from_ns,
            to_ns=self.to_ns,
            records=self.record_count,
            records_lost=self.lost,
            published=self.published,
            publish_dropped=self.publish_dropped,
            reason=self.reason,
        )


class TracingPlan:
    """The plan of one job. `mode` holds outside windows; `budget_ppm` is for `governed`."""

    def __init__(self, started: TraceMode, budget_ppm: int = BUDGET_PPM) -> None:
        self.mode: Steered = "governed" if started == "off" else started
        self.budget_ppm = budget_ppm
        self.reason = ""
        """The reason why the governor changed the budget, or the mode of a governed job; empty if
        it did not."""
        self.held: Steered | None = None
        """The mode that a governed job has until it costs less."""
        self.window: OpenWindow | None = None
        """The newest window, open or not."""

    @property
    def wanted(self) -> Steered:
        """The mode at this moment."""
        window = self.window
        if window is not None and window.to_ns is None:
            return window.mode
        return self.held if self.held is not None and self.mode == "governed" else self.mode

    @property
    def active(self) -> bool:
        """True if there is a window that is not over."""
        return self.window is not None and not self.window.over

    def take(self, query: TracingQuery, now_ns: int) -> None:
        """Carry out a user's query; repeating it changes nothing."""
        match query.do:
            case "mode":
                self.mode = query.mode
            case "open":
                self._open(query, now_ns)
            case "close":
                self._close(query.window, now_ns)

    def _open(self, query: TracingQuery, now_ns: int) -> None:
        window = self.window
        if window is not None and window.number == query.window:
            return
        if self.active and window is not None:
            raise Refused(
                f"job {query.job} is in a window that {window.by} opened for {window.seconds:g} s",
                hint="a job has one window at a time",
            )
        if query.window < 1 or query.seconds <= 0:
            raise BadRequest("a window has a number from 1 and a length")
        self.window = OpenWindow(
            query.window,
            query.mode,
            query.seconds,
            query.by,
            query.records,
            from_ns=now_ns,
            settle_ns=now_ns + SETTLE_NS,
        )

    def _close(self, number: int, now_ns: int) -> None:
        window = self.window
        if window is None or window.number != number:
            raise NotFound(f"there is no window {number}")
        self.end(now_ns)

    def end(self, now_ns: int) -> None:
        """End the open window now, if there is one."""
        window = self.window
        if window is not None and window.to_ns is None:
            window.to_ns = now_ns
            window.settle_ns = now_ns + SETTLE_NS

    def step(self, now_ns: int, settled: bool) -> bool:
        """Advance the time; `settled`: every tracer has switched. True: write the timeline now."""
        window = self.window
        if window is None or window.over:
            return False
        if window.until_ns is None and (settled or now_ns >= window.settle_ns):
            window.from_ns = min(now_ns, window.to_ns or now_ns)
            window.until_ns = now_ns + int(window.seconds * 1e9)
        if window.to_ns is None and window.until_ns is not None and now_ns >= window.until_ns:
            self.end(now_ns)
            return False
        return window.to_ns is not None and (settled or now_ns >= window.settle_ns)

    def written(self, record_count: int, lost: int) -> None:
        """Record that the window's timeline is on disk."""
        assert self.window is not None
        self.window.over, self.window.record_count, self.window.lost = True, record_count, lost

    def failed(self, reason: str) -> None:
        """Record that the window gets no timeline."""
        assert self.window is not None
        self.window.over, self.window.reason = True, reason
