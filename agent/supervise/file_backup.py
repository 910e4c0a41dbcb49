# SPDX-License-Identifier: Apache-2.0
"""A backup of files into which a start writes its options.

A start that fails leaves nothing that a later start reads: changed files are restored byte for byte
and new ones are removed.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.native import durable_file


class FileBackup(msgspec.Struct, frozen=True):
    """Contents by path; None: the file did not exist."""

    before: dict[Path, bytes | None]

    @classmethod
    def of(cls, *paths: Path) -> FileBackup:
        """Read the files, which are small: options of a start."""
        return cls({path: path.read_bytes() if path.exists() else None for path in paths})

    def put_back(self) -> None:
        """Restore the files that have changed, each in one step."""
        for path, data in self.before.items():
            if data is None:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_bytes() != data:
                durable_file.replace(path, data)
