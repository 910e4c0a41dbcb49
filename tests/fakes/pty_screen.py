# SPDX-License-Identifier: Apache-2.0
"""A program on a real pseudo-terminal, whose screen pyte parses: what a person would see.

Every wait is for something on the screen, never for a time.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence

import pyte
import pytest

PATIENCE_S = 60.0
READ_BYTES = 65_536


class PtyScreen:
    """One program and its screen, as a context manager that leaves no process."""

    def __init__(
        self, argv: Sequence[str], environment: dict[str, str], columns: int = 80, rows: int = 24
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self._master, slave = pty.openpty()
        self._set_size(columns, rows)
        clean = {k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            argv, env={**clean, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> PtyScreen:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, as a window manager does."""
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self._master, keys.encode())

    def read(self, seconds: float = 0.05) -> bool:
        """Take what the program has written; return False at its end."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, READ_BYTES)
        except OSError:  # the program has closed its side
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """The whole screen."""
        return "\n".join(self.lines)

    def wait(self, seen: Callable[[PtyScreen], bool], what: str) -> None:
        """Read until the screen shows something; fail by name if it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while not seen(self):
            if not self.read() or time.monotonic() > deadline:
                pytest.fail(f"the screen does not show {what}:\n{self.text}")

    def wait_for(self, words: str) -> None:
        """Read until the screen shows some words."""
        self.wait(lambda screen: words in screen.text, words)

    def wait_end(self) -> int:
        """Read until the program has ended; return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.read() and time.monotonic() < deadline:
            pass
        return self.process.wait(PATIENCE_S)
