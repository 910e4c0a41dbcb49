# SPDX-License-Identifier: Apache-2.0
"""The folders of finished jobs: kept as long as retention says, deleted off the agent's loop.

Relied on by the daemon. `agent/retention.py` decides; this reads, deletes and counts. Also keeps
the facts of an ended job that its files do not tell: how much output was cut off, and that it said
nothing: a job without output, input and trace has no folder at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from stoker.agent import retention
from stoker.agent.launch import Exited
from stoker.agent.retention import Keep, Shelf

DROPPED_FILE = "dropped"
SILENT_MAX = 16_384
"""Ended jobs without a folder that are remembered, to tell them from those long deleted."""

_log = structlog.get_logger("keeping")


class Keeping:
    """One worker thread does what touches the disk; the shelf belongs to the loop."""

    def __init__(self, jobs: Path, keep: Keep) -> None:
        self._jobs = jobs
        self._shelf = Shelf(keep)
        self._early: list[tuple[int, int]] | None = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="keeping")
        self.counters: Counter[str] = Counter()
        self._silent: OrderedDict[int, None] = OrderedDict()

    def begin(self, segments: Path, alive: set[int]) -> None:
        """Take stock of what is there now: segments of jobs long over are removed, folders counted.

        To be called before any job is started: what comes later is not looked at.
        """
        over = [segments / str(job) for job in _numbers(segments) - alive]
        finished = _numbers(self._jobs) - alive
        loop = asyncio.get_running_loop()
        stock = loop.run_in_executor(self._worker, self._stock, over, finished)
        stock.add_done_callback(self._stocked)

    def _stocked(self, stock: asyncio.Future[list[tuple[int, int]]]) -> None:
        if stock.cancelled():
            return
        early, self._early = self._early or [], None
        for job, size in [*stock.result(), *early]:
            self._put(job, size)

    def keep(self, exited: Exited, traced: bool) -> None:
        """The log has the end of this job: from now on its folder may be deleted."""
        size = exited.out_bytes + exited.err_bytes
        dropped = exited.usage.output_dropped_bytes if exited.usage is not None else 0
        if traced or dropped:
            folder = self._jobs / str(exited.job)
            with contextlib.suppress(OSError):
                size = retention.size_of(folder)
                if dropped:
                    (folder / DROPPED_FILE).write_text(str(dropped))
        if not size and not os.path.exists(f"{self._jobs}/{exited.job}"):  # noqa: PTH110
            self._remember_silent(exited.job)
        elif self._early is not None:
            self._early.append((exited.job, size))
        else:
            self._put(exited.job, size)

    def forget(self, job: int) -> None:
        """The scheduler's retention has passed for this job."""
        if self._silent.pop(job, self) is None:
            return
        self._shelf.drop(job)
        self._delete([job])

    def silent(self, job: int) -> bool:
        """Whether this job is known to have ended without a byte of output."""
        return job in self._silent

    def _remember_silent(self, job: int) -> None:
        self._silent[job] = None
        if len(self._silent) > SILENT_MAX:
            self._silent.popitem(last=False)

    def dropped(self, job: int, exited: Exited | None) -> int:
        """Bytes of output past the limit; 0 where nothing was cut off."""
        if exited is not None:
            return exited.usage.output_dropped_bytes if exited.usage else 0
        try:
            return int((self._jobs / str(job) / DROPPED_FILE).read_text())
        except (OSError, ValueError):
            return 0

    def close(self) -> None:
        """Leave what is not deleted yet: the next agent takes stock again."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _put(self, job: int, size: int) -> None:
        gone = self._shelf.put(job, size)
        if gone:
            self._delete(gone)

    def _delete(self, jobs: list[int]) -> None:
        self._submit(lambda: self._deleted(jobs))

    def _deleted(self, jobs: list[int]) -> None:
        for job in jobs:
            try:
                _remove(f"{self._jobs}/{job}")
                self.counters["folders_deleted"] += 1
            except FileNotFoundError:
                continue

    def _submit(self, work: Callable[[], None]) -> None:
        self._worker.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:  # a full disk, or one that fails
            self.counters["disk_failed"] += 1
            _log.warning("folders of jobs", error=str(error))

    def _stock(self, over: list[Path], finished: set[int]) -> list[tuple[int, int]]:
        for folder in over:
            shutil.rmtree(folder, ignore_errors=True)
            self.counters["segments_removed"] += 1
        return retention.scan(self._jobs, finished)


def _remove(path: str) -> None:
    """A folder and what is in it; FileNotFoundError if there is none."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                os.unlink(entry.path)  # noqa: PTH108  # per job: no Path objects
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        raise
    except OSError:  # a folder inside, or a file that cannot go
        shutil.rmtree(path, ignore_errors=True)


def _numbers(folder: Path) -> set[int]:
    """The jobs that have an entry in this folder."""
    try:
        return {int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()}
    except FileNotFoundError:
        return set()
