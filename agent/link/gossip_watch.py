# SPDX-License-Identifier: Apache-2.0
"""The agent's view of the gossip mesh: its members, and whether this host has the mesh's keys.

Owns that what it says of a member is what the Serf agent of this host says at that moment: a Serf
agent that is stopped or gone says nothing. Keys come from the registrar whenever those of another
member differ; the supervisor then starts the Serf agent again with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.link import member_list
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.state import gossip_files
from stoker.agent.state.gossip_files import SERF
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.gossip import gossip_access, membership
from stoker.mesh.gossip.membership import ALIVE, FAILED, MemberChange, Membership
from stoker.mesh.gossip.serf_client import SerfClient
from stoker.mesh.gossip.serf_config import KEYS_TAG
from stoker.mesh.gossip.serf_records import SerfEvent
from stoker.mesh.identity import identity
from stoker.mesh.server import notify
from stoker.mesh.wire import join_messages, subjects
from stoker.mesh.wire.join_messages import JoinRequest
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

AGAIN_S = 1.0
"""The pause before another try to reach the Serf agent."""
LOOK_S = 2.0
"""The pause between two looks at the keys; members are heard of at once."""
READ_AGAIN_S = 60.0
"""The whole list of members is read so often, in case an event was lost."""
FETCH_AGAIN_S = 5.0
"""The least time between two requests for the keys."""
STATE_S = 1.0
"""The longest wait for a member's state, which a scheduler waits for."""
FETCH_S = 5.0

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_log = structlog.get_logger("gossip")


class GossipWatch:
    """The members of the mesh as the agent of one host knows them."""

    def __init__(self, setting: AgentSettings, link: AgentConnection) -> None:
        self._setting = setting
        self._link = link
        self.members = Membership("the agent has just begun")
        self.counters: Counter[str] = Counter()
        self._client: SerfClient | None = None
        self._unwritten = False
        """True if members have changed since they were written down."""
        self._fetched_s = -FETCH_AGAIN_S
        self._read_s = 0.0
        self._kept = (0, 0), ""
        """(inode and time of the file of this host's keys, their digests), as last read."""
        seen = member_list.read_seen(setting.state).items()
        self._seen = {name: (each.state, each.since_s) for name, each in seen}
        """The states that an earlier agent knew, until the first list is read."""

    async def state(self, name: str) -> str:
        """Return a member's state as the Serf agent holds it now; empty if it does not say."""
        client = self._client
        if client is None or not self.members.state(name) or not _NAME.fullmatch(name):
            return ""
        try:
            found = await client.members_filtered(name, timeout_s=STATE_S)
        except StokerError:
            self.counters["gossip_silent"] += 1
            return ""
        return next((each.status for each in found if each.name == name), "")

    async def run(self) -> None:
        """Follow the Serf agent of this host for ever."""
        while True:
            try:
                await self._follow()
            except (StokerError, OSError) as error:
                self._lost(str(getattr(error, "message", error)))
            await asyncio.sleep(AGAIN_S if self._takes_part() else READ_AGAIN_S)

    def _takes_part(self) -> bool:
        return gossip_files.file(self._setting.state).exists()

    def _lost(self, why: str) -> None:
        if why != self.members.absent:
            _log.warning("no gossip", error=why)
        self._seen = {row.name: (row.state, row.since_s) for row in self.members.rows.values()}
        self.members.lost(why)

    async def _follow(self) -> None:
        """Follow one connection until it ends, which raises an error."""
        setting = self._setting
        if absence := gossip_files.absence(setting.state, setting.cluster):
            self._lost(absence)
            return
        rpc = gossip_files.rpc(setting.state)
        client = await SerfClient.open(LOOPBACK, rpc.port, rpc.key)
        reading: asyncio.Task[None] | None = None
        try:
            events = await client.stream(membership.EVENTS)
            await self._read(client)
            self._client = client
            _log.info("gossip is followed", members=len(self.members.rows))
            reading = asyncio.ensure_future(self._events(events))
            while not (await asyncio.wait((reading,), timeout=LOOK_S))[0]:
                await self._look(client)
            reading.result()
        finally:
            self._client = None
            if reading is not None:
                reading.cancel()
            await client.close()

    async def _events(self, events: AsyncIterator[SerfEvent]) -> None:
        async for event in events:
            self._note(self.members.follow(event, time.time()))

    async def _read(self, client: SerfClient) -> None:
        listed = await client.members()
        self._note(self.members.read(listed, time.time(), self._seen))
        self._seen = {}
        self._read_s = time.monotonic()

    def _note(self, changes: list[MemberChange]) -> None:
        """Count and log what changed; the next look writes it down."""
        self._unwritten = self._unwritten or bool(changes)
        for change in changes:
            if change.state == FAILED:
                self.counters["gossip_failed"] += 1
            if change.before or change.state != ALIVE:
                _log.info("a member changed", node=change.name, was=change.before, now=change.state)

    # --- what is looked at now and then -----------------------------------------------------------

    async def _look(self, client: SerfClient) -> None:
        if time.monotonic() - self._read_s >= READ_AGAIN_S:
            await self._read(client)
        if self._unwritten:
            self._unwritten = False
            rows = dict(self.members.rows)
            await asyncio.to_thread(member_list.write_seen, self._setting.state, rows)
        await self._look_at_keys()

    async def _look_at_keys(self) -> None:
        """Have the Serf agent use this host's keys, and this host those of the others."""
        setting, own = self._setting, self._digests(self._setting.node)
        kept = self._kept_keys()
        if own and own != kept:
            notify.status(f"{SERF}-restart: its keys are {own}, this host's are {kept}")
        if setting.cluster.is_first or time.monotonic() - self._fetched_s < FETCH_AGAIN_S:
            return
        alone = not self.members.others_alive(setting.node)
        if alone or any(self._digests(name) not in ("", kept) for name in self._alive()):
            self._fetched_s = time.monotonic()
            with contextlib.suppress(StokerError):  # the registrar is away: later
                await self._fetch()

    def _kept_keys(self) -> str:
        """Return the digests of this host's keys; its file is read again when it is another."""
        try:
            info = gossip_files.file(self._setting.state).stat()
            stamp = info.st_ino, info.st_mtime_ns
        except FileNotFoundError:
            stamp = 0, 0
        if stamp == (0, 0) or stamp != self._kept[0]:
            self._kept = stamp, gossip_files.load(self._setting.state).digests
        return self._kept[1]

    def _alive(self) -> list[str]:
        return [name for name, row in self.members.rows.items() if row.state == ALIVE]

    def _digests(self, name: str) -> str:
        row = self.members.rows.get(name)
        return dict(row.tags).get(KEYS_TAG, "") if row is not None else ""

    async def _fetch(self) -> None:
        """Request the keys of the registrar, as this node, and keep them if they are others."""
        setting = self._setting
        own = identity.load(setting.state.key("agent"))
        nonce = secrets.token_bytes(join_messages.NONCE_BYTES)
        request = JoinRequest(join_messages.FORMAT, own.public, setting.node, own.public, nonce)
        data = join_messages.seal(request, own, own)
        answer = await self._link.request(subjects.rotation(setting.node), data, FETCH_S)
        reply = join_messages.open_reply(answer, nonce)
        if reply.refused or not reply.gossip:
            return
        access = gossip_access.unseal(reply.gossip, own)
        if access != gossip_files.load(setting.state):
            gossip_files.store(setting.state, access)
            self.counters["gossip_keys_taken"] += 1
            _log.info("gossip keys are taken", keys=access.digests)
