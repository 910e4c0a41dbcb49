# SPDX-License-Identifier: Apache-2.0
"""The cases that keep jobs away from cards, on disk for the next agent.

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
    """The record that one agent leaves to the next."""

    cases: tuple[SavedCase, ...] = ()
    energy_j: dict[str, float] = {}
    """The energy counters of cordoned cards: a lower value later proves a reset."""


class _Image(msgspec.Struct, frozen=True):
    format: int
    boot_id: str
    kept: Kept


def load(folder: Path, boot_id: str) -> Kept:
    """Load the record of this boot; it is empty if there is no readable file."""
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
