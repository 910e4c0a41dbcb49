# SPDX-License-Identifier: Apache-2.0
"""The transfer of a snapshot file to a replica that the log can no longer bring up to date.

Without I/O. Owns the bounds: one file at a time, of at most SNAPSHOT_BYTES_MAX, and a part is
requested only after the one before it came. Owns as well that no file replaces what reaches as far:
this replica may have caught up while the parts came, and others count on what it has acknowledged.
A file that was requested for its digest counts with this digest alone. One of a feature level that
this replica does not support is an error, and installed nowhere.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.mesh.log.feature_level import BUILD, BeyondRange, FeatureRange, check
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.snapshots import OtherFormat, Snapshot
from stoker.mesh.wire.peer_messages import Message, SnapshotPart, SnapshotRequest
from stoker.native.errors import Corrupt

SNAPSHOT_BYTES_MAX = 1 << 30
AGAIN_NS = 1_000_000_000
"""A part that did not come is requested again after this time."""


class SnapshotExchange:
    """Both sides of one replica; `send` sends a message to another scheduler.

    `covers` is true for a snapshot all of whose entries this replica has. `install` has the replica
    begin again with a file, whose state is of this term and index.
    """

    def __init__(
        self,
        send: Callable[[int, Message], None],
        outbox: Outbox,
        covers: Callable[[Snapshot], bool],
        install: Callable[[bytes, str, tuple[int, int]], None],
        supports: FeatureRange = BUILD,
    ) -> None:
        self._send = send
        self._covers = covers
        self._install = install
        self._supports = supports
        self._outbox = outbox
        self._source = 0
        self._index = 0
        self._data = bytearray()
        self._requested_ns = 0
        self._agreed = b""
        """The digest without which no file counts; empty if the word of its sender is enough."""

    # --- the replica that is behind ---------------------------------------------------------------

    def want(self, source: int, now_ns: int, agreed: bytes = b"") -> None:
        """Get the newest snapshot of another replica; nothing if parts of one are coming.

        With `agreed`, the file counts only if its state has this digest.
        """
        if self._source and now_ns - self._requested_ns < AGAIN_NS:
            return
        if self._source != source:
            self._source, self._index = source, 0
            self._data.clear()
        self._agreed = agreed
        self._request(now_ns)

    def part(self, sender: int, part: SnapshotPart, now_ns: int) -> bool:
        """Take a part; the whole file becomes this replica's state.

        Returns False if the sender has no good file.
        """
        if sender != self._source:
            return True
        if not 0 < part.size <= SNAPSHOT_BYTES_MAX:
            self._source = 0
            return False
        if self._index in (0, part.index) and part.offset != len(self._data):
            return True  # it came twice; an answer would begin a second row of requests
        if self._index not in (0, part.index):
            self._index, part_fits = 0, False
            self._data.clear()
        else:
            part_fits = True
        if part_fits:
            self._index = part.index
            self._data += part.data
        if len(self._data) < part.size:
            self._request(now_ns)
            return True
        self._source = 0
        return self._completed(bytes(self._data))

    def _request(self, now_ns: int) -> None:
        self._requested_ns = now_ns
        self._send(self._source, SnapshotRequest(self._index, len(self._data)))

    def _completed(self, data: bytes) -> bool:
        self._data.clear()
        try:
            snapshot, _ = snapshots.decode(data)
        except OtherFormat as error:
            raise BeyondRange(error.message) from None
        except Corrupt:
            self._outbox.count("snapshot_refused")
            return False
        if self._agreed:
            data, digest = snapshots.encode(msgspec.structs.replace(snapshot, seq=0))
            if digest != self._agreed:
                self._outbox.count("snapshot_unvouched")
                return False
        check(snapshot.config.level, self._supports, "the snapshot that came has feature level")
        if self._covers(snapshot):
            self._outbox.count("snapshot_overtaken")
            return True
        self._outbox.count("snapshot_installed")
        reached = snapshot.term, snapshot.index
        self._install(data, "the log no longer has what this replica lacks", reached)
        return True

    # --- the replica that has it ------------------------------------------------------------------

    def requested(self, sender: int, request: SnapshotRequest, now: Instant) -> None:
        """Have a part of the newest file read."""
        self._outbox.put(events.ReadSnapshotPart(sender, request.index, request.offset))

    def read(self, part: events.SnapshotPartRead) -> None:
        """Send a part that was read."""
        self._send(part.to, SnapshotPart(part.snapshot, part.offset, part.size, part.data))
