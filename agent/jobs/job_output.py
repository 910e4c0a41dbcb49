# SPDX-License-Identifier: Apache-2.0
"""A job's output as it lies on disk: any piece of it by offset, and waiting for more.

Reads the files the job's shim writes; waits by inotify on the job's folder, and by being told
that the job's state changed. Readers are bounded: past READERS_MAX a query is refused, not queued.
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
from stoker.agent.jobs.steps import Key
from stoker.mesh.broker.budgets import PROXIED_MAX
from stoker.mesh.wire.queries import LogsQuery, LogsReply
from stoker.native.errors import NotFound, Refused, from_errno

READERS_MAX = PROXIED_MAX
"""Asks that wait at the same time, of all users; the scheduler bounds those of each."""

_IN_MODIFY, _IN_CREATE = 0x2, 0x100  # inotify(7)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class Watches:
    """One inotify instance; wakes whoever waits for a folder."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        self._waiting: dict[int, set[asyncio.Future[None]]] = {}
        self._loop = loop
        loop.add_reader(self._descriptor, self._readable)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, folder: Path, woken: asyncio.Future[None]) -> int:
        """Resolve `woken` at the next write into the folder; the number is for `remove`."""
        name = os.fsencode(folder)
        watch = self._call("inotify_add_watch", self._descriptor, name, _IN_MODIFY | _IN_CREATE)
        self._waiting.setdefault(watch, set()).add(woken)
        return watch

    def remove(self, watch: int, woken: asyncio.Future[None]) -> None:
        """This one waits no more; the last one takes the watch away."""
        waiting = self._waiting.get(watch, set())
        waiting.discard(woken)
        if not waiting:
            self._waiting.pop(watch, None)
            self._libc.inotify_rm_watch(self._descriptor, watch)

    def close(self) -> None:
        """End the instance; nobody is woken."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        at, watches = 0, set()
        while at + _EVENT.size <= len(data):
            watch, _, _, size = _EVENT.unpack_from(data, at)
            watches.add(watch)
            at += _EVENT.size + size
        if -1 in watches:  # the kernel's queue overflowed: anybody may have been written to
            watches = set(self._waiting)
        for watch in watches:
            for woken in self._waiting.get(watch, ()):
                if not woken.done():
                    woken.set_result(None)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        result = int(getattr(self._libc, name)(*arguments))
        if result < 0:
            raise from_errno(-ctypes.get_errno(), name)
        return result


Changed = Callable[[int], "asyncio.Future[None]"]
"""A future that resolves when a job starts or ends here."""


class AttemptLookup(NamedTuple):
    """What the daemon knows of attempts."""

    live: Callable[[Key], bool]
    """Whether it is here and has not ended; its output may still grow."""
    ended: Callable[[Key], bool]
    """Whether it ended here not long ago, perhaps without a byte of output, so without a folder."""
    dropped: Callable[[Key], int]
    """Bytes past the output limit of one that ended."""
    changed: Changed


COMING_S = 2.0
"""How long a job nobody knows here may still be on its way: asks travel beside commands."""


class JobOutput:
    """Answers asks for output."""

    def __init__(self, folder: Path, watches: Watches, known: AttemptLookup) -> None:
        self._folder = folder
        self._watches = watches
        self._known = known
        self._readers = 0

    async def answer(self, query: LogsQuery) -> LogsReply:
        """The bytes at `ask.offset`; NotFound for a job this node has nothing of."""
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
        """What is there now; None for a job that is not known here and has no folder."""
        key = (query.job, query.attempt)
        live = self._known.live(key)  # before the read: what was written until then is seen by it
        path = self._folder / folder_name(query.job, query.attempt) / query.stream
        try:
            with path.open("rb") as file:
                data = os.pread(file.fileno(), query.limit, query.offset)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            if not live and not self._known.ended(key) and not path.parent.is_dir():
                return None
            data, size = b"", 0
        end = query.offset + len(data)
        over = not live and end >= size
        return LogsReply(data, end, eof=over, dropped=self._known.dropped(key) if over else 0)

    async def _wait(self, query: LogsQuery) -> LogsReply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        deadline, coming = now + query.wait_s, now + min(COMING_S, max(query.wait_s, 0.2))
        while True:
            # The watch comes before the look, so that no write falls between the two.
            changed = self._known.changed(query.job)
            written: asyncio.Future[None] = loop.create_future()
            watch = self._watch((query.job, query.attempt), written)
            try:
                reply = self._read(query)
                until = deadline if reply is not None else coming
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

    def _watch(self, key: Key, written: asyncio.Future[None]) -> int:
        """The attempt's folder, or until there is one the folder in which it will be made."""
        try:
            return self._watches.add(self._folder / folder_name(*key), written)
        except NotFound:
            return self._watches.add(self._folder, written)
