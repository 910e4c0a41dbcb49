# SPDX-License-Identifier: Apache-2.0
"""The clock of a replay, as a frame shows it and as the source of its answers tells it."""

from __future__ import annotations

from typing import NamedTuple


class Replayed(NamedTuple):
    """The clock of a replay, as the first line of a frame shows it."""

    t_ns: int
    playing: bool
    speed: float
    gap: str = ""
    """The reason why nothing was recorded at this moment; empty where something was."""
    gap_ns: int = 0
    """The time since that gap began."""
    redacted: bool = False
