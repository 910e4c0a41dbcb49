# SPDX-License-Identifier: Apache-2.0
"""What keeps jobs away from cards, on disk, so that a new agent knows it.

Written when it changes, read once. After another boot nothing of it holds: every card was reset by
that.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.agent.health.case import SavedCase
from stoker.mesh.identity import sealed_json

NAME = "health.json"
FORMAT = 1


class Kept(msgspec.Struct, frozen=True):
    """What one agent leaves to the next."""

    cases: tuple[SavedCase, ...] = ()
    energy_j: dict[str, float] = {}
    """Of held cards: a counter that is lower later tells of a reset that nobody saw."""


class _Image(msgspec.Struct, frozen=True):
    format: int
    boot_id: str
    kept: Kept


def load(folder: Path, boot_id: str) -> Kept:
    """What holds in this boot; nothing if there is no file, or one that cannot be read."""
    try:
        image = read(folder)
    except (OSError, msgspec.MsgspecError):
        return Kept()
    return image.kept if (image.format, image.boot_id) == (FORMAT, boot_id) else Kept()


def read(folder: Path) -> _Image:
    """Whatever boot it is of; OSError without a file, msgspec.MsgspecError for a damaged one."""
    return sealed_json.decode((folder / NAME).read_bytes(), _Image)


def store(folder: Path, boot_id: str, kept: Kept) -> None:
    """Whole, or as it was before; OSError where the disk takes no more."""
    partial = folder / f".{NAME}.new"
    partial.write_bytes(sealed_json.encode(_Image(FORMAT, boot_id, kept)))
    partial.replace(folder / NAME)
