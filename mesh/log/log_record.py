# SPDX-License-Identifier: Apache-2.0
"""What the state folder knows of the log: whether it was ever begun, and how far it surely reached.

Owns the rule that losing any one thing (this file, the stream, a part of it) is noticed: jobs that
were promised are never forgotten in silence.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stoker.native.errors import Corrupt, Refused

NAME = "log"
_DIGITS = 20
_NEW, _MADE = b"new ", b"made"
_BYTES = len(_MADE) + 1 + _DIGITS + 1


@dataclass(frozen=True)
class LogRecord:
    """`is_new`: no stream was ever made. `tail`: this entry was acknowledged: it must be there."""

    is_new: bool
    tail: int = 0


def begin(folder: Path) -> None:
    """For a state that is being made: the log's stream may be made, once. A file that is there
    already is left as it is."""
    path = folder / NAME
    folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        _write(path, LogRecord(is_new=True), create=True)
        _sync_folder(folder)


def read(folder: Path) -> LogRecord | None:
    """None where the file is missing; Corrupt where it is not what was written."""
    path = folder / NAME
    try:
        text = path.read_bytes()[: _BYTES + 1]
    except FileNotFoundError:
        return None
    word, _, number = text[: _BYTES - 1].partition(b" ")
    digits = number.strip()
    if len(text) != _BYTES or word not in (_NEW.strip(), _MADE) or not digits.isdigit():
        raise Corrupt(f"{path} holds {text!r}, which no scheduler wrote", hint=_remove(path))
    return LogRecord(word == _NEW.strip(), int(digits))


def made(folder: Path, tail: int) -> None:
    """The stream is there and reaches `tail` for sure; on disk when this returns."""
    _write(folder / NAME, LogRecord(is_new=False, tail=tail), create=True)
    _sync_folder(folder)


def reached(folder: Path, tail: int) -> None:
    """The log grew; needs no room on the disk."""
    _write(folder / NAME, LogRecord(is_new=False, tail=tail), create=False)


def vanished(folder: Path) -> Corrupt:
    """The refusal of a stream that is gone."""
    return Corrupt(
        "the log's stream is gone, and with it every job that was promised",
        hint=f"Restore {folder.parent} from a backup, or begin anew in another folder with --state",
    )


def remedy(folder: Path) -> str:
    """What to do about a log that ends before `LogRecord.tail`."""
    return f"Restore the folder {folder.parent} from a backup. {_remove(folder / NAME)}"


def _remove(path: Path) -> str:
    return f"To go on with what the log still holds, and forget the rest, remove {path}"


def _write(path: Path, known: LogRecord, *, create: bool) -> None:
    """In place and in one write: no crash of the process leaves anything between old and new."""
    word = _NEW if known.is_new else _MADE
    line = word.ljust(len(_MADE)) + b" %0*d\n" % (_DIGITS, known.tail)
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
        try:
            os.pwrite(descriptor, line, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
