# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs, made ahead: a start takes a spare one by renaming it.

Relied on by the actuator (takes) and by keeping (gives back). Making a directory costs 50-250 us on
ext4 and renaming one 20 us, so making and emptying happen in keeping's worker thread, and a folder
whose job was forgotten becomes a spare again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

SPARES = 512
"""Spare folders at most; making more starts below half of it."""
POOL = ".spare"


class Folders:
    """`take` belongs to the loop, the rest to the worker thread; the deque is safe for both."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = str(jobs)
        self._pool = f"{jobs}/{POOL}"
        self._spare: deque[str] = deque()
        self._number = 0
        self.more: Callable[[], None] = lambda: None
        """Called when spares run low; has `refill` run in the worker."""

    def begin(self) -> None:
        """Go on with the spares of an earlier agent, those that are empty, and make the rest."""
        pool = Path(self._pool)
        pool.mkdir(mode=0o700, exist_ok=True)
        for path in pool.iterdir():
            if path.name.isdecimal() and path.is_dir() and not any(path.iterdir()):
                self._number = max(self._number, int(path.name))
                self._spare.append(str(path))
            else:  # it was being emptied
                shutil.rmtree(path, ignore_errors=True)
        self.refill()

    def take(self, job: int) -> str:
        """The empty folder of this job, or the one it has already; raises OSError."""
        path = f"{self._jobs}/{job}"
        try:
            # Onto an existing folder with something in it, rename fails and leaves it alone.
            os.rename(self._spare.popleft(), path)  # noqa: PTH104  # per job: no Path objects
        except (IndexError, OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)  # noqa: PTH102
        if len(self._spare) == SPARES // 2:
            self.more()
        return path

    def refill(self) -> None:
        """Make spares until there are enough."""
        while len(self._spare) < SPARES:
            path = self._next()
            os.mkdir(path, 0o700)  # noqa: PTH102
            self._spare.append(path)

    def give_back(self, jobs: Iterable[int]) -> int:
        """Empty these jobs' folders, keep them as spares or delete them; how many are gone."""
        return sum(self._give_back(f"{self._jobs}/{job}") for job in jobs)

    def _give_back(self, path: str) -> bool:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    os.unlink(entry.path)  # noqa: PTH108
            if len(self._spare) < SPARES:
                spare = self._next()
                os.rename(path, spare)  # noqa: PTH104
                self._spare.append(spare)
            else:
                os.rmdir(path)  # noqa: PTH106
        except FileNotFoundError:
            return False
        except OSError:  # a folder inside, or a file that cannot go
            shutil.rmtree(path, ignore_errors=True)
        return not os.path.exists(path)  # noqa: PTH110

    def _next(self) -> str:
        self._number += 1
        return f"{self._pool}/{self._number}"
