# SPDX-License-Identifier: Apache-2.0
"""The records of one window in a file, so that its timeline has more than a fold keeps.

The file holds the newest CAPTURE_MAX records of a window; older ones are counted as lost.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from stoker.probes.kernels.job_trace import JobTrace
from stoker.probes.kernels.record_batches import EVENT_BYTES

CAPTURE_MAX = 1 << 18
"""The largest number of records of one window's timeline, 16 MiB
(`native/trace/timeline/timeline.h`)."""
COPY_MAX = 1 << 16
"""The largest number of records copied at once; a fold keeps no more."""


class WindowCapture:
    """The records of one window. A full disk loses records, which are counted."""

    def __init__(self, path: Path, trace: JobTrace) -> None:
        self._path, self._trace = path, trace
        self._file: BinaryIO = path.open("w+b")
        self._next = trace.events(0, 0)[1]
        self._written = 0
        self.lost = 0

    def drained(self) -> None:
        """Copy what was folded since the last call."""
        while True:
            first, _, data = self._trace.events(self._next, COPY_MAX)
            self.lost += first - self._next  # overwritten before they were copied
            count = len(data) // EVENT_BYTES
            self._next = first + count
            if not count:
                return
            self._write(data, count)

    def _write(self, data: bytes, count: int) -> None:
        at = self._written % CAPTURE_MAX
        head = min(count, CAPTURE_MAX - at) * EVENT_BYTES
        try:
            self._file.seek(at * EVENT_BYTES)
            self._file.write(data[:head])
            self._file.seek(0)
            self._file.write(data[head:])
            self._file.flush()
        except OSError:
            self.lost += count
            return
        self.lost += max(0, min(self._written + count - CAPTURE_MAX, count))
        self._written += count

    @property
    def file(self) -> BinaryIO:
        """The records, in no order; a timeline sorts them."""
        return self._file

    def close(self) -> None:
        """Close and delete the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)
