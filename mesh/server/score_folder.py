# SPDX-License-Identifier: Apache-2.0
"""The folder of scoring functions that the administrator offers: `placements/NAME.py`.

Guarantees that code is read only where nobody but root and the scheduler's own user can have put
it: the folder and the file are theirs, and no one else may write them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler.policies import function_name

FOLDER: Final = "placements"
SOURCE_BYTES_MAX: Final = 256 << 10
NAMES_MAX: Final = 64
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class FunctionSource(NamedTuple):
    """The source of a function, and what tells one version of the file from another."""

    text: str
    version: tuple[int, int, int]


class ScoreFolder:
    """The scoring functions of one state folder."""

    def __init__(self, state: Path) -> None:
        self.path = state / FOLDER

    def names(self) -> list[str]:
        """Return the names of all functions, sorted; those that may be used and others."""
        try:
            found = sorted(each.stem for each in self.path.iterdir() if each.suffix == ".py")
        except OSError:
            return []
        return found[:NAMES_MAX]

    def check(self, name: str) -> None:
        """Raise NotFound for a function that is not there, Refused for one that may not be used."""
        self.read(name)

    def version(self, name: str) -> tuple[int, int, int]:
        """Return the version of the file, without reading it; NotFound if it is not there."""
        try:
            return _version(self._file(name).stat())
        except OSError:
            raise self._missing(name) from None

    def read(self, name: str) -> FunctionSource:
        """Return the source of a function; NotFound or Refused as `check` says."""
        _check_owner(self.path, self._status(self.path, name))
        try:
            fd = os.open(self._file(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            raise self._missing(name) from None
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{self._file(name)} is no plain file")
            _check_owner(self._file(name), status)
            raw = os.read(fd, SOURCE_BYTES_MAX + 1)
        finally:
            os.close(fd)
        if len(raw) > SOURCE_BYTES_MAX:
            raise Refused(f"{self._file(name)} has more than {SOURCE_BYTES_MAX} bytes")
        try:
            return FunctionSource(raw.decode(), _version(status))
        except UnicodeDecodeError as error:
            raise BadRequest(f"{self._file(name)} is no text: {error}") from None

    def _file(self, name: str) -> Path:
        return self.path / f"{function_name(name)}.py"

    def _status(self, path: Path, name: str) -> os.stat_result:
        try:
            return path.stat()
        except OSError:
            raise self._missing(name) from None

    def _missing(self, name: str) -> NotFound:
        known = ", ".join(self.names()) or f"none in {self.path}"
        return NotFound(f"no scoring function is called {name!r}", hint=f"There are: {known}")


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS_WRITE:
        raise Refused(
            f"{path} may be changed by others than root and the scheduler's user",
            hint=f"chown root {path} && chmod go-w {path}",
        )


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_size
