# SPDX-License-Identifier: Apache-2.0
"""The walk of a page: each command of its console blocks, with the output that the page shows.

Tests execute it. Invariant: only what `CHANGES` and a walker's `names` list
may differ from the page; all else is compared, but for where lines break.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

COLUMNS, ROWS = 80, 24
PATIENCE_S = 60.0
"""The longest wait for a state that a reader sees by asking again."""
CHANGES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE"),
    (r"\d+(?:\.\d+)? (?:ns|us|ms|s)\b|\d+[mhd] \d\d[smh]\b", "TIME"),
    (r"\d+(?:\.\d+)? %", "N %"),
    (r"\b(pid|decision) \d+", r"\1 N"),
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
)
"""Patterns of what changes from run to run, and what stands for it."""
ASKED_AGAIN = ("stoker jobs", "stoker explain")
"""The commands whose answer changes by itself; they change nothing."""
OF_SEVERAL_NODES = ("  export STOKER_STATE=", "beside it runs ")
"""Lines of `up` on a host with several nodes, which tests have."""


class Step(NamedTuple):
    """One command of a walk."""

    command: str
    shown: str
    """The output on the page."""


def steps(page: Path, heading: str = "") -> list[Step]:
    """The commands of a page, or of one section of it, in their order."""
    text = page.read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append(Step(command, shown))
    return found


def plain(text: str) -> str:
    """The text without what changes from run to run."""
    for pattern, placeholder in CHANGES:
        text = re.sub(pattern, placeholder, text)
    return text


def pattern(shown: str) -> str:
    """The regular expression of an output as a page shows it: where lines break and a cell is cut
    depends on how long the times are."""
    words: list[str] = []
    for word in plain(shown).split():
        if word.endswith("…"):
            words[-1] = r"[^\n]*…"
        else:
            words.append(re.escape(word))
    return r"\s*" + r"\s+".join(words) + r"\s*"


@dataclass
class Walker:
    """Somebody at a terminal of 80 columns. `names`: words of the page -> what they are here."""

    environment: Mapping[str, str]
    folder: Path
    names: Mapping[str, str] = field(default_factory=dict)
    prefix: Sequence[str] = ()
    """The command by which their commands run as another user."""
    code: int = 0
    """The exit code of the last command, as `$?` has it."""

    def walk(self, taken: Sequence[Step]) -> None:
        """Take the steps of a page; an output that is not the page's fails with both."""
        assert taken
        for step in taken:
            self.take(step)

    def take(self, step: Step) -> None:
        """Run one command, again if it asks for a state that comes by itself."""
        deadline = time.monotonic() + PATIENCE_S
        said = self.run(step.command)
        while not self.is_as_shown(step, said):
            again = step.command.startswith(ASKED_AGAIN) and time.monotonic() < deadline
            assert again, f"$ {step.command}\n{said}\nis not what the page shows:\n{step.shown}"
            said = self.run(step.command)
        wide = [line for line in said.splitlines() if len(line) > COLUMNS]
        assert wide == [], f"$ {step.command}: wider than the terminal"

    def is_as_shown(self, step: Step, said: str) -> bool:
        """Return whether an output is that of the page."""
        shown = step.shown
        for word, here in self.names.items():
            shown = re.sub(rf"(?<![\w/]){re.escape(word)}(?![\w/])", lambda _, as_=here: as_, shown)
        return re.fullmatch(pattern(shown), plain(said)) is not None

    def run(self, command: str) -> str:
        """The output of a shell command on a terminal, both streams as they come."""
        script = f"(exit {self.code}); {command}"
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        with subprocess.Popen(
            [*self.prefix, "sh", "-c", script], cwd=self.folder, env=dict(self.environment),
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True,
        ) as process:  # fmt: skip
            os.close(theirs)
            said = _all_of(ours)
        os.close(ours)
        self.code = process.returncode
        lines = said.decode().replace("\r\n", "\n").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(OF_SEVERAL_NODES))


def _all_of(terminal: int) -> bytes:
    said = b""
    while True:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # nobody has the other end any more
            return said
        if not piece:
            return said
        said += piece
