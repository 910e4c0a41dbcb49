# SPDX-License-Identifier: Apache-2.0
"""A tracer's segment as tests look at it: every field by its place in native/records/segment.h.

Nothing is folded here: what a tracer wrote is compared with what a simulated runtime did.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

KERNEL = 16
MODES = {"governed": 1, "full": 2, "dormant": 3}
TIMED, COUNTED, BLIND = 1, 2, 3

_HEADER = struct.Struct("<QIIQQIIII16sQQQQQQIIQQQIIQQQQQQQQI60s")
_RECORD = struct.Struct("<QQQQIIIIIHBBHBBI")
_COUNTERS = (
    "launches",
    "copies",
    "timed",
    "ring_full",
    "pending_full",
    "failed",
    "unstamped",
    "lost_ns",
    "tracer_ns",
    "thread_ns",
    "opened_ns",
    "seen_ns",
    "host_lost",
    "untimed",
)
_SLOTS, _SLOT, _DEVICES, _NAMES, _WINDOWS, _COPIES = 4096, 512, 36864, 45056, 94208, 106496
_COUNTS = 126976


@dataclass(frozen=True)
class Record:
    queued_ns: int
    start_ns: int
    end_ns: int
    bytes: int
    correlation: int
    call_ns: int
    tid: int
    name: str
    kind: int
    device: int
    queue: int
    shift: int
    call_before: int = 0


@dataclass(frozen=True)
class Window:
    from_ns: int
    to_ns: int
    phase: int
    chosen_ns: int


@dataclass(frozen=True)
class Device:
    id: str
    name: str
    type: int
    clock: str
    offset_ns: int
    drift_ppb: int
    error_ns: int


class SegmentView:
    """The one segment in a folder; waits for it."""

    def __init__(self, folder: Path, timeout_s: float = 20.0) -> None:
        until = time.monotonic() + timeout_s
        while not (found := sorted(folder.glob("*.seg"))):
            assert time.monotonic() < until, "no segment was made"
            time.sleep(0.01)
        (self.path,) = found
        while self.path.stat().st_size < _COUNTS or self.path.open("rb").read(8) != b"tokeseg1":
            assert time.monotonic() < until, "the segment was not finished"
            time.sleep(0.01)
        with self.path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def _u64(self, at: int) -> int:
        found: int = struct.unpack_from("<Q", self._data, at)[0]
        return found

    def _header(self) -> tuple[int, ...]:
        return _HEADER.unpack_from(self._data, 0)

    @property
    def tracer(self) -> int:
        return self._header()[17]

    @property
    def mode(self) -> int:
        return self._header()[21]

    @property
    def phase(self) -> int:
        return self._header()[22]

    @property
    def switches(self) -> int:
        return self._header()[24]

    @property
    def lease_ns(self) -> int:
        """The end of the agent's lease, CLOCK_MONOTONIC."""
        return self._u64(128)

    @property
    def clock_mismatches(self) -> int:
        return self._header()[15]

    @property
    def devices_refused(self) -> int:
        return self._header()[12]

    @property
    def threads_refused(self) -> int:
        return self._header()[10]

    @property
    def command_buffers(self) -> int:
        return self._header()[14]

    @property
    def vendor_dropped(self) -> int:
        return self._header()[30]

    @property
    def unjoined(self) -> int:
        return self._u64(320)

    @property
    def holder(self) -> str:
        """The reason why the tracer stepped aside; empty while it did not."""
        aside, holder = _HEADER.unpack_from(self._data, 0)[31:33]
        return _text(holder) if aside else ""

    def counter(self, name: str) -> int:
        """Return the sum of a counter over all slots."""
        at = 192 + 8 * _COUNTERS.index(name)
        return sum(self._u64(_SLOTS + slot * _SLOT + at) for slot in range(64))

    def names(self) -> list[str]:
        rows = range(self._header()[7])
        return [
            _text(self._data[_NAMES + 192 * row + 4 : _NAMES + 192 * (row + 1)]) for row in rows
        ]

    def launches(self) -> dict[str, int]:
        """Counted launches by name."""
        names = self.names()
        counts = dict.fromkeys(names, 0)
        for row in range(65):
            for index, name in enumerate(names):
                counts[name] += self._u64(_COUNTS + row * 2048 + index * 8)
        return {name: count for name, count in counts.items() if count}

    def copies(self) -> dict[int, tuple[int, int]]:
        """(count, bytes) by kind."""
        found: dict[int, tuple[int, int]] = {}
        for row in range(65):
            for kind in range(16):
                at = _COPIES + row * 256 + kind * 16
                count, size = self._u64(at), self._u64(at + 8)
                if count:
                    before = found.get(kind, (0, 0))
                    found[kind] = (before[0] + count, before[1] + size)
        return found

    def launches_by_thread(self) -> dict[int, int]:
        """Launches counted in the slots of threads that are still there."""
        rows = (_SLOTS + slot * _SLOT for slot in range(64))
        return {
            struct.unpack_from("<I", self._data, row + 128)[0]: self._u64(row + 192) for row in rows
        }

    def oldest(self) -> int:
        """The least `oldest_ns` of all slots; 0 when nobody waits."""
        found = [
            self._u64(_SLOTS + slot * _SLOT + 320 + 8 * lane)
            for slot in range(64)
            for lane in range(8)
        ]
        return min((ns for ns in found if ns), default=0)

    def devices(self) -> list[Device]:
        found = []
        for row in range(16):
            fields = struct.unpack_from("<II64s128s24sqqQQ", self._data, _DEVICES + 512 * row)
            if fields[0]:
                id, name, clock = map(_text, fields[2:5])
                found.append(Device(id, name, fields[1], clock, *fields[5:8]))
        return found

    def windows(self) -> list[Window]:
        """Those that are closed, and the one that is open as if it ended now."""
        header = self._header()
        closed, from_ns = header[27], header[28]
        found = []
        for index in range(max(0, closed - 256), closed):
            at = _WINDOWS + 40 * (index % 256)
            start, end, phase, _sequence, chosen = struct.unpack_from("<QQIIQ", self._data, at)
            found.append(Window(start, end, phase, chosen))
        if from_ns:
            found.append(Window(from_ns, time.monotonic_ns(), self.phase, 0))
        return found

    def records(self) -> list[Record]:
        """All that are in the rings; no reader has taken any."""
        names, found = self.names(), []
        for slot in range(64):
            at = _SLOTS + slot * _SLOT
            head, room, ring = self._u64(at), *struct.unpack_from("<IQ", self._data, at + 132)
            for index in range(min(head, room)):
                fields = _RECORD.unpack_from(self._data, ring + 64 * index)
                queued, start, end, size, _, correlation, before, call, tid = fields[:9]
                name, kind, device, queue, shift, _flags, sequence = fields[9:]
                assert sequence == index & 0xFFFFFFFF
                found.append(
                    Record(
                        queued,
                        start,
                        end,
                        size,
                        correlation,
                        call,
                        tid,
                        names[name],
                        kind,
                        device,
                        queue,
                        shift,
                        before,
                    )
                )
        return found

    def want(self, mode: str, *, serial: int, budget_ppm: int = 0, lease_s: float = 3600.0) -> None:
        """Write the control block as the agent does."""
        lease = time.monotonic_ns() + int(lease_s * 1e9)
        wanted = MODES[mode] | budget_ppm << 8 | serial << 32
        fd = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(fd, struct.pack("<Q", lease), 128)
            os.pwrite(fd, struct.pack("<Q", wanted), 120)
        finally:
            os.close(fd)

    def wait_for_mode(self, mode: str, timeout_s: float = 30.0) -> int:
        """Wait until the tracer is in this mode and return when that was (CLOCK_MONOTONIC ns)."""
        until = time.monotonic() + timeout_s
        while self.mode != MODES[mode]:
            assert time.monotonic() < until, f"the tracer did not become {mode}"
            time.sleep(0.002)
        return time.monotonic_ns()


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode()
