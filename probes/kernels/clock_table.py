# SPDX-License-Identifier: Apache-2.0
"""The clock table: how far every clock is from CLOCK_MONOTONIC, how it drifts, and how well known.

Times of a trace are CLOCK_MONOTONIC ns; add `offset_ns` to a stamp of another clock. The
clocks of the system are read here, between two readings of CLOCK_MONOTONIC; those of GPUs are read
by the tracers in the jobs and come with their segments. An unknown value is None, and `method` has
the reason.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Protocol

import msgspec

from stoker.native import _clocks

REFRESH_S = 1.0
"""A requested row that is older than this is read again; 64 readings make its window."""

FIRST_READINGS = 4


class ClockRow(msgspec.Struct, frozen=True):
    """One clock. `offset_ns`: CLOCK_MONOTONIC minus the clock, at `refreshed_ns`.

    `drift_ppb`: what CLOCK_MONOTONIC gains on a second of it; None before half a second is read.
    `error_ns` bounds the alignment: half of the bracket of the newest reading, and how far the
    readings of the window lie from a straight line. `steps`: times the clock was set meanwhile.
    """

    clock: str
    offset_ns: int | None
    drift_ppb: int | None
    error_ns: int | None
    refreshed_ns: int | None
    method: str
    steps: int = 0


class DeviceClock(Protocol):
    """A tracer's clock of one device, as in the summary of a trace."""

    @property
    def source(self) -> str: ...
    @property
    def offset_ns(self) -> int: ...
    @property
    def drift_ppb(self) -> int: ...
    @property
    def error_ns(self) -> int: ...


class Clocks:
    """The clocks of this machine; safe from several threads."""

    def __init__(self) -> None:
        self._table = _clocks.Table()
        self._lock = threading.Lock()
        self._read_at = 0.0

    def refresh(self) -> None:
        """Read every clock once more; this takes about 5 us, the first time up to 20 ms more."""
        with self._lock:
            self._table.refresh()
            self._read_at = time.monotonic()

    def rows(self) -> tuple[ClockRow, ...]:
        """Return every clock of the system, read again if older than REFRESH_S."""
        if not self._read_at:
            for _ in range(FIRST_READINGS):
                self.refresh()
        elif time.monotonic() - self._read_at > REFRESH_S:
            self.refresh()
        with self._lock:
            rows, ticks = self._table.rows(), self._table.ticks()
        return tuple(_row(name, found, ticks) for name, found in rows)


_HERE = Clocks()


def clock_table(devices: Iterable[tuple[str, DeviceClock]] = ()) -> tuple[ClockRow, ...]:
    """Return the clocks of the system, then those of `devices`: (device id, its tracer's clock)."""
    return (*_HERE.rows(), *(device_row(id, clock) for id, clock in devices))


def device_row(id: str, clock: DeviceClock) -> ClockRow:
    """Return a device's clock as a row of the table; the time of its reading is unknown here."""
    return ClockRow(
        clock=id,
        offset_ns=clock.offset_ns,
        drift_ppb=clock.drift_ppb,
        error_ns=clock.error_ns,
        refreshed_ns=None,
        method=f"by the tracer in the job: {clock.source}",
    )


def _row(name: str, found: _clocks.Row | None, ticks: tuple[int, bool, str]) -> ClockRow:
    hz, measured, why = ticks
    if found is None:
        return ClockRow(name, None, None, None, None, why or "it cannot be read here")
    offset_ns, drift_ppb, error_ns, refreshed_ns, pairs, steps = found
    method = f"between two readings of CLOCK_MONOTONIC, the closest of 16, {pairs} times"
    if name in ("TSC", "CNTVCT"):
        said = "measured" if measured else "as the processor or the hypervisor says"
        method += f"; counted at {hz} Hz, {said}"
    return ClockRow(name, offset_ns, drift_ppb, error_ns, refreshed_ns, method, steps)
