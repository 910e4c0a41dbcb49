# SPDX-License-Identifier: Apache-2.0
"""The copy of an only server's log, kept while its broker becomes one of several.

A broker that begins again beside others knows no stream at first. Its files are there, but half a
minute after it met the others it deletes those of a stream that they do not know (nats-server 2.15,
checkForOrphans). Owns that no entry is lost by that: the files are copied before such a broker
starts for the first time, and are put back at each of its starts until a scheduler has found all
entries there and drops the copy. Nothing is appended before that, so the copy is never too old, and
until then the broker may as well be alone again: whoever renames the copy first decides.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stoker.mesh.broker.broker_config import CONTROL, SYSTEM
from stoker.mesh.wire import subjects
from stoker.native import durable_file

NAME = "alone"
"""The copy, beside the folder of the broker's streams; under another name it is not whole."""
TAKEN = "alone-again"
"""The copy of a broker that is to be alone again."""
_STORE = Path("jetstream/jetstream")
_STREAMS = _STORE / CONTROL / "streams"
_LOG = _STREAMS / subjects.LOG_STREAM
_GROUP = _STORE / SYSTEM / "_js_" / "_meta_"
"""A broker has this folder if it was one of several."""


def settle(nats: Path) -> None:
    """Copy the log of a broker that was alone, or put the copy back; before it starts as one of
    several. `nats`: the broker's folder; OSError if the disk does not take it."""
    if is_kept(nats):
        _copy(nats / NAME, nats / _LOG)
    elif (nats / _LOG).is_dir() and not (nats / _GROUP).exists():
        _copy(nats / _LOG, nats / NAME)


def is_kept(nats: Path) -> bool:
    """True while the log has not been found whole at the broker that is one of several."""
    return (nats / NAME).is_dir()


def is_taken(nats: Path) -> bool:
    """True once the broker is to be alone again, until it is."""
    return (nats / TAKEN).is_dir()


def is_open(nats: Path) -> bool:
    """True while it is not decided whether the broker is one of several or alone."""
    return is_kept(nats) or is_taken(nats)


def drop(nats: Path) -> bool:
    """Give the copy up, since the broker's log is whole; False if it was taken back before."""
    gone = nats / f".{NAME}"
    shutil.rmtree(gone, ignore_errors=True)
    if not _renamed(nats, NAME, gone.name):
        return False
    shutil.rmtree(gone)
    return True


def has_files(nats: Path, stream: str) -> bool:
    """True if the broker has the files of a stream."""
    return (nats / _STREAMS / stream).is_dir()


def take_back(nats: Path) -> bool:
    """Have the broker be alone again, with the copy; False if a scheduler has given it up."""
    return is_taken(nats) or _renamed(nats, NAME, TAKEN)


def settle_alone(nats: Path) -> None:
    """Put a copy back that was taken back, before the broker starts alone; it forgets that it was
    one of several. OSError if the disk does not take it."""
    if is_taken(nats):
        _copy(nats / TAKEN, nats / _LOG)
        shutil.rmtree(nats / _GROUP.parent, ignore_errors=True)
        shutil.rmtree(nats / TAKEN)


def _renamed(nats: Path, found: str, to: str) -> bool:
    try:
        (nats / found).rename(nats / to)
    except FileNotFoundError:
        return False
    durable_file.sync_folder(nats)
    return True


def _copy(found: Path, to: Path) -> None:
    """Make a folder like another one, durably and under its name only when it is whole."""
    made = to.parent / f".{to.name}"
    shutil.rmtree(made, ignore_errors=True)
    to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(found, made)
    for folder, _, files in os.walk(made):
        for name in files:
            _sync(Path(folder, name))
        durable_file.sync_folder(Path(folder))
    shutil.rmtree(to, ignore_errors=True)
    made.rename(to)
    durable_file.sync_folder(to.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
