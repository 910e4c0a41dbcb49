# SPDX-License-Identifier: Apache-2.0
"""The complaints in a broker's log: the connection that most are about, if there are many.

nats-server writes a line for each subject that a client may not use, and counts only those that it
published on. Owns that a look reads little of the file, however much was written.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

GROWTH_BYTES = 256 * 1024
"""The growth of the file between two looks from which on it is read; a quiet broker writes some
lines in an hour, and one that refuses hundreds of connections in a second a tenth of this."""
READ_BYTES = 64 * 1024
_LINE = re.compile(rb" - cid:(\d+) - .*Violation - ")
"""A refusal of a subject as nats-server 2.15 writes it; the broker's number of the connection."""


class BrokerComplaints:
    """The log file of one broker, from its present end on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = self._size()
        self.grown = 0
        """The bytes that were written between the last two looks."""

    def noisiest(self) -> int | None:
        """Return the number of the connection that makes the log grow; None while none does."""
        size = self._size()
        self.grown, self._at = max(size - self._at, 0), size
        if self.grown < GROWTH_BYTES:
            return None
        with self._path.open("rb") as file:
            file.seek(-READ_BYTES, os.SEEK_END)
            numbers = Counter(_LINE.findall(file.read(READ_BYTES)))
        if not numbers:
            return None
        number, lines = numbers.most_common(1)[0]
        return int(number) if 4 * lines > 3 * numbers.total() else None

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0
