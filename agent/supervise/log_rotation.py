# SPDX-License-Identifier: Apache-2.0
"""Keeps `<state>/log` within its limit: `x.log` and one older `x.log.1` per process.

Processes write to their log file directly and not through a pipe, so that they outlive the
supervisor; a file is therefore emptied in place and never renamed. Bytes written between the copy
and the cut are lost: the window is one fstat, and checked.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def open_log(path: Path) -> int:
    """A descriptor to append to, private; the caller closes it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def rotate(path: Path, bytes_max: int) -> bool:
    """Moves a log past half of `bytes_max` to `<path>.1`; True when it did. A full disk costs the
    older half, never the process that writes."""
    try:
        with path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size <= bytes_max // 2:
                return False
            older = path.with_name(path.name + ".1")
            try:
                _copy(file.fileno(), older)
            except OSError:
                older.unlink(missing_ok=True)
            os.ftruncate(file.fileno(), 0)
    except FileNotFoundError:
        return False
    return True


def _copy(source: int, target: Path) -> None:
    """Copies until nothing new arrived during the last piece."""
    with target.open("wb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        with os.fdopen(os.dup(source), "rb") as file:
            while True:
                shutil.copyfileobj(file, copy, 1 << 20)
                copy.flush()
                if os.fstat(source).st_size <= copy.tell():
                    return


def tail(path: Path, lines: int = 8, bytes_max: int = 8192) -> list[str]:
    """The last lines of a log, for error messages; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
