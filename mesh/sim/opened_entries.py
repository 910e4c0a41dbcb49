# SPDX-License-Identifier: Apache-2.0
"""The entries of one simulated log, each opened once for all replicas that read it.

Owns the promise that nothing but time is saved: equal bytes open to equal entries, which nobody can
change, and bytes that do not open are looked at again each time.
"""

from __future__ import annotations

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Opened


class OpenedEntries:
    """The entries by their bytes."""

    def __init__(self) -> None:
        self._opened: dict[bytes, Opened] = {}

    def unseal(self, seq: int, data: bytes) -> Opened:
        """Return the entry at `seq`; Corrupt if its bytes were changed."""
        opened = self._opened.get(data)
        if opened is None:
            opened = self._opened[data] = entries.unseal(seq, data)
        return opened
