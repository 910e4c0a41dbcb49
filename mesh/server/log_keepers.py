# SPDX-License-Identifier: Apache-2.0
"""The brokers that keep the log: who they are, how many there shall be, and who leads them.

Owns that the leading scheduler alone changes them, that the log gets one more copy at a time, for a
server that answers, and that it has no fewer than schedulers count. No decision rests on this.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stoker.mesh.broker.broker_routes import log_copies
from stoker.mesh.log import roster_change
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.replica import Replica
from stoker.mesh.server.log_leader_place import LogLeaderPlace
from stoker.mesh.wire.schema_cluster import LogView
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")


class LogKeepers:
    """The keepers of one log as the scheduler on host `home` sees and changes them.

    `servers`: the host of each scheduler, by number; replace it when servers come or go.
    """

    def __init__(
        self, engine: JetStreamLog, replica: Replica, home: str, servers: Mapping[int, str]
    ) -> None:
        self.servers = servers
        self.view: LogView | None = None
        """The keepers as the brokers told last; None if they did not."""
        self._engine = engine
        self._replica = replica
        self._place = LogLeaderPlace(home)
        self._trouble = ""

    async def look(self) -> LogView | None:
        """Learn who keeps the log, and change it if this scheduler leads."""
        try:
            self.view = await self._engine.keepers()
        except StokerError:
            self.view = None
        leads = self._replica.role == "leading"
        if self._place.is_due(self.view, boot_ns(), leads=leads):
            await self._move()
        elif leads and self.view is not None and self._knows_roster():
            answering = self._replica.applicants.answering(boot_ns())
            there = {self.servers[each] for each in answering if each in self.servers}
            if copies := copies_due(self.view, self.servers.values(), there):
                await self._keep(copies)
        return self.view

    def _knows_roster(self) -> bool:
        """True if the table names each scheduler that counts; else it says nothing of the log."""
        config = self._replica.state.config
        members = config.schedulers if config is not None else ()
        return all(each.number in self.servers for each in roster_change.present(members))

    async def _move(self) -> None:
        """Keep the log's leader off the host of the leading scheduler."""
        why = ""
        try:
            await self._engine.hand_on()
        except StokerError as error:
            why = error.message
        log.info("this host is not to have both leaders: another broker takes the log", failed=why)

    async def _keep(self, copies: int) -> None:
        why = ""
        try:
            await self._engine.keep(copies)
        except StokerError as error:
            why = error.message
        if not why or why != self._trouble:
            log.info("the log gets another number of copies", copies=copies, failed=why)
        self._trouble = why


def copies_due(view: LogView, servers: Collection[str], there: Collection[str]) -> int:
    """Return how many copies the log shall have from now on; 0 if that stays as it is.

    `there`: the servers outside the roster that answer. The log of an only server has one copy.
    """
    kept, wanted = {each.server for each in view.copies}, log_copies(len(servers))
    if not kept or len(kept) == wanted or not view.leader:
        return 0
    if len(kept) > wanted:
        return wanted
    can = {*there} - kept and all(each.current for each in view.copies)
    return len(kept) + 1 if can else 0
