# SPDX-License-Identifier: Apache-2.0
"""The attempts that an agent gave back as it ended, in a file for the next agent.

The file is written before any outcome of them is sent. The next agent starts none of them, since an
outcome on its way may let their jobs run elsewhere. It is not synced: after a power loss the node
has another boot, in which the log has lost all attempts of the one before.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from stoker.native.errors import Corrupt
from stoker.scheduler.nouns import TaskKey

FILE = "returned"
_decoder = msgspec.msgpack.Decoder(list[tuple[int, int, int, int]])


def store(path: Path, keys: Collection[TaskKey]) -> None:
    """Replace the file; OSError if the disk is full, and then it is as before. Without attempts
    there is no file, for which a full disk has room."""
    if not keys:
        path.unlink(missing_ok=True)
        return
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(msgspec.msgpack.encode([tuple(key) for key in keys]))
    fresh.rename(path)


def load(path: Path) -> tuple[TaskKey, ...]:
    """Return the attempts of the file; none if there is no file. Corrupt if it cannot be read."""
    try:
        return tuple(TaskKey(*each) for each in _decoder.decode(path.read_bytes()))
    except FileNotFoundError:
        return ()
    except msgspec.MsgspecError as error:
        raise Corrupt(f"{path} cannot be read: {error}") from error
