# SPDX-License-Identifier: Apache-2.0
"""The kernel's log, followed from its end, for lines about cards.

Relied on by `watch.py`. Read in the agent's loop when there is something: never more than LINES_MAX
records at once, so that a storm of lines leaves room for everything else. Invariant: what the
kernel wrote over before it was read is counted.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stoker.agent.health.kernel_log import Line, parse

PATH = Path("/dev/kmsg")
RECORD_BYTES_MAX = 8192
LINES_MAX = 256
PAUSE_S = 0.02
"""After so many at once, others have their turn."""


class KernelLog:
    """`begin` to follow; each line that tells of a card goes to `take`."""

    def __init__(self, take: Callable[[Line], None], path: Path = PATH) -> None:
        self.counters: Counter[str] = Counter()
        self.why = "it was not opened yet"
        """Why it is not read, if it is not."""
        self._take = take
        self._path = path
        self._descriptor = -1
        self._resume: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Follow from the end; without permission it is said in `why` and nothing is read."""
        self.why = ""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._path, flags)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                self.why = f"{self._path}: {error.strerror}"
                self.close()
                return
        self._listen()

    def close(self) -> None:
        """Read no more."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _listen(self) -> None:
        self._resume = None
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        for _ in range(LINES_MAX):
            try:
                record = os.read(self._descriptor, RECORD_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # written over before it was read
                    self.counters["kernel_log_lost"] += 1
                    continue
                self.why = f"{self._path}: {error.strerror}"
                self.close()
                return
            if not record:
                self.why = f"{self._path} ended"
                self.close()
                return
            line = parse(record.decode(errors="replace"))
            if line is not None:
                self.counters["kernel_log_lines"] += 1
                self._take(line)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._descriptor)
        self._resume = loop.call_later(PAUSE_S, self._listen)
