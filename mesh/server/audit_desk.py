# SPDX-License-Identifier: Apache-2.0
"""The scheduler's answer to those who audit the log: its entries from the genesis on, as signed.

One scheduler alone reads them in its archive and then in the log; each of several in its archive
and in its file of held entries, so that each can be audited for itself. Owns that only an
administrator reads them, since entries have what jobs were submitted with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from stoker.mesh.log.held_entries import HeldEntries
from stoker.mesh.log.jetstream_log import Log
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server.checkpoint_desk import CheckpointDesk
from stoker.mesh.server.service import Caller
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema_audit import (
    ENTRIES_BYTES_MAX,
    AuditCheckpoint,
    AuditEntry,
    AuditReadRequest,
    AuditView,
)
from stoker.native.errors import Denied

Found = list[tuple[int, bytes]]


class AuditDesk:
    """The trail of one scheduler; `held` is None for one alone."""

    def __init__(
        self,
        replica: Replica,
        public_key: str,
        archive: LogArchive,
        log: Log,
        held: HeldEntries | None,
    ) -> None:
        self._replica = replica
        self._public_key = public_key
        self._archive = archive
        self._log = log
        self._held = held
        self.checkpoints: CheckpointDesk | None = None
        """The checkpoints that this scheduler has signed; None tells none."""
        self._reading = asyncio.Lock()
        """One page is read at a time: it takes a whole segment of the archive."""

    async def answer(self, caller: Caller) -> bytes:
        """Return the reply to a request about the trail; a StokerError is the refusal."""
        if not caller.admin:
            raise Denied("only an administrator reads the entries of the log")
        assert isinstance(caller.request, AuditReadRequest)
        async with self._reading:
            return schema.encode(await self._page(max(caller.request.after, 0)))

    async def _page(self, after: int) -> AuditView:
        state = self._replica.state
        index, digest, trail = state.index, state.hash, state.trail
        end = state.seen if self._held is None else index
        found = await self._behind(after, end)
        return AuditView(
            cluster=state.cluster,
            scheduler=self._public_key,
            schedulers=tuple(each.public_key for each in state.schedulers),
            index=index,
            hash=digest.hex(),
            trail=trail.hex(),
            entries=tuple(AuditEntry(place=place, data=data) for place, data in found),
            more=bool(found) and found[-1][0] < end,
            checkpoints=() if after else await asyncio.to_thread(self._signed, index),
        )

    def _signed(self, end: int) -> tuple[AuditCheckpoint, ...]:
        told = self.checkpoints.told(end) if self.checkpoints is not None else ()
        return tuple(msgspec.convert(msgspec.to_builtins(each), AuditCheckpoint) for each in told)

    async def _behind(self, after: int, end: int) -> Found:
        """Return the entries behind a place, as many as fit; none beyond what is applied."""
        if found := await asyncio.to_thread(self._archived, after, end):
            return found
        if self._held is not None:
            return await asyncio.to_thread(self._held_behind, after, end)
        found = await self._logged(after, end)
        if found and found[0][0] > after + 1:  # trimmed meanwhile, and archived before
            return await asyncio.to_thread(self._archived, after, end) or found
        return found

    def _archived(self, after: int, end: int) -> Found:
        return _fitting(self._archive.entries(after), end)

    def _held_behind(self, after: int, end: int) -> Found:
        assert self._held is not None
        entries = self._held.read().entries
        found = _fitting((each for each in entries if each[0] > after), end)
        if found and found[0][0] > after + 1:  # a snapshot has moved entries meanwhile
            return self._archived(after, end) or found
        return found

    async def _logged(self, after: int, end: int) -> Found:
        if after >= end:
            return []
        async for batch in self._log.read_from(after + 1):
            return _fitting(batch, end)
        return []


def _fitting(entries: Iterable[tuple[int, bytes]], end: int) -> Found:
    """Return the first of these entries, by the bytes of one reply; the first one always fits."""
    found: Found = []
    size = 0
    for place, data in entries:
        size += len(data)
        if place > end or (found and size > ENTRIES_BYTES_MAX):
            break
        found.append((place, data))
    return found
