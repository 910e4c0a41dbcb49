# SPDX-License-Identifier: Apache-2.0
"""The record of the cases that keep jobs away from cards, on disk for the next agent.

The agent writes the record when a case changes and reads it once, when it starts. Invariant: a
record of another boot is ignored, because a boot resets every card.
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
    """Read the file, of any boot; OSError without one, msgspec.MsgspecError if it is damaged."""
    return sealed_json.decode((folder / NAME).read_bytes(), _Image)


def store(folder: Path, boot_id: str, kept: Kept) -> None:
    """Replace the record in one step; OSError if the disk is full."""
    partial = folder / f".{NAME}.new"
    partial.write_bytes(sealed_json.encode(_Image(FORMAT, boot_id, kept)))
    partial.replace(folder / NAME)
