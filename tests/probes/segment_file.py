# SPDX-License-Identifier: Apache-2.0
"""Segments as the layer writes them, made byte by byte, so that tests can make them wrong too."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path

from stoker.native import _trace

AT = _trace.layout()
RECORD = struct.Struct("<QQQQIIIIIHBBHBBI")
COUNTERS = ("launches", "copies", "timed", "ring_full", "pending_full", "failed", "unstamped")
KERNEL, GRAPH = 16, 17
BARRIER, SYNC, USER_EVENT, HELD = 32, 33, 34, 36
NO_DEVICE = 255
TIMED, COUNTED, BLIND = 1, 2, 3
GOVERNED, FULL, DORMANT = 1, 2, 3


def process_start(pid: int) -> int:
    """Start time of a process, clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def record(
    start: int, end: int, *, name: int = 1, kind: int = KERNEL, shift: int = 0, tid: int = 77
) -> list[int]:
    """One launch; its sequence is filled in when it is published."""
    return [start - 5, start, end, 0, 2, 0, 2, 4, tid, name, kind, 0, 3, shift, 0, 0]


@dataclass
class SegmentFile:
    """One process's segment. `rings`: records a ring takes; slots beyond the first are small."""

    folder: Path
    pid: int = 0
    starttime: int = 1
    number: int = 0
    ring_records: int = 1024
    names: tuple[str, ...] = ("saxpy", "smooth")
    hidden: bool = False
    """The file has another name until `reveal`: its process is already over."""
    head: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.pid:  # this process: alive
            self.pid, self.starttime = os.getpid(), process_start(os.getpid())
        self.path = self.folder / f"{self.pid}-{self.starttime}-{self.number}.seg"
        if self.hidden:
            self.path = self.path.with_suffix(".hidden")
        self.ring = AT["segment"]
        size = self.ring + self.ring_records * AT["record"]
        with self.path.open("wb") as file:
            file.truncate(size)
        self.path.chmod(0o600)
        self._fill(size)

    def _fill(self, size: int) -> None:
        self.put(8, struct.pack("<IIQQIIII16s", AT["version"], self.pid, size, 1, 2, 64, 0, 0,
                                b"worker\x1b"))  # fmt: skip
        for row, name in enumerate(("(other)", *self.names)):
            text = name.encode()
            self.put(AT["names"] + row * AT["name"], struct.pack("<I", len(text)) + text)
        self.put(112, struct.pack("<I", 1))
        self.put(40, struct.pack("<II", len(self.names) + 1, 1))
        device = struct.pack("<II64s128s24sqqQQ", 1, 4, b"pocl-0", b"cpu", b"RAW", -7, 3, 20, 1)
        self.put(AT["devices"], device)
        self.put(self.slot_at() + 132, struct.pack("<IQ", self.ring_records, self.ring))
        self.put(0, struct.pack("<Q", _trace.SEGMENT_MAGIC))

    def reveal(self) -> None:
        self.path = self.path.rename(self.path.with_suffix(".seg"))

    def slot_at(self) -> int:
        return AT["slots"]

    def put(self, at: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def get(self, at: int) -> int:
        with self.path.open("rb") as file:
            file.seek(at)
            found: int = struct.unpack("<Q", file.read(8))[0]
            return found

    def set_head(self, head: int) -> None:
        self.head = head
        self.put(self.slot_at(), struct.pack("<Q", head))

    @property
    def tail(self) -> int:
        """Return how far the reader has told this producer that it has read."""
        return self.get(self.slot_at() + AT["slot_tail"])

    def write(self, index: int, fields: list[int]) -> None:
        cell = index % self.ring_records
        data = RECORD.pack(*fields[:-1], index & 0xFFFFFFFF)
        self.put(self.ring + cell * AT["record"], data)

    def publish(self, *records: list[int]) -> None:
        """Write records, counts, then the head, as the layer does."""
        for i, each in enumerate(records):
            self.write(self.head + i, each)
            kernel = each[10] in (KERNEL, GRAPH)
            self.count(each[9] if kernel else None, each[10], 1 << each[13])
        self.add("timed", len(records))
        self.set_head(self.head + len(records))

    def count(self, name: int | None, kind: int, launches: int, size: int = 0) -> None:
        """Launches counted exactly, whether or not they are timed."""
        if name is not None:
            self._bump(AT["counts"] + 8 * name, launches)
        else:
            self._bump(AT["copies"] + 16 * kind, launches)
            self._bump(AT["copies"] + 16 * kind + 8, size)
        self.add("launches" if name is not None else "copies", launches)

    def add(self, counter: str, more: int) -> None:
        at = self.slot_at() + AT["slot_counters"] + 8 * COUNTERS.index(counter)
        self._bump(at, more)

    def in_flight(self, oldest_ns: int) -> None:
        """A launch that has no record yet."""
        self.add("timed", 1)
        self.count(1, KERNEL, 1)
        self.put(self.slot_at() + AT["slot_oldest"], struct.pack("<Q", oldest_ns))

    def close_window(
        self, from_ns: int, to_ns: int, phase: int, chosen_ns: int = 0, launches: int = 0
    ) -> None:
        """Write the window, then the number of windows, as the tracer does."""
        sequence = self.get(AT["windows"])
        self.put_window(from_ns, to_ns, phase, sequence, chosen_ns, launches)

    def put_window(self, from_ns: int, to_ns: int, phase: int, sequence: int, *more: int) -> None:
        """`more`: of what period it was chosen, and launches counted in it."""
        made = self.get(AT["windows"])
        chosen_ns, launches = (*more, 0, 0)[:2]
        packed = struct.pack(
            "<QQIIQQ", from_ns, to_ns, phase, sequence & 0xFFFFFFFF, chosen_ns, launches
        )
        self.put(AT["window"] + made % AT["windows_kept"] * len(packed), packed)
        self.put(AT["windows"], struct.pack("<Q", made + 1))

    def open_window(self, from_ns: int, mode: int, phase: int, applied: int = 0) -> None:
        """The window that is open, and what the tracer answers."""
        self.put(AT["answer"], struct.pack("<QIIQ", applied, mode, phase, from_ns))
        self.put(AT["window_from"], struct.pack("<Q", from_ns))

    def control(self) -> tuple[int, int]:
        """(wanted, lease_ns) as the agent wrote them."""
        return self.get(AT["control"]), self.get(AT["control"] + 8)

    def _bump(self, at: int, more: int) -> None:
        self.put(at, struct.pack("<Q", self.get(at) + more))
