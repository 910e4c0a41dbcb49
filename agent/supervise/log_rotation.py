# SPDX-License-Identifier: Apache-2.0
"""Rotation of `<state>/log` within its limit: `x.log` and one older `x.log.1` per process.

Processes write to their log files directly and not through a pipe, so that they outlive the
supervisor; so a file is emptied in place and never renamed. Bytes written between the copy and the
truncation are lost: that window is one fstat.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def open_log(path: Path) -> int:
    """Return a private descriptor to append to; the caller closes it."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)


def rotate(path: Path, bytes_max: int) -> bool:
    """Move a log that is larger than half of `bytes_max` to `<path>.1`; True if it was moved. On a
    full disk the older half is lost, and the writing process goes on."""
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
    """Copy until nothing arrived during the last piece."""
    with target.open("wb") as copy:
        os.fchmod(copy.fileno(), 0o600)
        with os.fdopen(os.dup(source), "rb") as file:
            while True:
                shutil.copyfileobj(file, copy, 1 << 20)
                copy.flush()
                if os.fstat(source).st_size <= copy.tell():
                    return


def tail(path: Path, lines: int = 8, bytes_max: int = 8192) -> list[str]:
    """Return the last lines of a log, for error messages; empty if there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return []
