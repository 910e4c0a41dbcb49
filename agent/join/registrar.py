# SPDX-License-Identifier: Apache-2.0
"""The registrar: the process that takes hosts into the cluster, where `cluster init` allows it.

It answers guests of the broker, and gives the cluster's tables to its other servers.
`agent/join/door.py` decides. Owns the order: a node is on disk
before its answer leaves, and the broker is told last, because nats-server 2.15 forgets at a reload
whom a connection may answer. It has no privileges; it may be killed at any moment, and the next one
tells the broker what it did not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import nats.errors
from nats.aio.msg import Msg

from stoker.agent.join import door, foundation, growth, key_revocation, mesh_keys
from stoker.agent.join.door import Admission, InUse, TurnedAway
from stoker.agent.join.mesh_keys import KeyProgress
from stoker.agent.state import gossip_files, joins, state_folder
from stoker.agent.state.state_folder import GUEST, REGISTRAR, ClusterFile, StateFolder
from stoker.agent.supervise import broker_setup, own_users, pids
from stoker.agent.supervise.supervisor import FOUNDED
from stoker.mesh.broker import broker_reload, revoked_keys
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.broker.revoked_keys import RevokedKey
from stoker.mesh.connection import process_connection
from stoker.mesh.connection.broker_connection import ConnectionCallbacks
from stoker.mesh.connection.local_connection import LocalConnection, send_now
from stoker.mesh.gossip import gossip_access
from stoker.mesh.identity import certificate, identity
from stoker.mesh.log import kept_log
from stoker.mesh.server import notify
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.wire import join_messages, server_tables, subjects
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native.errors import BadRequest, Denied, StokerError
from stoker.native.structured_log import structlog

PENDING_MAX = 64
"""The most requests that wait; further ones are dropped, and their senders ask again."""
LOOK_S = 0.25
"""The pause between two looks for nodes that were removed."""
KEYS_LOOK_S = 1.0
"""The pause between two looks at a change of the gossip keys."""
ASK_S = 1.0
"""The pause between two looks whether the servers run that an only server waits for."""
BACK_S = 60.0
"""An only server that has become the first of several is one again after this time without a log.
"""
PAUSE_S = 0.02
"""The pause after each answer: guests together cost no more than fifty answers a second."""
FAILED_EVERY_S = 1.0
"""The time between two lines of the log about errors of the connection."""

_log = structlog.get_logger("registrar")


class Registrar:
    """The registrar of one state folder, without its connection."""

    def __init__(self, where: StateFolder, cluster: ClusterFile) -> None:
        self._where = where
        self._cluster = cluster
        self._waited = not self.is_founded
        self._key = identity.load(where.key(REGISTRAR))
        self.counters: Counter[str] = Counter()
        self.untold = True
        """True if the broker may not know the newest node yet."""
        self._began_s = time.monotonic()
        self._asked_s = -ASK_S
        """The moment when the servers were asked last that an only server waits for."""
        self._grown_at = -1
        """The stamp of the joined nodes when the last server among them had been taken in."""

    @property
    def is_founded(self) -> bool:
        """True on the first of several servers, once all of them are there."""
        return self._cluster.several and not self._cluster.waits

    @property
    def waits(self) -> bool:
        """True on the first of several servers, until all of them are there."""
        return self._cluster.waits

    def _read_again(self) -> None:
        """Read the record of the cluster: `stoker cluster revoke` may have taken a server out."""
        self._cluster = state_folder.read_json(self._where.cluster, ClusterFile)

    def tell_broker(self) -> None:
        """Have the broker know the keys of all nodes; OSError if the disk does not take it."""
        where = self._where
        with state_folder.edit_lock(where):
            self._read_again()
            broker_setup.write_config(where, self._cluster, own_users.load(where))
        broker = pids.recorded(where).get(BROKER)
        if broker is not None:
            pids.send(broker, signal.SIGHUP)
        self.untold = False

    def settle_departures(self) -> None:
        """Take back the keys of nodes that were removed since; OSError as above."""
        for name in key_revocation.settle_departures(self._where):
            self._count("removed", node=name)
            self.untold = True

    def answer(self, data: bytes, now_s: int, node: str = "") -> bytes | None:
        """Return the answer to one message of a guest, or of a `node` that wants another key; None
        if it is no request at all."""
        try:
            request = join_messages.open_request(data)
        except (BadRequest, Denied) as error:
            kind = "forged" if isinstance(error, Denied) else "malformed"
            self._count(kind, error=error.message)
            return None
        try:
            granted = self._rotated(request, node, now_s) if node else self._granted(request, now_s)
            return join_messages.encode(granted)
        except TurnedAway as error:
            self._count(error.counter, token=request.token, error=error.message)
            return _refusal(request, error)
        except (StokerError, OSError) as error:  # a full disk, a damaged record
            self._count("failed", error=str(error))
            text = "the registrar cannot take nodes now: its log says why"
            return _refusal(request, StokerError(text, hint="Try again with the same token later"))

    def _granted(self, request: JoinRequest, now_s: int) -> JoinReply:
        with state_folder.edit_lock(self._where):
            self._read_again()
            known = joins.load(self._where.joins)
            admission = door.judge(request, known, self._in_use(), now_s)
            if admission.is_new:
                joins.save(self._where.joins, admission.joins)
                self.untold = True
        self._count("joined" if admission.is_new else "repeated", node=admission.node)
        return self._reply(request, admission)

    def found_if_due(self) -> bool:
        """Found the cluster if its last server has joined, or have an only server be the first of
        several once the others run, or an only one again; True if that was done since the start of
        the process, which then must give way to one that serves them. OSError as above."""
        if foundation.may_found(self._where, self._cluster):
            with state_folder.edit_lock(self._where):
                self._cluster = foundation.found(self._where, self._cluster)
            self._count("founded", servers=[each.node for each in self._cluster.servers])
        elif self._cluster.may_grow and time.monotonic() > self._asked_s + ASK_S:
            self._be_first_if_due()
            self._asked_s = time.monotonic()
        elif not self._waited and kept_log.is_open(self._where.nats):
            self._be_alone_if_due()
        return self._waited is self.is_founded

    def _be_first_if_due(self) -> None:
        """Have an only server be the first of several, once the others are there."""
        where = self._where
        if not growth.has_joined(where, self._cluster) or growth.pause_s(where, time.time()):
            return
        if not growth.others_run(where, self._cluster):
            return
        with state_folder.edit_lock(where):
            self._read_again()
            if growth.has_joined(where, self._cluster):
                self._cluster = growth.grow(where, self._cluster)
                self._count("grown", servers=[each.node for each in self._cluster.servers])

    def _be_alone_if_due(self) -> None:
        """Have the first of several be an only server again, whose brokers have not found each
        other for so long that its scheduler has no log yet."""
        if time.monotonic() < self._began_s + BACK_S and not kept_log.is_taken(self._where.nats):
            return
        with state_folder.edit_lock(self._where):
            self._read_again()
            self._cluster = growth.be_alone_again(self._where, self._cluster)
        if not self._cluster.several:
            self._count("alone_again")

    def grow_if_due(self) -> None:
        """Take servers in that joined since the founding; OSError as above."""
        stamp = _stamp(self._where.joins)
        if stamp == self._grown_at:
            return
        with state_folder.edit_lock(self._where):
            self._read_again()
            is_due = growth.is_due(self._where, self._cluster)
            if is_due:
                self._cluster = growth.grow(self._where, self._cluster)
        if is_due:
            self._tell_of_servers()
        self._grown_at = stamp

    def _tell_of_servers(self) -> None:
        """Have the broker let in those that were taken in, whose owners are new users."""
        self._count("grown", servers=[each.node for each in self._cluster.servers])
        broker = pids.recorded(self._where).get(BROKER)
        if broker is not None:
            broker_reload.add_account(broker.pid, self._where.log / f"{BROKER}.log")

    def tables(self, data: bytes) -> bytes | None:
        """Return the answer to a server that requests the tables; None if it is no request."""
        try:
            request = server_tables.open_request(data)
            self._read_again()
            found = foundation.tables(self._where, self._cluster)
            given = None if server_tables.digest(found) == request.have else found
            return server_tables.seal(given, request.nonce, self._key)
        except (StokerError, OSError) as error:
            self._count("tables_failed", error=str(error))
            return None

    def _rotated(self, request: JoinRequest, node: str, now_s: int) -> JoinReply:
        """Take another key of a node, or give its former one up."""
        with state_folder.edit_lock(self._where):
            known = joins.load(self._where.joins)
            admission = door.judge_rotation(request, node, known, self._in_use())
            if admission.is_new:
                if request.token == request.agent:
                    self._note_former(node, known.nodes[node].former, now_s)
                joins.save(self._where.joins, admission.joins)
                self.untold = True
        self._count("rotated" if admission.is_new else "repeated", node=node)
        return self._reply(request, admission)

    def _note_former(self, node: str, former: str, now_s: int) -> None:
        row = RevokedKey("node", node, now_s, "the node has another key since")
        rows = revoked_keys.load(self._where.revoked)
        revoked_keys.save(self._where.revoked, revoked_keys.with_key(rows, former, row))

    def _in_use(self) -> InUse:
        where = self._where
        others = (*state_folder.IDENTITIES, REGISTRAR, GUEST)
        own = {identity.load(where.key(name)).public for name in others}
        users = {user.public_key for user in own_users.load(where).values()}
        revoked = revoked_keys.load(where.revoked)
        servers = (*self._cluster.servers, *foundation.entering(where, self._cluster))
        keys = {key for each in servers for key in each.keys}
        taken = {*own, *users, *keys, *self._cluster.scheduler_keys, *revoked}
        doors = {door for each in servers for door in each.doors}
        return InUse({self._cluster.node}, taken, growth.room(where, self._cluster), doors)

    def _reply(self, request: JoinRequest, admission: Admission) -> JoinReply:
        cluster = self._cluster
        own = certificate.read(self._where.broker_certificate).decode()
        others = [each.certificate for each in cluster.servers[1:]]
        return JoinReply(
            join_messages.FORMAT,
            request.nonce,
            admission.node,
            cluster.cluster,
            cluster.scheduler_keys,
            (cluster.url, *cluster.brokers),
            certificates=(own, *others),
            first=cluster.servers[0] if request.server is not None else None,
            wanted=growth.count(self._where, cluster),
            gossip=self._gossip(request.agent),
        )

    def _gossip(self, agent: str) -> bytes:
        """Return the access to the gossip mesh for the host of this agent; empty without one."""
        if not gossip_files.file(self._where).exists():
            return b""
        return gossip_access.seal(gossip_files.load(self._where), agent)

    def _count(self, kind: str, **fields: object) -> None:
        """Count an answer and log it; the public half of a token's key says which token it was."""
        self.counters[kind] += 1
        _log.info("join request", result=kind, so_far=self.counters[kind], **fields)


