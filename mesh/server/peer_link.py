# SPDX-License-Identifier: Apache-2.0
"""The effects of a replica on other schedulers and on what it holds for them.

The connection is its own, so that no user or node delays a pledge. Guarantees that nothing is sent
before what it promises is durable: the process ends if the disk does not take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.heard_subject import BrokerMessage
from stoker.mesh.log.held_entries import HeldEntries
from stoker.mesh.replica import events
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server.critical_tasks import begin_again, end_for_disk
from stoker.mesh.server.snapshot_parts import SnapshotParts
from stoker.mesh.wire import subjects
from stoker.native.errors import Corrupt
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")

Feed = Callable[[events.Event], Awaitable[None]]


class PeerLink:
    """The link of the scheduler `number`; `open` it once its connection is there."""

    def __init__(
        self,
        number: int,
        folder: SnapshotFolder,
        held: HeldEntries,
        feed: Feed,
        count: Callable[[str], None],
    ) -> None:
        self.connection = BrokerConnection()
        self._number = number
        self._folder = folder
        self._held = held
        self._feed = feed
        self._count = count
        self._parts = SnapshotParts(folder)
        self._reading = asyncio.Lock()

    async def open(self) -> None:
        """Hear what other schedulers send to this one."""
        await self.connection.subscribe(subjects.peer(self._number), cb=self._received)
        await self.connection.flush()

    async def _received(self, message: BrokerMessage) -> None:
        await self._feed(events.PeerMessage(message.data))

    async def send(self, effect: events.SendPeer) -> None:
        """Send a message; a lost one is repeated by the protocol or replaced by a later one."""
        try:
            await self.connection.publish(subjects.peer(effect.to), effect.data)
        except (OSError, ValueError):
            self._count("peer_lost")

    async def store(self, effect: events.Store) -> None:
        """Return once the entries are durable; no later effect may be carried out before."""
        try:
            record = effect.after, effect.entries, effect.promised, effect.floor
            await asyncio.to_thread(self._held.store, *record)
        except OSError as error:
            end_for_disk("the file of held entries", error)

    async def read_part(self, effect: events.ReadSnapshotPart) -> None:
        """Read a part of the newest snapshot file."""
        try:
            async with self._reading:
                part = await asyncio.to_thread(self._parts.part, effect)
        except OSError as error:
            log.error("no part of a snapshot is sent", error=str(error))
        else:
            await self._feed(part)

    async def install(self, effect: events.Install) -> None:
        """Begin again with another snapshot, or from the log alone, in a new process."""
        try:
            await asyncio.to_thread(self._folder.install, effect.data)
            await asyncio.to_thread(self._held.clear)
        except (OSError, Corrupt) as error:
            log.error("the snapshot of another scheduler is not installed", error=str(error))
        begin_again(effect.why)
