# SPDX-License-Identifier: Apache-2.0
"""The copier: the process that keeps the tables of a server like those of the first server.

Users, nodes that joined and revoked keys are changed on the first server alone. The copiers of the
others request them once a second, at the first server's broker. Owns that a broker never has older
tables than its folder: the files are written before the broker is told, and it is told again after
a copier that ended between the two. While the first server is away, everything stays as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import sys
from pathlib import Path

import nats
import nats.errors
from nats.aio.client import Client

from stoker.agent.join import foundation
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import REGISTRAR, StateFolder
from stoker.agent.supervise import broker_setup, own_users, pids
from stoker.agent.supervise.supervisor import FOUNDED
from stoker.mesh.broker import broker_reload
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.identity import certificate
from stoker.mesh.identity.identity import Verifier
from stoker.mesh.server import notify
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.wire import server_tables, subjects
from stoker.mesh.wire.server_tables import ServerTables, TablesRequest
from stoker.native.errors import StokerError, Unavailable
from stoker.native.structured_log import structlog

LOOK_S = 0.5
"""The pause between two requests for the tables."""
CONNECT_S = 3.0
ANSWER_S = 3.0

_log = structlog.get_logger("copier")


class TableCopier:
    """The copier of one state folder; `run` ends when it is cancelled."""

    def __init__(self, where: StateFolder) -> None:
        self._where = where
        self._cluster = state_folder.load(where)
        self._first = Verifier(self._cluster.servers[0].registrar)
        self._have = b""
        self._trouble = ""

    async def run(self) -> None:
        """Follow the first server, and connect again whenever that fails."""
        notify.ready("ok: the tables of the first server are followed")
        if not self._cluster.waits:
            notify.status(FOUNDED)
        while True:
            try:
                await self._follow()
            except (StokerError, nats.errors.Error, OSError, TimeoutError) as error:
                self._note(str(error) or repr(error))
            await asyncio.sleep(LOOK_S)

    async def _follow(self) -> None:
        """Request the tables for as long as the connection lasts."""
        connection = await self._connect()
        try:
            while True:
                await self._look(connection)
                self._note("")
                await asyncio.sleep(LOOK_S)
        finally:
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                await connection.close()

    async def _connect(self) -> Client:
        return await nats.connect(
            self._cluster.servers[0].url,
            name="stoker copier",
            nkeys_seed=str(self._where.key(REGISTRAR)),
            inbox_prefix=subjects.inbox("registrar").encode(),
            allow_reconnect=False,
            connect_timeout=int(CONNECT_S),
            error_cb=_ignore,
            **certificate.connecting(self._where.broker_pins),
        )

    async def _look(self, connection: Client) -> None:
        nonce = secrets.token_bytes(server_tables.NONCE_BYTES)
        request = TablesRequest(server_tables.FORMAT, nonce, self._have)
        asked = server_tables.encode_request(request)
        try:
            message = await connection.request(subjects.SERVER_TABLES, asked, timeout=ANSWER_S)
        except nats.errors.NoRespondersError:
            raise Unavailable("the registrar of the first server does not run") from None
        found = server_tables.open_answer(message.data, nonce, self._first)
        if found is not None:
            await asyncio.to_thread(self._take, found)
            self._have = server_tables.digest(found)

    def _take(self, found: ServerTables) -> None:
        """Write tables down and have the broker know them."""
        where, waited = self._where, self._cluster.waits
        with state_folder.edit_lock(where):
            self._cluster = foundation.take(where, self._cluster, found)
            if not self._cluster.waits:
                broker_setup.write_config(where, self._cluster, own_users.load(where))
        if self._cluster.waits:
            _log.info("servers are missing", here=len(found.servers), wanted=found.wanted)
        elif waited:
            _log.info("the cluster is founded", servers=[each.node for each in found.servers])
            notify.status(FOUNDED)
        else:
            self._tell_broker()
            _log.info("the first server's tables are in force here")

    def _tell_broker(self) -> None:
        """Have the broker take its configuration; one that does not run reads it at its start."""
        broker = pids.recorded(self._where).get(BROKER)
        if broker is not None:
            broker_reload.add_account(broker.pid, self._where.log / f"{BROKER}.log")

    def _note(self, trouble: str) -> None:
        """Log a trouble once, and that it is over."""
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                _log.warning("the tables of the first server are not read", error=trouble)
            else:
                _log.info("the tables of the first server are read")


async def _ignore(error: Exception) -> None:
    """Ignore errors of the connection, since each shows in its request."""


async def _serve(where: StateFolder) -> None:
    copier = asyncio.ensure_future(TableCopier(where).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, copier.cancel)
    _log.info("copier starts", pid=os.getpid())
    with contextlib.suppress(asyncio.CancelledError):
        await copier
    notify.stopping()


def main() -> int:
    """Return 0 after a signal, 2 or 3 if the state folder cannot be used."""
    parser = argparse.ArgumentParser(prog="stoker-copier", description=__doc__.split("\n")[0])
    parser.add_argument("--state", type=Path, help="state folder of the server")
    option = parser.parse_args().state
    configure_logging()
    try:
        asyncio.run(_serve(state_folder.locate(option)))
    except StokerError as error:
        _log.error("copier cannot start", error=error.message, hint=error.hint)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
