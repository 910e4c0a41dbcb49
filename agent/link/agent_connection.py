# SPDX-License-Identifier: Apache-2.0
"""One connection of the agent to a broker, restored whenever it is lost.

A dead peer is noticed after seconds. No message can end the agent: a failing callback is logged and
counted.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stoker.agent.link.agent_client import AgentClient, MessageHandler
from stoker.mesh.connection import broker_session
from stoker.mesh.identity import identity
from stoker.native.errors import StokerError, Unavailable
from stoker.native.structured_log import structlog

CONNECT_S = 3
RETRY_FIRST_S, RETRY_MAX_S = 0.05, 1.0

_log = structlog.get_logger("link")


class AgentConnection:
    """A connection that restores itself. Each try takes the next of the addresses that `where`
    returns, of which there is always one.

    A broker proves itself by the certificate `pinned`. Without one it must be on this host and run
    as this process's user.
    """

    def __init__(
        self,
        name: str,
        where: Callable[[], Sequence[str]],
        seed: Path,
        inbox: str,
        subjects: Mapping[str, MessageHandler],
        *,
        pinned: Path | None = None,
    ) -> None:
        self._name = name
        self._where = where
        self._seed = seed
        self._inbox = inbox
        self._subjects = subjects
        self._pinned = pinned
        self._tries = 0
        self.address = ""
        """The address of the last try."""
        self._client: AgentClient | None = None
        self.on_up: Callable[[], None] = lambda: None
        self.on_down: Callable[[], None] = lambda: None
        self.counters: Counter[str] = Counter()

    @property
    def connected(self) -> bool:
        """True if messages can be sent now."""
        return self._client is not None and self._client.live

    async def run(self) -> None:
        """Connect, serve, and connect again after a loss; ends only when cancelled."""
        wait, told = RETRY_FIRST_S, ""
        while True:
            try:
                client = await self._connect()
            except (StokerError, OSError, TimeoutError) as error:
                self.counters["connect_failed"] += 1
                why = str(error) or repr(error)
                if why != told:  # each reason is written once, however many tries there are
                    _log.warning("no broker", connection=self._name, error=why)
                told = why
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, RETRY_MAX_S)
                continue
            wait, told = RETRY_FIRST_S, ""
            await self._serve(client)

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        """Return the answer to one request; Unavailable or Denied with the known reason."""
        client = self._client
        if client is None:
            raise Unavailable("the broker is not connected")
        return await client.request(subject, payload, timeout_s)

    def publish(self, subject: str, payload: bytes) -> bool:
        """Send without an answer; False, and counted, if it cannot be sent."""
        client = self._client
        if client is None:
            self.counters["publish_dropped"] += 1
            return False
        return client.publish(subject, payload)

    def _next_address(self) -> str:
        """Return the address that follows that of the last try, so that a broker which takes
        connections and says nothing delays no more than one try."""
        addresses = self._where()
        self.address = addresses[self._tries % len(addresses)]
        self._tries += 1
        return self.address

    async def _connect(self) -> AgentClient:
        client = AgentClient(
            identity.load(self._seed),
            self._name,
            self._inbox,
            self._subjects,
            self.counters,
            pinned=self._pinned is not None,
        )
        await broker_session.begin(client, self._next_address(), self._pinned, CONNECT_S)
        return client

    async def _serve(self, client: AgentClient) -> None:
        self._client = client
        _log.info("connected", connection=self._name)
        try:
            self.on_up()
            await client.lost
        finally:
            self._client = None
            await client.close()
            self.on_down()