def _refusal(request: JoinRequest, error: StokerError) -> bytes:
    reply = JoinReply(join_messages.FORMAT, request.nonce, refused=error.message, hint=error.hint)
    return join_messages.encode(reply)


class RegistrarDaemon:
    """One registrar with its connection; `run` ends after `stop`."""

    def __init__(self, where: StateFolder) -> None:
        self._where = where
        self._registrar = Registrar(where, state_folder.load_made_here(where))
        self._connection = LocalConnection()
        self._failed_s = -FAILED_EVERY_S
        """The moment when an error of the connection was logged last; all are counted."""
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Serve guests until `stop`."""
        serving = asyncio.ensure_future(self._serve())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()  # a state folder that cannot be used ends the registrar by name
            await stopping
        serving.cancel()
        notify.stopping()
        await self._connection.close()

    async def _serve(self) -> None:
        """Serve: nats-py calls `_answer` for one message after the other; keys are taken back."""
        connection = self._connection
        callbacks = ConnectionCallbacks(self._failed, self._nothing, self._nothing)
        await process_connection.connect(
            connection, self._where.root, "stoker registrar", callbacks, identity=REGISTRAR
        )
        await connection.subscribe(
            subjects.JOIN_NODE, cb=self._answer, pending_msgs_limit=PENDING_MAX
        )
        await connection.subscribe(
            subjects.EVERY_ROTATION, cb=self._answer, pending_msgs_limit=PENDING_MAX
        )
        await connection.subscribe(
            subjects.SERVER_TABLES, cb=self._give_tables, pending_msgs_limit=PENDING_MAX
        )
        await self._settle()
        notify.ready("ok: hosts with a join token may join")
        if not self._registrar.waits:
            notify.status(FOUNDED)  # an earlier registrar may have ended before it said so
        keys = asyncio.ensure_future(self._change_keys())
        try:
            await self._look()
        finally:
            keys.cancel()

    async def _look(self) -> None:
        """Look for servers and for nodes that were removed, for ever."""
        stamp = -1
        while True:
            await self._found()
            now = _stamp(self._where.departures)
            if (now != stamp or self._registrar.untold) and await self._settle():
                stamp = now
            await asyncio.sleep(LOOK_S)

    async def _change_keys(self) -> None:
        """Bring a change of the gossip keys on, for ever; who lacks keys is logged once."""
        told: object = None
        while True:
            await asyncio.sleep(KEYS_LOOK_S)
            if not mesh_keys.file(self._where).exists():
                continue
            try:
                found = await mesh_keys.advance(self._where)
                state: object = (found.change, found.lacking)
            except (StokerError, OSError) as error:
                found, state = KeyProgress(None), str(error)
            if state != told:
                told = state
                step = found.change.step if found.change is not None else ""
                trouble = state if isinstance(state, str) else ""
                _log.info("gossip keys", step=step, lacking=found.lacking, error=trouble)

    async def _found(self) -> None:
        """Found the cluster once it is complete, and tell the supervisor, until it ends this; take
        in a server that joins later."""
        try:
            if await asyncio.to_thread(self._registrar.found_if_due):
                notify.status(FOUNDED)
            await asyncio.to_thread(self._registrar.grow_if_due)
        except (StokerError, OSError) as error:
            _log.error("the cluster does not have its servers yet", error=str(error))

    async def _give_tables(self, message: Msg) -> None:
        reply = await asyncio.to_thread(self._registrar.tables, message.data)
        if reply is not None and message.reply:
            await message.respond(reply)

    async def _settle(self) -> bool:
        """Take back the keys of removed nodes; False if the next look must try again."""
        try:
            await asyncio.to_thread(self._registrar.settle_departures)
        except (StokerError, OSError) as error:
            _log.error("the keys of removed nodes are not taken back yet", error=str(error))
            return False
        await self._tell()
        return not self._registrar.untold

    async def _answer(self, message: Msg) -> None:
        is_guest = message.subject == subjects.JOIN_NODE
        node = "" if is_guest else subjects.parse_rotation(message.subject)
        now_s = int(time.time())
        reply = await asyncio.to_thread(self._registrar.answer, message.data, now_s, node)
        if reply is not None and message.reply:
            await message.respond(reply)
        await self._tell()
        await asyncio.sleep(PAUSE_S)

    async def _tell(self) -> None:
        """Tell the broker, after it has every answer; a full disk is tried at the next request."""
        if not self._registrar.untold:
            return
        try:
            send_now(self._connection)  # the PING of `flush` would overtake what nats-py holds
            await self._connection.flush()
            await asyncio.to_thread(self._registrar.tell_broker)
        except (StokerError, nats.errors.Error, OSError, TimeoutError) as error:
            _log.error("the broker is not told of a new node yet", error=str(error) or repr(error))

    async def _failed(self, error: Exception) -> None:
        self._registrar.counters["connection_errors"] += 1
        if time.monotonic() - self._failed_s < FAILED_EVERY_S:
            return  # a flood of requests is an error for each that is dropped
        self._failed_s = time.monotonic()
        _log.warning("broker", error=str(error) or repr(error))

    async def _nothing(self) -> None:
        """nats-py connects again by itself."""


def _stamp(path: Path) -> int:
    """Return what changes with a file; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


async def _serve(where: StateFolder) -> None:
    daemon = RegistrarDaemon(where)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    _log.info("registrar starts", pid=os.getpid())
    await daemon.run()
    _log.info("registrar ends")


def main() -> int:
    """Return 0 after a signal, 2 or 3 if the state folder cannot be used."""
    parser = argparse.ArgumentParser(prog="stoker-registrar", description=__doc__.split("\n")[0])
    parser.add_argument("--state", help="state folder of the node")
    option = parser.parse_args().state
    configure_logging()
    try:
        asyncio.run(_serve(state_folder.locate(option)))
    except StokerError as error:
        _log.error("registrar cannot start", error=error.message, hint=error.hint)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
