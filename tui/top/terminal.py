# SPDX-License-Identifier: Apache-2.0
"""The way to the terminal: a thread writes, and nobody ever waits for it.

Textual's own writer blocks the application when a terminal takes nothing for a while. Here the
application asks `is_clear` before it paints, and skips a frame that the terminal could not take
yet; the next one it does take is the newest. Owns the bound of what is queued.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Any

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver

QUEUED_BYTES_MAX = 4 << 20
"""The most characters that wait for the terminal; what goes beyond is dropped and counted."""
END_S = 1.0
"""The longest time of the last frames at the end; a terminal that takes nothing is left then."""


class FrameWriter(threading.Thread):
    """The thread that writes; it has the methods that Textual's drivers call."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(daemon=True, name="stoker-top-output")
        self._file = file
        self._queue: deque[str] = deque()
        self._wakeup = threading.Condition()
        self._queued = 0
        self._sealed = self._ended = False
        self.on_clear: Callable[[], None] = lambda: None
        """Called in the thread when the terminal has taken everything."""
        self.taken = 0
        """The characters that were queued for it so far."""
        self.written = 0
        """The characters that the terminal has taken."""
        self.dropped = 0
        """The writes that were dropped, for want of room."""

    def is_clear(self) -> bool:
        """Return True if the terminal has taken everything."""
        with self._wakeup:
            return self._queued == 0

    def write(self, text: str) -> None:
        """Queue text; it never blocks."""
        with self._wakeup:
            if self._sealed:
                return
            if self._queued + len(text) > QUEUED_BYTES_MAX:
                self.dropped += 1
                return
            self._queue.append(text)
            self._queued += len(text)
            self.taken += len(text)
            self._wakeup.notify_all()

    def isatty(self) -> bool:
        """Return True, as a terminal does."""
        return True

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._file.fileno()

    def flush(self) -> None:
        """Do nothing: the thread flushes."""

    def run(self) -> None:
        """Write until `stop`."""
        while True:
            with self._wakeup:
                while not self._queue and not self._ended:
                    self._wakeup.wait()
                if not self._queue:
                    return
                text = "".join(self._queue)
                self._queue.clear()
            try:
                self._file.write(text)
                self._file.flush()
            except (OSError, ValueError):  # the terminal is gone
                text = ""
            with self._wakeup:
                self.written += len(text)
                self._queued = sum(map(len, self._queue))
            if not self._queued:
                self.on_clear()

    def seal(self) -> None:
        """Take nothing more: a frame that was painted late would stay on the screen of whoever
        started the application."""
        with self._wakeup:
            self._sealed = True

    def stop(self) -> None:
        """Write what is queued, for at most END_S, and end."""
        with self._wakeup:
            self._ended = True
            self._wakeup.notify_all()
        self.join(END_S)


class TopDriver(LinuxDriver):
    """Textual's driver with a writer that never blocks."""

    def start_application_mode(self) -> None:
        """Start as Textual does, with our writer in place of its own."""
        names = vars(linux_driver)  # where Textual's code looks its writer up
        original = names["WriterThread"]
        names["WriterThread"] = FrameWriter
        try:
            super().start_application_mode()  # type: ignore[no-untyped-call]
        finally:
            names["WriterThread"] = original

    def stop_application_mode(self) -> None:
        """Give the terminal back as it was, and write nothing after that."""
        super().stop_application_mode()
        if self.writer is not None:
            self.writer.seal()

    @property
    def writer(self) -> FrameWriter | None:
        """The writer, while the terminal is ours."""
        found: Any = self._writer_thread
        return found if isinstance(found, FrameWriter) else None
