# SPDX-License-Identifier: Apache-2.0
"""The state folder's record of the log: whether a stream was made, and how far it reached.

Owns the rule that the loss of this file, of the stream or of a part of it is noticed, so that no
acknowledged job is lost in silence.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stoker.native import durable_file
from stoker.native.errors import Corrupt, Refused

NAME = "log"
_DIGITS = 20
_NEW, _MADE = b"new ", b"made"
_BYTES = len(_MADE) + 1 + _DIGITS + 1


class LogRecord(msgspec.Struct, frozen=True):
    """The content of the file.

    `is_new` is true until the stream was made; the acknowledged entry `tail` must be in the log.
    """

    is_new: bool
    tail: int = 0


def begin(folder: Path) -> None:
    """Allow a new state folder to make the log's stream once; an existing file is left as it is."""
    path = folder / NAME
    folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        _write(path, LogRecord(is_new=True), create=True)
        durable_file.sync_folder(folder)


def read(folder: Path) -> LogRecord | None:
    """Return the record, or None if there is no file; Corrupt if no scheduler wrote it."""
    path = folder / NAME
    try:
        text = path.read_bytes()[: _BYTES + 1]
    except FileNotFoundError:
        return None
    word, _, number = text[: _BYTES - 1].partition(b" ")
    digits = number.strip()
    if len(text) != _BYTES or word not in (_NEW.strip(), _MADE) or not digits.isdigit():
        raise Corrupt(
            f"{path} contains {text!r}, which is not a record of a log", hint=_remove(path)
        )
    return LogRecord(word == _NEW.strip(), int(digits))


def made(folder: Path, tail: int) -> None:
    """Record durably that the stream exists and reaches `tail`."""
    _write(folder / NAME, LogRecord(is_new=False, tail=tail), create=True)
    durable_file.sync_folder(folder)


def reached(folder: Path, tail: int) -> None:
    """Record durably that the log reaches `tail`; this takes no room on the disk."""
    _write(folder / NAME, LogRecord(is_new=False, tail=tail), create=False)


def vanished(folder: Path) -> Corrupt:
    """Return the error for a stream that is gone."""
    return Corrupt(
        "the log's stream is gone, and every accepted job with it",
        hint=f"Restore {folder.parent} from a backup, or start in another folder with --state",
    )


def remedy(folder: Path) -> str:
    """Return what to do about a log that ends before `LogRecord.tail`."""
    return f"Restore the folder {folder.parent} from a backup. {_remove(folder / NAME)}"


def _remove(path: Path) -> str:
    return f"To continue with the jobs that the log still has, and lose the others, remove {path}"


def _write(path: Path, known: LogRecord, *, create: bool) -> None:
    """Write in place and at once, so that a crash leaves either the old or the new record."""
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
