# SPDX-License-Identifier: Apache-2.0
"""A program in a session of tmux, driven by tmux's own keys, sizes and captures.

The server is of this test alone, at a socket of its own, and ends with it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from product_node import wait_until

PATIENCE_S = 60.0


class TmuxScreen:
    """One program and its window, as a context manager that leaves no process."""

    def __init__(
        self,
        argv: Sequence[str],
        environment: dict[str, str],
        folder: Path,
        columns: int,
        rows: int,
    ) -> None:
        self._socket, self._ended = folder / "tmux", folder / "ended"
        self._environment = {k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES")}
        run = f"{shlex.join(argv)}; echo $? >{shlex.quote(str(self._ended))}; exec sleep 600"
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", run)

    def __enter__(self) -> TmuxScreen:
        return self

    def __exit__(self, *exc: object) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            env={**self._environment, "TERM": "xterm-256color"},
            capture_output=True, text=True, timeout=PATIENCE_S, check=True,
        )  # fmt: skip
        return done.stdout

    @property
    def lines(self) -> list[str]:
        """The lines of the window."""
        return self._tmux("capture-pane", "-p").split("\n")

    def press(self, *keys: str) -> None:
        """Type keys by tmux's names, such as `Enter`, or text."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait(self, seen: Callable[[list[str]], bool], what: str) -> None:
        """Wait until the window shows something."""
        wait_until(lambda: seen(self.lines), what, PATIENCE_S)

    def wait_for(self, words: str) -> None:
        """Wait until the window shows some words."""
        self.wait(lambda lines: words in "\n".join(lines), words)

    def wait_end(self) -> int:
        """Wait until the program has ended; return its exit code."""
        wait_until(lambda: self._ended.exists() and self._ended.read_text(), "its end", PATIENCE_S)
        return int(self._ended.read_text())
