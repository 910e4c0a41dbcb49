# SPDX-License-Identifier: Apache-2.0
"""The disk of one simulated scheduler: snapshot files, held entries, and its word.

Owns what survives a crash: exactly what was stored, and nothing that was only decided.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.replica.snapshots import Snapshot
from stoker.native.errors import Corrupt

FILES_MAX = 2
"""A scheduler keeps the newest files, in case the last one is damaged."""


class SnapshotFile(NamedTuple):
    """One snapshot file, and the place in the chain that it reaches; None if it is damaged.

    `last_index` is its name, so that files have the order of the shipped folder, however late each
    was written.
    """

    last_index: int
    data: bytes
    place: ChainPlace | None


class SchedulerDisk:
    """The durable part of one scheduler."""

    def __init__(self) -> None:
        self.version = 0
        """A number that grows with every change."""
        self.promised = 0
        """The newest term that the scheduler promised to follow."""
        self.floor = (0, 0)
        """The term and index of the best chain that the scheduler has forgotten."""
        self._held: list[tuple[int, bytes]] = []
        self.files: list[SnapshotFile] = []
        """The snapshot files in the order of their indexes, the newest last."""
        self.full = False
        """True while no snapshot can be written; entries have their own room."""

    @property
    def held(self) -> list[tuple[int, bytes]]:
        """The stored entries as (index, data), in order and without a gap."""
        return self._held

    @held.setter
    def held(self, entries: list[tuple[int, bytes]]) -> None:
        self.version += 1
        self._held = entries

    def store(self, effect: events.Store) -> None:
        """Replace the entries behind `after`, the promised term, and the floor."""
        self.version += 1
        while self._held and self._held[-1][0] > effect.after:
            self._held.pop()
        self._held += effect.entries
        self.promised = effect.promised
        self.floor = effect.floor

    def save(self, snapshot: Snapshot, data: bytes) -> None:
        """Write a snapshot file, and keep those of the latest states."""
        self.version += 1
        others = [file for file in self.files if file.last_index != snapshot.index]
        files = [*others, _file(snapshot, data)]
        self.files = sorted(files, key=lambda file: file.last_index)[-FILES_MAX:]

    def install(self, data: bytes) -> None:
        """Keep this snapshot file alone, or nothing; the promised term and the floor stay."""
        self.version += 1
        self._held = []
        self.files = [_file(snapshots.decode(data)[0], data)] if data else []

    def lose(self) -> None:
        """Lose everything; a new file of held entries says that something was lost."""
        self.version += 1
        self.promised, self.floor, self._held, self.files = 0, FORGOTTEN, [], []

    def damage(self, at: int) -> None:
        """Lose the newest file from this byte on; the file before it must be there."""
        self.version += 1
        newest = self.files[-1]
        self.files[-1] = newest._replace(data=newest.data[: at % len(newest.data)], place=None)

    def newest(self) -> tuple[Snapshot | None, bytes]:
        """Return the newest good snapshot and its digest."""
        for file in reversed(self.files):
            try:
                return snapshots.decode(file.data)
            except Corrupt:
                continue
        return None, b""

    @property
    def snapshot_place(self) -> ChainPlace | None:
        """The place that the newest good file reaches."""
        for file in reversed(self.files):
            if file.place is not None:
                return file.place
        return None

    def entry(self, index: int) -> bytes | None:
        """Return the stored entry of an index; None if it is not stored by itself."""
        held = self._held
        at = index - held[0][0] if held else -1
        return held[at][1] if 0 <= at < len(held) else None


def _file(snapshot: Snapshot, data: bytes) -> SnapshotFile:
    place = ChainPlace(snapshot.term, snapshot.index, snapshot.hash)
    return SnapshotFile(snapshot.index, data, place)
