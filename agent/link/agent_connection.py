# SPDX-License-Identifier: Apache-2.0
"""One connection of the agent to a broker, restored whenever it is lost.

The settings replace nats-py's defaults, which repeat timed-out publishes and notice a dead peer
only after minutes. No message can end the agent: a failing callback is logged and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.identity import certificate
from stoker.native.errors import Denied, StokerError, Unavailable
from stoker.native.structured_log import structlog

CONNECT_S = 3
PING_S = 1
RETRY_FIRST_S, RETRY_MAX_S = 0.05, 1.0
LOOK_S = 1.0
"""A connection that is closed without a word is noticed after this time."""

_log = structlog.get_logger("link")

MessageHandler = Callable[[Msg], None]
"""Called in the loop with each message of a subject; must return at once."""


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
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._denied = ""
        self.on_up: Callable[[], None] = lambda: None
        self.on_down: Callable[[], None] = lambda: None
        self.counters: Counter[str] = Counter()

    @property
    def connected(self) -> bool:
        """True if messages can be sent now."""
        return self._client is not None

    async def run(self) -> None:
        """Connect, serve, and connect again after a loss; ends only when cancelled."""
        wait = RETRY_FIRST_S
        while True:
            try:
                client = await self._connect()
            except (StokerError, nats.errors.Error, OSError, TimeoutError) as error:
                self.counters["connect_failed"] += 1
                if wait == RETRY_FIRST_S:
                    text = str(error) or repr(error)
                    _log.warning("no broker", connection=self._name, error=text)
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(wait * 2, RETRY_MAX_S)
                continue
            wait = RETRY_FIRST_S
            try:
                await self._serve(client)
            finally:
                self._client = None
                await _close(client)

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        """Return the answer to one request; Unavailable or Denied with the known reason."""
        client = self._client
        if client is None:
            raise Unavailable("the broker is not connected")
        try:
            reply = await client.request(subject, payload, timeout=timeout_s)
        except nats.errors.NoRespondersError:
            raise Unavailable("no scheduler listens") from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            if subject in self._denied:
                raise Denied(f"the broker does not let this node publish {subject}") from None
            raise Unavailable(f"no answer within {timeout_s:g} s ({error!r})") from None
        return reply.data

    def publish(self, subject: str, payload: bytes) -> bool:
        """Send without an answer; False, and counted, if it cannot be sent."""
        client = self._client
        if client is None:
            self.counters["publish_dropped"] += 1
            return False
        task = asyncio.ensure_future(client.publish(subject, payload))
        task.add_done_callback(self._published)
        return True

    def _published(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.counters["publish_failed"] += 1

    def _next_address(self) -> str:
        """Return the address that follows that of the last try, so that a broker which takes
        connections and says nothing delays no more than one try."""
        addresses = self._where()
        self.address = addresses[self._tries % len(addresses)]
        self._tries += 1
        return self.address

    async def _connect(self) -> Client:
        client = LocalConnection() if self._pinned is None else Client()
        secured = {} if self._pinned is None else certificate.connecting(self._pinned)
        self._lost, self._denied = asyncio.Event(), ""
        await client.connect(
            self._next_address(),
            name=f"stoker agent {self._name}",
            nkeys_seed=str(self._seed),
            inbox_prefix=self._inbox.encode(),
            allow_reconnect=False,  # `run` reconnects: the port may have changed
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            ping_interval=PING_S,
            max_outstanding_pings=2,
            pending_size=-1,
            error_cb=self._error,
            closed_cb=self._ended,
            disconnected_cb=self._ended,
            **secured,
        )
        if isinstance(client, LocalConnection):
            client.check_proven()
        return client

    async def _serve(self, client: Client) -> None:
        try:
            for subject, handle in self._subjects.items():
                await client.subscribe(subject, cb=self._callback(handle))
            await client.flush(timeout=CONNECT_S)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            _log.warning("could not subscribe", connection=self._name, error=repr(error))
            return
        self._client = client
        _log.info("connected", connection=self._name)
        self.on_up()
        try:
            await self._until_lost(client)
        finally:
            self._client = None
            self.on_down()

    async def _until_lost(self, client: Client) -> None:
        """Wait until the connection is lost. A client that waits for its peer while it closes calls
        nobody back, so it is looked at as well."""
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._lost.wait()
            if client.is_closed and not self._lost.is_set():
                self.counters["link_errors"] += 1
                _log.warning("the connection is closed", connection=self._name)
                return

    def _callback(self, handle: MessageHandler) -> Callable[[Msg], Awaitable[None]]:
        async def callback(message: Msg) -> None:
            try:
                handle(message)
            except Exception as error:
                self.counters["message_failed"] += 1
                _log.exception("a message could not be handled", error=str(error))

        return callback

    async def _error(self, error: Exception) -> None:
        text = str(error) or repr(error)
        self.counters["link_errors"] += 1
        if "permissions violation" in text.lower():
            self._denied = text[:500]  # the sender sees only a timeout
        _log.warning("broker", connection=self._name, error=text[:500])

    async def _ended(self) -> None:
        self._lost.set()


async def _close(client: Client) -> None:
    try:
        async with asyncio.timeout(CONNECT_S):
            await client.close()
    except (nats.errors.Error, OSError, TimeoutError):
        pass  # the connection is gone already
