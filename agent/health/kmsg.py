# SPDX-License-Identifier: Apache-2.0
"""The reader of the kernel's log, which passes on the lines about cards.

It runs in the agent's loop and reads at most LINES_MAX records at once, so that a storm of lines
does not hold up the loop. The first agent of a boot begins at the end of the log, a later one where
the agent before it stopped. Invariants: agents that end in order never pass a line on twice, and
each loss is counted in which the kernel overwrote records before they were read.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stoker.agent.health.kernel_log import KernelLogLine, parse
from stoker.agent.health.log_place import LogPlace

PATH = Path("/dev/kmsg")
RECORD_BYTES_MAX = 8192
LINES_MAX = 256
PAUSE_S = 0.02
"""The pause after LINES_MAX records, in which the loop does its other work."""
AGAIN_S = 60.0
"""The time after which a log that could not be opened, or that ended, is opened again."""
STORE_S = 1.0
"""The time after a line about a card at which the place in the log is stored."""
PAST_MAX = 65_536
"""The most records that the first agent of a boot skips to reach the end of the log."""


class KernelLog:
    """The reader: `begin` starts it, and `take` gets each line about a card."""

    def __init__(
        self,
        take: Callable[[KernelLogLine], None],
        path: Path = PATH,
        place: LogPlace | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.why = "it was not opened yet"
        """The reason why the log is not read; empty if it is."""
        self._take = take
        self._path = path
        self._place = place
        self._last: int | None = place.sequence if place is not None else None
        """The sequence number of the last record that was read."""
        self._descriptor = -1
        self._resume: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._storing: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Open the log and read it from now on; a failure is put in `why` and tried again."""
        self.why = ""
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._path, flags)
            os.lseek(self._descriptor, 0, os.SEEK_SET)  # `_number` skips the records read before
            if self._last is None:
                self._pass_over()
        except OSError as error:
            if error.errno != errno.ESPIPE:
                self._fail(f"{self._path}: {error.strerror}")
                return
        self._listen()

    def _pass_over(self) -> None:
        """Skip all records that are in the log by now, and note the number of the last one.

        Seeking to the end would be quicker, but would not tell that number.
        """
        self._last = -1
        for _ in range(PAST_MAX):
            try:
                record = os.read(self._descriptor, RECORD_BYTES_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                continue
            if not record:
                break
            self._number(record)
        self._keep()

    def _number(self, record: bytes) -> bool:
        """Note a record's sequence number, and return True if it was not read before."""
        words = record[:64].split(b",", 2)
        if len(words) < 3 or not words[1].isdigit():
            return True
        sequence, last = int(words[1]), self._last
        if last is not None and sequence <= last:
            return False
        self._last = sequence
        return True

    def _keep(self) -> None:
        self._storing = None
        if self._place is not None:
            self._place.sequence = self._last
            if not self._place.store():
                self.counters["kernel_log_not_stored"] += 1

    def _fail(self, why: str) -> None:
        self.close()
        self.why = why
        self._again = asyncio.get_running_loop().call_later(AGAIN_S, self.begin)

    def close(self) -> None:
        """Stop reading."""
        for timer in (self._resume, self._again, self._storing):
            if timer is not None:
                timer.cancel()
        self._resume = self._again = None
        self._keep()
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
                if error.errno == errno.EPIPE:  # the kernel overwrote records before this read
                    self.counters["kernel_log_lost"] += 1
                    continue
                self._fail(f"{self._path}: {error.strerror}")
                return
            if not record:
                self._fail(f"{self._path} ended")
                return
            if not self._number(record):
                continue
            line = parse(record.decode(errors="replace"))
            if line is not None:
                self.counters["kernel_log_lines"] += 1
                self._take(line)
                if self._storing is None:
                    loop = asyncio.get_running_loop()
                    self._storing = loop.call_later(STORE_S, self._keep)
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._descriptor)
        self._resume = loop.call_later(PAUSE_S, self._listen)
