# SPDX-License-Identifier: Apache-2.0
"""Files as they were before a start wrote its options into them.

Owns that a start which fails leaves nothing that a later start reads: what it wrote is put back
byte for byte, and what it made is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.agent.state import state_folder


@dataclass(frozen=True, slots=True)
class FileBackup:
    """Contents by path; None: there was no such file."""

    before: dict[Path, bytes | None]

    @classmethod
    def of(cls, *paths: Path) -> FileBackup:
        """What these hold now. They are small: options of a start."""
        return cls({path: path.read_bytes() if path.exists() else None for path in paths})

    def put_back(self) -> None:
        """Only what changed is written, each file in one step."""
        for path, data in self.before.items():
            if data is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != data:
                state_folder.write_file(path, data)
