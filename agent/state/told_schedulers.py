# SPDX-License-Identifier: Apache-2.0
"""The file with the schedulers of which this node was told, beside those of its cluster.json.

The agent writes it and reads it at its start. Guarantees that a cluster.json which was changed
since counts more than the file.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.native import durable_file
from stoker.native.errors import Corrupt

Keys = tuple[str, ...]


class ToldSchedulers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Public keys by place in the roster, and the ones of cluster.json that they replace."""

    schedulers: Keys
    instead_of: Keys


def load(path: Path, configured: Keys) -> Keys:
    """Return the keys that count at the start of an agent; Corrupt for a damaged file."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ToldSchedulers)
    except FileNotFoundError:
        return configured
    except msgspec.MsgspecError as error:
        hint = "Remove it: the schedulers of cluster.json count then"
        raise Corrupt(f"{path}: {error}", hint=hint) from None
    return found.schedulers if found.instead_of == configured else configured


def store(path: Path, told: Keys, configured: Keys) -> None:
    """Have these keys count from the next start on."""
    durable_file.replace(path, msgspec.json.encode(ToldSchedulers(told, configured)))
