# SPDX-License-Identifier: Apache-2.0
"""The parts of a replica that its peers set in motion; the replica itself is all of them.

Without I/O. Owns the line between both: peers decide with whom to agree, and the replica alone
reads, repairs and applies.
"""

from __future__ import annotations

from typing import Protocol

from stoker.mesh.log.log_time import Instant


class ReplicaActions(Protocol):
    """The parts of a replica that peers set in motion."""

    def read_log(self, *, again: bool) -> None:
        """Read the log forward; `again` begins at the oldest entry that is held."""

    def repair(self, now: Instant) -> None:
        """Take the next step from the end of the log towards leadership."""

    def apply_ready(self, now: Instant) -> None:
        """Apply what is confirmed."""

    def step_down(self, why: str, now: Instant) -> None:
        """Lead or stand no more, and follow."""

    def adopt(self, entries: tuple[bytes, ...], *, replaces: bool = True) -> None:
        """Hold entries that another replica holds."""
