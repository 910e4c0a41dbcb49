# SPDX-License-Identifier: Apache-2.0
"""The guard of a server's own broker: it ends the connections of a node's key that floods.

Each scheduler guards the broker of its host, leading or not, on a connection of its own, so that no
flood stands before the guard's words. Owns that a flood is ended where it arrives, whatever it is
made of, and that everything ended is counted and told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stoker.mesh.broker import flood_access, kept_out_keys
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.connection import process_connection
from stoker.mesh.connection.broker_connection import BrokerConnection, ConnectionCallbacks
from stoker.mesh.connection.heard_subject import BrokerMessage
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.server.broker_complaints import BrokerComplaints
from stoker.mesh.server.flood_judge import (
    NS,
    BrokerTotals,
    ConnectionFigures,
    Cut,
    FloodJudge,
    KeptOut,
    Suspicion,
)
from stoker.mesh.server.node_door import TELL_NS
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry import ChangeRow
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog
from stoker.scheduler.figures import size as size_of

LOOK_S = 0.2
"""The pause between two looks at the totals."""
SHARE = 10
"""Looks at each connection take at most this part of the time."""
ANSWER_S = 2.0
RELOAD_S = 5.0
AGAIN_S = 2.0
"""The pause after a look that failed, as while the broker is away."""
PAGE = 512
"""The connections of one answer, which has about 300 kB then."""

log = structlog.get_logger("scheduler")


class _Amounts(msgspec.Struct):
    msgs: int = 0
    bytes: int = 0


class _Server(msgspec.Struct):
    id: str = ""


class _Statistics(msgspec.Struct):
    connections: int = 0
    subscriptions: int = 0
    received_from_clients: _Amounts = msgspec.field(default_factory=_Amounts)
    sent_to_clients: _Amounts = msgspec.field(default_factory=_Amounts)


class _StatisticsReply(msgspec.Struct):
    server: _Server
    statsz: _Statistics


class _Connection(msgspec.Struct):
    cid: int
    in_msgs: int = 0
    in_bytes: int = 0
    subscriptions: int = 0
    authorized_user: str = ""


class _Page(msgspec.Struct):
    total: int = 0
    connections: list[_Connection] = []


class _PageReply(msgspec.Struct):
    data: _Page


class _Client(msgspec.Struct):
    id: int = 0
    user: str = ""


class _Connected(msgspec.Struct):
    server: _Server
    client: _Client


_statistics = msgspec.json.Decoder(_StatisticsReply)
_pages = msgspec.json.Decoder(_PageReply)
_connects = msgspec.json.Decoder(_Connected)


class _Told:
    """The cuts of one node that are to be told."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.cuts = 0
        self.why = ""
        self.told_ns: int | None = None


