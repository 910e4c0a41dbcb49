# SPDX-License-Identifier: Apache-2.0
"""A small disk of a folder's own, in memory, that a test fills to the last byte."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

BALLAST = "ballast"
CHUNK = bytes(1 << 20)


@contextlib.contextmanager
def own_disk(folder: Path, size: int) -> Iterator[None]:
    """Mount a file system of this many bytes at a folder; 0: none."""
    if not size:
        yield
        return
    _call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield
    finally:
        _call("umount", "--lazy", str(folder))


def fill(folder: Path) -> None:
    """Leave no room on the disk that is mounted there."""
    with (folder / BALLAST).open("ab", buffering=0) as file:
        for size in (len(CHUNK), 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(CHUNK[:size]):
                    pass


def empty(folder: Path) -> None:
    """Undo `fill`."""
    (folder / BALLAST).unlink(missing_ok=True)


def _call(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
