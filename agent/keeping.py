# SPDX-License-Identifier: Apache-2.0
"""The folders of finished jobs: kept as long as retention says, deleted off the agent's loop.

Relied on by the daemon. `agent/retention.py` decides; this reads, deletes and counts. Also keeps
the one fact of an ended job that its files do not tell: how much output was cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

from stoker.agent import retention
from stoker.agent.folders import Folders
from stoker.agent.launch import Exited
from stoker.agent.retention import Keep, Shelf

DROPPED_FILE = "dropped"

_log = structlog.get_logger("keeping")


class Keeping:
    """One worker thread does what touches the disk; the shelf belongs to the loop."""

    def __init__(self, jobs: Path, keep: Keep) -> None:
        self._jobs = jobs
        self.folders = Folders(jobs)
        self._shelf = Shelf(keep)
        self._early: list[tuple[int, int]] | None = []
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="keeping")
        self.counters: Counter[str] = Counter()
        self.folders.more = lambda: self._submit(self.folders.refill)

    def begin(self, segments: Path, alive: set[int]) -> None:
        """Take stock of what is there now: segments of jobs long over are removed, folders counted.

        To be called before any job is started: what comes later is not looked at.
        """
        self._submit(self.folders.begin)
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
        if self._early is not None:
            self._early.append((exited.job, size))
        else:
            self._put(exited.job, size)

    def forget(self, job: int) -> None:
        """The scheduler's retention has passed for this job."""
        self._shelf.drop(job)
        self._delete([job])

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
        self.counters["folders_deleted"] += self.folders.give_back(jobs)

    def _submit(self, work: Callable[[], None]) -> None:
        self._worker.submit(self._guard, work)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:  # a full disk: a start makes its own folder, or fails by name
            self.counters["disk_failed"] += 1
            _log.warning("folders of jobs", error=str(error))

    def _stock(self, over: list[Path], finished: set[int]) -> list[tuple[int, int]]:
        for folder in over:
            shutil.rmtree(folder, ignore_errors=True)
            self.counters["segments_removed"] += 1
        return retention.scan(self._jobs, finished)


def _numbers(folder: Path) -> set[int]:
    """The jobs that have an entry in this folder."""
    try:
        return {int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()}
    except FileNotFoundError:
        return set()
