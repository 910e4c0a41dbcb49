# SPDX-License-Identifier: Apache-2.0
"""The replica's effects on log and snapshots: append, read, save, trim.

Owns the translation of every failure into the event that the replica may conclude from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.mesh.log.held_entries import HeldEntries
from stoker.mesh.log.jetstream_log import Log, LogFull, LogGap, WrongTail
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.replica import events
from stoker.mesh.replica.snapshots import Snapshot, SnapshotFolder, agreement
from stoker.native.errors import Corrupt, StokerError, Unavailable
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")

Feed = Callable[[events.Event], Awaitable[None]]


class LogWriter:
    """Carries out effects; each method ends with the event that answers its effect.

    `held` is the file of held entries in a cluster of several schedulers. Snapshots shorten it, and
    what it loses is archived; one scheduler alone archives what it trims.
    """

    def __init__(
        self,
        engine: Log,
        folder: SnapshotFolder,
        feed: Feed,
        archive: LogArchive,
        held: HeldEntries | None = None,
    ) -> None:
        self._held = held
        self.checkpoint: Callable[[Snapshot], Awaitable[None]] = _unsigned
        """Signs a state whose snapshot was saved, before anything is archived behind it."""
        self._log = engine
        self._folder = folder
        self._feed = feed
        self._archive = archive
        self._trimming = asyncio.Lock()
        """Trims follow one another: a full log requests a second one while the first archives."""

    async def append(self, effect: events.Append) -> None:
        event: events.Event
        try:
            event = events.AppendDone(
                await self._log.append_at(effect.tail, effect.data, effect.name), effect.name
            )
        except LogFull as error:
            event = events.AppendFull(error.message)
        except LogGap as error:
            event = events.LogBroken(error.message)
        except StokerError as error:
            last = error.last if isinstance(error, WrongTail) else 0
            event = events.LogFailed(error.message, last)
            log.warning("append failed", why=error.message)
        await self._feed(event)

    async def read(self, effect: events.Read) -> None:
        try:
            async for batch in self._log.read_from(effect.seq):
                await self._feed(events.LogEntries(batch))
        except LogGap as error:
            await self._feed(events.LogBroken(error.message))
        except StokerError as error:
            await self._feed(events.LogFailed(error.message))
        else:
            await self._feed(events.LogEnd())

    async def save(self, effect: events.SaveSnapshot) -> None:
        event: events.SnapshotSaved | events.SnapshotFailed
        try:
            saved = await asyncio.to_thread(self._folder.save, effect.snapshot)
            event = events.SnapshotSaved(effect.snapshot.seq, saved.digest)
            if self._held is not None:  # others have a snapshot of the same place
                agreed = await asyncio.to_thread(agreement, effect.snapshot)
                event = event._replace(place=effect.snapshot.index, agreed=agreed)
            log.info("snapshot saved", seq=effect.snapshot.seq, bytes=len(saved.data))
        except (OSError, Corrupt) as error:
            event = events.SnapshotFailed(str(error))
            log.error("snapshot failed", error=str(error))
        else:
            await self.checkpoint(effect.snapshot)
            await self._shrink(effect.snapshot.index)
        await self._feed(event)

    async def _shrink(self, index: int) -> None:
        """Archive the held entries that a durable snapshot has."""
        if self._held is not None:
            try:
                _note_dropped(await asyncio.to_thread(self._held.saved, index, self._archive))
            except OSError as error:
                log.warning("the file of held entries stays long", error=str(error))

    async def trim(self, effect: events.Trim) -> None:
        event: events.Event = events.Trimmed(effect.seq)
        try:
            async with self._trimming:
                if self._held is None:
                    await self._keep(effect.seq)
                await self._log.trim(effect.seq)
            log.info("log trimmed", seq=effect.seq)
        except (StokerError, OSError) as error:
            event = events.TrimFailed(str(error))
            log.warning("trim failed", error=str(error))
        await self._feed(event)

    async def _keep(self, seq: int) -> None:
        """Archive all entries up to `seq`, which are then trimmed."""
        kept: list[tuple[int, bytes]] = []
        reached = self._archive.last_place
        if reached >= seq:
            return
        async for batch in self._log.read_from(reached + 1):
            kept += [each for each in batch if each[0] <= seq]
            reached = batch[-1][0]
            if reached >= seq:
                break
        if reached < seq:
            raise Unavailable(f"the log could be read up to {reached} only, not up to {seq}")
        _note_dropped(await asyncio.to_thread(self._archive.add, kept))


async def _unsigned(snapshot: Snapshot) -> None:
    """Sign nothing: a scheduler of a test has no key for it."""


def _note_dropped(count: int) -> None:
    if count:
        log.warning("old segments of the log's archive were dropped", count=count)
