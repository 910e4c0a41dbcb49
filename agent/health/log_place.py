# SPDX-License-Identifier: Apache-2.0
"""The place up to which the kernel's log was read, on disk for the next agent.

A place is a sequence number, which counts the records of one boot. Invariant: the stored place is
never beyond the last record that was read, so an agent may read a record twice but skips none.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

NAME = "kernel-log.json"


class _Image(msgspec.Struct, frozen=True):
    boot_id: str
    sequence: int


class LogPlace:
    """The place. `sequence` is the number of the last record read in this boot, None if unknown."""

    def __init__(self, folder: Path, boot_id: str) -> None:
        self._path, self._boot_id = folder / NAME, boot_id
        self.sequence = self._load()
        self._stored = self.sequence

    def _load(self) -> int | None:
        try:
            image = msgspec.json.decode(self._path.read_bytes(), type=_Image)
        except (OSError, msgspec.MsgspecError):
            return None
        return image.sequence if image.boot_id == self._boot_id else None

    def store(self) -> bool:
        """Store the place and return True if it is on disk.

        If the disk is full, the next agent reads some records again.
        """
        if self.sequence is None or self.sequence == self._stored:
            return True
        partial = self._path.with_name(f".{NAME}.new")
        try:
            partial.write_bytes(msgspec.json.encode(_Image(self._boot_id, self.sequence)))
            partial.replace(self._path)
        except OSError:
            return False
        self._stored = self.sequence
        return True
