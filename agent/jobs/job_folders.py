# SPDX-License-Identifier: Apache-2.0
"""The folders of finished jobs: kept as long as retention says, deleted off the agent's loop.

`agent/jobs/retention.py` decides; this module reads, deletes and counts. It also keeps two facts of
an ended job that its files do not show: how much output was cut off, and that it wrote none. A job
without output, input and trace has no folder at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoker.agent.jobs import folder_owners, folder_placement, retention
from stoker.agent.jobs.attempt_folders import folder_name, key_of
from stoker.agent.jobs.folder_owners import FolderOwners
from stoker.agent.jobs.folder_removal import clear
from stoker.agent.jobs.retention import NOBODY, FinishedFolders, RetentionLimits
from stoker.agent.jobs.spawner_messages import Exited
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import TaskKey

DROPPED_FILE = "dropped"
OUT_FILE = "out"
"""The file of a job's standard output, as `native/runner/shim/job.c` names it."""
OWNERS_FILE = "owners"
SILENT_MAX = 16_384
"""The number of ended jobs without a folder that are remembered, to tell them from deleted ones."""

_log = structlog.get_logger("job_folders")


class JobFolders:
    """Folders of finished jobs. One worker thread reads and deletes; the loop decides."""

    def __init__(self, jobs: Path, limits: RetentionLimits) -> None:
        self._jobs = jobs
        self._finished = FinishedFolders(limits)
        self._early: list[tuple[TaskKey, int, int]] | None = []
        self._owners = FolderOwners(jobs.parent / OWNERS_FILE)
        self._forgotten: set[int] = set()
        """Jobs that were forgotten while the worker listed the folders."""
        self._running: dict[int, int] = {}
        """User id -> bytes that the user's running jobs had written when last measured."""
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="job-folders")
        self._works: deque[Callable[[], None]] = deque()
        self._owned: deque[tuple[TaskKey, int]] = deque()
        """Owners of folders that the worker has still to record."""
        self._called = False
        """True if the worker has been called and not yet begun with what waits."""
        self._closed = False
        self.counters: Counter[str] = Counter()
        self._silent: OrderedDict[TaskKey, None] = OrderedDict()
        self._left: set[TaskKey] = set()
        """The names of ended attempts whose folder may be there."""
        self._later: dict[int, list[TaskKey]] = {}
        """Job -> its attempts after the first that have a folder here."""

    def begin(self, segments: Path, alive: set[TaskKey]) -> None:
        """List the folders that exist now, in the worker; segments of jobs long over are removed.

        Call it before any job is started: folders made later are not listed.
        """
        folder_placement.spread(self._jobs)
        names = {key.name for key in alive}
        over = [segments / folder_name(key) for key in _attempts(segments) - names]
        finished = _attempts(self._jobs) - names
        self._left = set(finished)
        loop = asyncio.get_running_loop()
        listing = loop.run_in_executor(self._worker, self._list, over, finished)
        listing.add_done_callback(self._listed)

    def _listed(self, listing: asyncio.Future[list[tuple[TaskKey, int, int]]]) -> None:
        if listing.cancelled():
            return
        early, self._early = self._early or [], None
        for key, size, uid in [*listing.result(), *early]:
            if key.job not in self._forgotten:
                self._put(key, size, uid)
        self._forgotten.clear()

    def weigh(self, running: dict[TaskKey, int]) -> None:
        """Measure the output of running attempts (-> user id); finished jobs of a user make room
        for it, oldest first."""
        measured = asyncio.get_running_loop().run_in_executor(self._worker, self._sizes, running)
        measured.add_done_callback(self._weighed)

    def _weighed(self, measured: asyncio.Future[dict[int, int]]) -> None:
        if measured.cancelled() or measured.exception() is not None:
            return
        self._running = measured.result()
        for uid, size in self._running.items():
            self._let_go(self._finished.fit(uid, size))

    def keep(self, exited: Exited, traced: bool, uid: int = NOBODY) -> None:
        """Let the folder of an ended job be deleted by retention from now on: the log has its
        end."""
        key = exited.key.name
        size = exited.out_bytes + exited.err_bytes
        dropped = exited.usage.output_dropped_bytes if exited.usage is not None else 0
        if traced or dropped:
            folder = self._jobs / folder_name(key)
            with contextlib.suppress(OSError):
                size = retention.size_of(folder)
                if dropped:
                    (folder / DROPPED_FILE).write_text(str(dropped))
        if not size and not os.path.exists(f"{self._jobs}/{folder_name(key)}"):  # noqa: PTH110
            self._remember_silent(key)
            return
        self._left.add(key)
        if self._early is not None:
            self._early.append((key, size, uid))
            self._own(key, uid)
        else:
            self._put(key, size, uid)
            self._own(key, uid)

    def forget(self, job: int) -> None:
        """Delete a job's folders: the scheduler's retention has passed."""
        if self._early is not None:
            self._forgotten.add(job)
        later = self._later.pop(job, [])
        first = TaskKey(job, 1, 0)
        if self._silent.pop(first, self) is None and not later:
            return
        keys = [first, *later]
        for key in keys:
            self._finished.drop(key)
        self._delete(keys)

    def renew(self, key: TaskKey) -> None:
        """Remove what an ended attempt of this name has left, before this one begins.

        Only a cluster that was restored from an older log gives names again. The next owner must
        not find the output of the last one.
        """
        name = key.name
        self._silent.pop(name, None)
        if name not in self._left:
            return
        self.counters["folders_renewed"] += 1
        if self._early is not None:
            self._forgotten.add(name.job)
        self._finished.drop(name)
        self._worker.submit(self._guard, lambda: self._deleted([name])).result()

    def silent(self, key: TaskKey) -> bool:
        """True if this attempt is known to have ended without a byte of output."""
        return key.name in self._silent

    def _remember_silent(self, key: TaskKey) -> None:
        self._silent[key] = None
        if len(self._silent) > SILENT_MAX:
            self._silent.popitem(last=False)

    def dropped(self, key: TaskKey, exited: Exited | None) -> int:
        """Return the bytes of output past the limit; 0 if nothing was cut off."""
        if exited is not None:
            return exited.usage.output_dropped_bytes if exited.usage else 0
        try:
            return int((self._jobs / folder_name(key) / DROPPED_FILE).read_text())
        except (OSError, ValueError):
            return 0

    def close(self) -> None:
        """Stop the worker; the next agent lists and deletes the rest."""
        self._closed = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _put(self, key: TaskKey, size: int, uid: int) -> None:
        if key != TaskKey(key.job, 1, 0):
            self._later.setdefault(key.job, []).append(key)
        self._let_go(self._finished.put(key, size, uid, self._running.get(uid, 0)))

    def _let_go(self, gone: list[TaskKey]) -> None:
        for job in {key.job for key in gone}:
            if job in self._later:
                left = [each for each in self._later.pop(job) if each not in gone]
                self._later.update({job: left} if left else {})
        if gone:
            self._delete(gone)

    def _delete(self, keys: list[TaskKey]) -> None:
        self._submit(lambda: self._deleted(keys))

    def _deleted(self, keys: list[TaskKey]) -> None:
        for key in keys:
            try:
                _remove(f"{self._jobs}/{folder_name(key)}")
                self.counters["folders_deleted"] += 1
            except FileNotFoundError:
                pass
            self._left.discard(key)

    def _submit(self, work: Callable[[], None]) -> None:
        """Have the worker do this; it is called once for all that waits when it begins."""
        self._works.append(work)
        if not self._called:
            self._called = True
            self._worker.submit(self._work_off)

    def _work_off(self) -> None:
        """Do all that waits; runs on the worker."""
        self._called = False  # first, so that what comes from now on is not forgotten
        while self._works and not self._closed:
            self._guard(self._works.popleft())

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:  # a full disk, or one that fails
            self.counters["disk_failed"] += 1
            _log.warning("folders of jobs", error=str(error))

    def _list(self, over: list[Path], finished: set[TaskKey]) -> list[tuple[TaskKey, int, int]]:
        for folder in over:
            clear(folder)
            self.counters["segments_removed"] += 1
        owners = folder_owners.read(self._jobs.parent / OWNERS_FILE)
        found = retention.scan(self._jobs, finished)
        kept = {key: owners[key] for key, _ in found if key in owners}
        self._guard(lambda: self._owners.begin(kept))
        return [(key, size, owners.get(key, NOBODY)) for key, size in found]

    def _own(self, key: TaskKey, uid: int) -> None:
        """Have the folder's owner recorded for the next agent."""
        self._owned.append((key, uid))
        self._submit(self._record_owners)

    def _record_owners(self) -> None:
        """Record all owners that wait, in one write; runs on the worker."""
        owned = [self._owned.popleft() for _ in range(len(self._owned))]
        if owned and not self._owners.add(owned):
            found = _attempts(self._jobs)
            owners = folder_owners.read(self._jobs.parent / OWNERS_FILE)
            self._owners.begin({each: owners[each] for each in found if each in owners})

    def _sizes(self, running: dict[TaskKey, int]) -> dict[int, int]:
        """Return bytes on disk by user id; runs on the worker."""
        found: dict[int, int] = {}
        for key, uid in running.items():
            with contextlib.suppress(OSError):
                size = retention.size_of(self._jobs / folder_name(key))
                found[uid] = found.get(uid, 0) + size
        return found


def _remove(path: str) -> None:
    """Remove a folder with its content; FileNotFoundError if there is none."""
    if _remove_plain(path):
        return
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                os.unlink(entry.path)  # noqa: PTH108  # per job: no Path objects
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        raise
    except OSError:  # a folder inside, or a file that cannot go
        clear(Path(path))


def _remove_plain(path: str) -> bool:
    """Remove a folder that holds nothing but standard output, as most do; False for any other."""
    with contextlib.suppress(OSError):
        os.unlink(f"{path}/{OUT_FILE}")  # noqa: PTH108
    try:
        os.rmdir(path)  # noqa: PTH106
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _attempts(folder: Path) -> set[TaskKey]:
    """The attempts that have an entry in this folder."""
    try:
        return {key for entry in folder.iterdir() if (key := key_of(entry.name)) is not None}
    except FileNotFoundError:
        return set()
