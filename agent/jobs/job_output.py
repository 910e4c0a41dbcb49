# SPDX-License-Identifier: Apache-2.0
"""The output of a job as it lies on disk: any piece by offset, and waiting for more.

The shim of the job writes the files. A reader waits by inotify on the job's folder and for changes
of the job's state; where the kernel has no inotify for this process, it looks again and again. Past
READERS_MAX a query is refused, not queued.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stoker.agent.jobs.attempt_folders import folder_name
from stoker.mesh.broker.budgets import PROXIED_MAX
from stoker.mesh.wire.queries import LogsQuery, LogsReply
from stoker.native.errors import NotFound, Refused, StokerError, from_errno
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import TaskKey

READERS_MAX = PROXIED_MAX
"""The largest number of queries that wait at the same time, of all users; the scheduler bounds
those of each user."""

LOOK_S = 0.1
"""Seconds after which a reader looks again where the kernel tells nothing."""
_IN_MODIFY, _IN_CREATE = 0x2, 0x100  # inotify(7)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_log = structlog.get_logger("output")


class Watches:
    """One inotify instance; wakes whoever waits for a folder.

    The kernel has 128 instances for all processes of a user, unless it is told otherwise, and so
    many watches. Who gets none is woken after LOOK_S.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._looks: dict[int, asyncio.TimerHandle] = {}
        """The timers of those whom the kernel does not wake, by a number below 0."""
        self._looked = 0
        self._loop = loop
        self._descriptor = self._instance()
        if self._descriptor is not None:
            loop.add_reader(self._descriptor, self._readable)

    def _instance(self) -> int | None:
        try:
            return self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        except StokerError as error:
            hint = "raise fs.inotify.max_user_instances (sysctl)"
            _log.warning("readers look for output", every_s=LOOK_S, why=error.message, hint=hint)
            return None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._looks)

    def add(self, folder: Path, woken: asyncio.Future[None]) -> int:
        """Resolve `woken` at the next write into the folder; return the number for `remove`."""
        if self._descriptor is None:
            return self._look(woken)
        name = os.fsencode(folder)
        try:
            watch = self._call("inotify_add_watch", self._descriptor, name, _IN_MODIFY | _IN_CREATE)
        except NotFound:
            raise
        except StokerError:  # the user's watches are used up
            return self._look(woken)
        self._waiting.setdefault(watch, set()).add(woken)
        return watch

    def _look(self, woken: asyncio.Future[None]) -> int:
        self._looked -= 1
        self._looks[self._looked] = self._loop.call_later(LOOK_S, _wake, woken)
        return self._looked

    def remove(self, watch: int, woken: asyncio.Future[None]) -> None:
        """End one wait; the last one of a folder removes its watch."""
        if watch < 0:
            self._looks.pop(watch).cancel()
            return
        waiting = self._waiting.get(watch, set())
        waiting.discard(woken)
        if not waiting:
            self._waiting.pop(watch, None)
            self._libc.inotify_rm_watch(self._descriptor, watch)

    def close(self) -> None:
        """Close the inotify instance; nobody is woken."""
        if self._descriptor is None:
            return
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _readable(self) -> None:
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        at, watches = 0, set()
        while at + _EVENT.size <= len(data):
            watch, _, _, size = _EVENT.unpack_from(data, at)
            watches.add(watch)
            at += _EVENT.size + size
        if -1 in watches:  # the kernel's queue overflowed: every folder may have been written to
            watches = set(self._waiting)
        for watch in watches:
            for woken in self._waiting.get(watch, ()):
                _wake(woken)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        result = int(getattr(self._libc, name)(*arguments))
        if result < 0:
            raise from_errno(-ctypes.get_errno(), name)
        return result


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


Changed = Callable[[int], "asyncio.Future[None]"]
"""Return a future that resolves when a job starts or ends here."""


class AttemptLookup(NamedTuple):
    """The daemon's answers about attempts."""

    live: Callable[[TaskKey], bool]
    """True if the attempt is here and has not ended; its output may still grow."""
    ended: Callable[[TaskKey], bool]
    """True if the attempt ended here recently, perhaps without output and so without a folder."""
    dropped: Callable[[TaskKey], int]
    """Return the bytes past the output limit of an attempt that ended."""
    changed: Changed


COMING_S = 2.0
"""Seconds to wait for a job that is unknown here: a query may overtake the job's start."""


class JobOutput:
    """Answers queries for output."""

    def __init__(self, folder: Path, watches: Watches, attempts: AttemptLookup) -> None:
        self._folder = folder
        self._watches = watches
        self._attempts = attempts
        self._readers = 0

    async def answer(self, query: LogsQuery) -> LogsReply:
        """Return the bytes at `query.offset`; NotFound if this node has nothing of the job."""
        reply = self._read(query)
        if reply is not None and (reply.data or reply.eof):
            return reply
        if self._readers >= READERS_MAX:
            raise Refused(f"{READERS_MAX} readers wait for output already")
        self._readers += 1
        try:
            return await self._wait(query)
        finally:
            self._readers -= 1

    def _read(self, query: LogsQuery) -> LogsReply | None:
        """Return what is there now; None for a job that is unknown here and has no folder."""
        key = query.key
        live = self._attempts.live(key)  # before the read, which then sees all output
        path = self._folder / folder_name(key) / query.stream
        try:
            with path.open("rb") as file:
                data = os.pread(file.fileno(), query.limit, query.offset)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            if not live and not self._attempts.ended(key) and not path.parent.is_dir():
                return None
            data, size = b"", 0
        end = query.offset + len(data)
        over = not live and end >= size
        return LogsReply(data, end, eof=over, dropped=self._attempts.dropped(key) if over else 0)

    async def _wait(self, query: LogsQuery) -> LogsReply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline, unknown_until = now + query.wait_s, now + min(COMING_S, max(query.wait_s, 0.2))
        while True:
            # The watch is set before the files are read, so that no write is missed.
            changed = self._attempts.changed(query.job)
            written: asyncio.Future[None] = loop.create_future()
            watch = self._watch(query.key, written)
            try:
                reply = self._read(query)
                until = deadline if reply is not None else unknown_until
                left = until - loop.time()
                if reply is not None and (reply.data or reply.eof or left <= 0):
                    return reply
                if left <= 0:
                    raise NotFound(
                        f"this node has no output of job {query.job}",
                        hint="it wrote none, or its folder was removed: retention has passed",
                    )
                await asyncio.wait(
                    (changed, written), timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                self._watches.remove(watch, written)
                changed.cancel()

    def _watch(self, key: TaskKey, written: asyncio.Future[None]) -> int:
        """Watch the attempt's folder, or the folder in which it will be made."""
        try:
            return self._watches.add(self._folder / folder_name(key), written)
        except NotFound:
            return self._watches.add(self._folder, written)
