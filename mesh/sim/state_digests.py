# SPDX-License-Identifier: Apache-2.0
"""The snapshots of one simulated cluster, each encoded once for all replicas that have its state.

Owns the promise that nothing but time is saved: a snapshot is encoded anew unless one that is equal
in every byte was encoded before.
"""

from __future__ import annotations

from collections import deque

from msgspec.structs import replace

from stoker.mesh.replica import snapshots
from stoker.mesh.replica.snapshots import Encoded, Snapshot

KEPT = 8
"""Replicas take their snapshots of one state soon after each other."""


class StateDigests:
    """The newest snapshots with their bytes and digests."""

    def __init__(self) -> None:
        self._encoded: deque[tuple[Snapshot, Encoded]] = deque(maxlen=KEPT)

    def encoded(self, snapshot: Snapshot) -> Encoded:
        """Return what `snapshots.encode` returns."""
        for known, encoded in self._encoded:
            if known == snapshot:
                return encoded
        encoded = snapshots.encode(snapshot)
        self._encoded.append((snapshot, encoded))
        return encoded

    def agreement(self, snapshot: Snapshot) -> bytes:
        """Return what `snapshots.agreement` returns."""
        return self.encoded(replace(snapshot, seq=0)).digest