class BrokerGuard:
    """The guard of the broker of this name; `state` is the folder of its host."""

    def __init__(self, state: Path, name: str, count: Callable[[str], None]) -> None:
        self.connection = BrokerConnection()
        self._state, self._name, self._count = state, name, count
        self._server = ""
        """The broker's id, which is another one after each start; empty while it is not known."""
        self._suspicion, self._judge, self._out = Suspicion(), FloodJudge(), KeptOut()
        self._complaints = BrokerComplaints(state / "log" / f"{BROKER}.log")
        self._next_ns = 0
        self._shut: frozenset[str] | None = None
        """The keys that the broker was told not to take; None if it was told nothing yet."""
        self._hurries = asyncio.Event()
        self._told: dict[str, _Told] = {}
        self._complaint = ""

    @property
    def callbacks(self) -> ConnectionCallbacks:
        """The functions that the connection calls."""
        return ConnectionCallbacks(self._on_error, self._lost, _nothing)

    async def run(self) -> None:
        """Connect, and guard the broker for ever."""
        named = "scheduler guard"
        await process_connection.begin(self.connection, self._state, named, self.callbacks)
        await self.guard()

    async def guard(self) -> None:
        """Guard the broker that is connected, for ever."""
        await self.connection.subscribe(flood_access.CONNECTED, cb=self._connected)
        while True:
            try:
                await self._look()
                await self._settle()
                self._complaint = ""
            except (StokerError, OSError, msgspec.MsgspecError) as error:
                self._complain(str(error) or repr(error))
                await asyncio.sleep(AGAIN_S)
            await self._pause()

    async def _pause(self) -> None:
        """Wait for LOOK_S, or until a key is to be shut out."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await self._hurries.wait()
        self._hurries.clear()

    def due(self, now_ns: int, real_ns: int) -> Iterator[ChangeRow]:
        """Yield the events about nodes whose connections were ended, as far as they are due."""
        for node, of in list(self._told.items()):
            if of.told_ns is not None and now_ns - of.told_ns < TELL_NS:
                continue
            if not of.cuts:
                del self._told[node]
                continue
            yield ChangeRow(t_ns=real_ns, what="node.flooded", node=node, reason=self._reason(of))
            of.cuts, of.told_ns = 0, now_ns

    def _reason(self, of: _Told) -> str:
        times = "a connection was cut" if of.cuts == 1 else f"{of.cuts} connections were cut"
        out = f"its key is kept out for {self._out.lasts_ns(of.key) // NS} s"
        return f"it sends more than a node may: {of.why}; {times}, and {out}"

    # --- looks ------------------------------------------------------------------------------------

    async def _look(self) -> None:
        totals, now_ns = await self._totals(), boot_ns()
        noisy = self._complaints.noisiest()
        suspicious = self._suspicion.arises(totals, now_ns) or noisy is not None
        if not suspicious or now_ns < self._next_ns:
            return
        found = await self._connections()
        self._suspicion.looked()
        nodes = await asyncio.to_thread(self._nodes)
        cuts = self._judge.judge(found, nodes, boot_ns())
        why = f"{size_of(self._complaints.grown)} of what it may not do in the broker's log at once"
        cuts += [
            Cut(each.number, each.key, why)
            for each in found
            if each.number == noisy and each.key in nodes and not cuts
        ]
        for cut in cuts:
            await self._cut(cut, subjects.name_of(nodes[cut.key]))
        self._next_ns = boot_ns() + SHARE * (boot_ns() - now_ns)

    async def _totals(self) -> BrokerTotals:
        subject = flood_access.service(flood_access.FIGURES, self._server or flood_access.ALL)
        named = {"server_name": self._name, "exact_match": True}
        data = await self.connection.request(subject, msgspec.json.encode(named), ANSWER_S)
        reply = _statistics.decode(data)
        self._server, now = reply.server.id, reply.statsz
        came, sent = now.received_from_clients, now.sent_to_clients
        return BrokerTotals(came.msgs, came.bytes, sent.msgs, now.connections, now.subscriptions)

    async def _connections(self) -> list[ConnectionFigures]:
        subject = flood_access.service(flood_access.CONNECTIONS, self._server)
        found: list[ConnectionFigures] = []
        at, total = 0, 1
        while at < total:
            asked = {"auth": True, "limit": PAGE, "offset": at}
            data = await self.connection.request(subject, msgspec.json.encode(asked), ANSWER_S)
            page = _pages.decode(data).data
            found += (
                ConnectionFigures(c.cid, c.authorized_user, c.in_msgs, c.in_bytes, c.subscriptions)
                for c in page.connections
            )
            at, total = at + PAGE, page.total
        return found

    def _nodes(self) -> dict[str, str]:
        """Return the nodes of the keys that the broker takes, as its configuration names them."""
        return kept_out_keys.nodes_of_keys(kept_out_keys.read(self._state))

    # --- cuts -------------------------------------------------------------------------------------

    async def _cut(self, cut: Cut, node: str) -> None:
        of = self._told.setdefault(node, _Told(cut.key))
        of.key, of.cuts, of.why = cut.key, of.cuts + 1, cut.why
        self._out.keep(cut.key, boot_ns())
        self._count("node_connection_cut")
        log.warning("a node floods its broker and is cut off", node=node, why=cut.why)
        await self._end(cut.number)

    async def _connected(self, message: BrokerMessage) -> None:
        try:
            told = _connects.decode(message.data)
        except msgspec.MsgspecError:
            self._count("connection_unreadable")
            return
        now_ns = boot_ns()
        if told.server.id == self._server and self._out.refuses(told.client.user, now_ns):
            self._count("node_connection_kept_out")
            await self._end(told.client.id)
            if self._out.shut(now_ns) != self._shut:
                self._hurries.set()

    async def _settle(self) -> None:
        """Have the broker take the keys that it is to take now, and no others."""
        shut = self._out.shut(boot_ns())
        if shut == self._shut:
            return
        if await asyncio.to_thread(kept_out_keys.write, self._state, shut):
            subject = flood_access.service(flood_access.RELOAD, self._server)
            await self.connection.request(subject, b"", RELOAD_S)
            self._count("node_keys_shut_out" if shut else "node_keys_let_in")
        self._shut = shut

    async def _end(self, number: int) -> None:
        """Have the broker end a connection. Nobody waits for its answer, without which it does not
        listen; a connection that goes on is judged again."""
        data = msgspec.json.encode({"cid": number})
        subject = flood_access.service(flood_access.CUT, self._server)
        await self.connection.publish(subject, data, self.connection.new_inbox())

    # --- the connection ---------------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        self._complain(str(error) or repr(error))

    async def _lost(self) -> None:
        """Forget the broker: the next one, or its next start, counts anew."""
        self._server, self._shut = "", None
        self._suspicion, self._judge = Suspicion(), FloodJudge()

    def _complain(self, why: str) -> None:
        self._count("guard_unanswered")
        if why != self._complaint:  # each reason is written once, however many looks there are
            log.warning("the broker's connections are not guarded", error=why)
        self._complaint = why


async def _nothing() -> None:
    """Do nothing: the next look asks the broker that is there."""
