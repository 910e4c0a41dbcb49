# SPDX-License-Identifier: Apache-2.0
"""The server of the metrics page and of the probes `/livez` and `/readyz`.

It has a thread and a loop of its own, so that a probe is answered while the agent's loop hangs, and
says so. Invariant: whatever clients do costs the agent no more than the limits below: slow clients,
floods of connections and requests that are none are cut off and counted.

A client on this host is known by the owner of its socket. Root, the node's own user and the readers
of config.toml see the series of all jobs, another user those of his own, and others none.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from stoker.agent.export import metrics_page
from stoker.agent.export.metrics_page import EVERYBODY, NOBODY, PageSource
from stoker.agent.export.node_metrics import NodeReading
from stoker.agent.export.page_request import Answer, PageRequest, RequestReader
from stoker.agent.state.metrics_config import Listener, Serving
from stoker.mesh.connection.socket_owner import owner
from stoker.native.structured_log import structlog
from stoker.probes.otlp.prometheus_text import CONTENT_TYPES, Form

CONNECTIONS_MAX = 16
"""The most connections at a time; further ones wait in the kernel."""
PEER_CONNECTIONS_MAX = 4
"""The most connections of one user, or of one other host."""
BACKLOG = 16
ACCEPTS_A_SECOND = 50
"""The most connections that are taken in a second, however many there are."""
REQUEST_S = 5.0
"""Seconds in which a client has to send its request, and again to take the answer."""
LINGER_S, LINGER_BYTES = 0.5, 64 * 1024
"""The time for which, and the bytes up to which, a client is read that was answered before it had
sent all: with a connection that is closed at once its answer would be lost."""
AGENT_S = 2.0
"""Seconds in which the agent's loop has to answer; later, it does not live."""
FRESH_S = 1.0
"""The age up to which a page is given again, so that many readers cost as much as one."""
READERS_KEPT = 16
"""The most pages of one reading."""
OVERFLOW_UID = 65534
"""The user `nobody`, as whom root's jobs run and many a service: it is no one person."""
AGAIN_S = 5.0
"""Seconds between two tries to listen where another process does."""

_T = TypeVar("_T")
_log = structlog.get_logger("metrics")


class PageServer:
    """The server of one agent; made and started in the agent's loop.

    `read` returns the node's readings and `checks` why each part does not work that jobs need, both
    in the agent's loop. `tell` takes where the page is.
    """

    def __init__(
        self,
        listener: Listener,
        source: PageSource,
        *,
        read: Callable[[], Awaitable[NodeReading]],
        checks: Callable[[], Mapping[str, str]],
        readers: frozenset[int] | None,
        tell: Callable[[Serving], None],
    ) -> None:
        """`readers`: users who see the jobs of all; None: everybody who can connect does."""
        self._listener, self._source = listener, source
        self._read, self._checks, self._tell = read, checks, tell
        self._readers = readers if readers is None else readers | {0, os.geteuid()}
        self._agent = asyncio.get_running_loop()
        self._pages = _Pages(source)
        self._peers: Counter[object] = Counter()
        self._connections: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[None] | None = None
        self._why = ""
        self.counters: Counter[str] = Counter(page_served=0)
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving; waits for no client."""
        loop, work = self._loop, self._work
        if loop is not None and work is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(work.cancel)
            self._thread.join(REQUEST_S)

    # --- in the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._work = asyncio.get_running_loop(), asyncio.current_task()
        while True:
            try:
                listener = listen(self._listener)
            except OSError as error:
                self._refused(error)
                await asyncio.sleep(AGAIN_S)
                continue
            with listener:
                host, port = listener.getsockname()[:2]
                self._why = ""
                self._tell(Serving(address=str(Listener(host, port))))
                _log.info("metrics are served", address=str(Listener(host, port)))
                await self._accept(listener)

    def _refused(self, error: OSError) -> None:
        """Say once why there is no page."""
        why = f"no metrics page: {self._listener} cannot be had: {error.strerror}"
        if why != self._why:
            self._why = why
            self._tell(Serving(why=why))
            _log.warning(why)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if len(self._connections) >= CONNECTIONS_MAX:
                await asyncio.wait(self._connections, return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                client, address = await loop.sock_accept(listener)
            except OSError as error:  # no descriptors are left
                self.counters["page_accept_failed"] += 1
                _log.warning("no connection could be taken", error=error.strerror)
                await asyncio.sleep(1)
                continue
            client.setblocking(False)
            task = loop.create_task(self._serve(client, address))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            await asyncio.sleep(1 / ACCEPTS_A_SECOND)

    async def _serve(self, client: socket.socket, address: Any) -> None:
        """Answer one connection's request, within the limits."""
        with client:
            uid = _uid(client, address)
            peer = uid if uid is not None else address[0]
            if self._peers[peer] >= PEER_CONNECTIONS_MAX:
                self.counters["page_refused"] += 1
                return
            self._peers[peer] += 1
            try:
                await self._converse(client, uid)
            except TimeoutError:
                self.counters["page_slow"] += 1
            except OSError:
                self.counters["page_broken"] += 1
            except Exception as error:
                self.counters["page_failed"] += 1
                _log.exception("a request could not be answered", error=str(error))
            finally:
                self._peers[peer] -= 1
                if not self._peers[peer]:
                    del self._peers[peer]

    async def _converse(self, client: socket.socket, uid: int | None) -> None:
        loop = asyncio.get_running_loop()
        reader = RequestReader()
        found: PageRequest | Answer | None = None
        async with asyncio.timeout(REQUEST_S):
            while found is None:
                found = reader.feed(await loop.sock_recv(client, 4096))
        answer = found if isinstance(found, Answer) else await self._answer(found, uid)
        self.counters["page_served" if answer.status < 400 else "page_bad"] += 1
        async with asyncio.timeout(REQUEST_S):
            await loop.sock_sendall(client, reader.answer(answer))
        client.shutdown(socket.SHUT_WR)
        await _linger(client)

    # --- answers ----------------------------------------------------------------------------------

    async def _answer(self, request: PageRequest, uid: int | None) -> Answer:
        try:
            match request.path:
                case "/metrics":
                    return await self._page(self._reader(uid), request.form)
                case "/livez":
                    await self._from_agent(_nothing())
                    return Answer(200, b"ok\n")
                case _:
                    return ready(await self._from_agent(_checked(self._checks)))
        except TimeoutError:
            why = f"the agent's loop has not answered in {AGENT_S:g} s\n"
            return Answer(503, why.encode())

    async def _page(self, reader: int, form: Form) -> Answer:
        if self._pages.old():
            self._pages.renew(await self._from_agent(self._read()))
        body, left = self._pages.get(reader, form)
        self.counters["page_series_refused"] += left
        return Answer(200, body, CONTENT_TYPES[form])

    def _reader(self, uid: int | None) -> int:
        if self._readers is None or uid in self._readers:
            return EVERYBODY
        return NOBODY if uid is None or uid == OVERFLOW_UID else uid

    async def _from_agent(self, work: Awaitable[_T]) -> _T:
        """Return the result of work in the agent's loop; TimeoutError if there is none in time."""
        async with asyncio.timeout(AGENT_S):
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(_awaited(work), self._agent)
            )


class _Pages:
    """The pages of the newest reading, and the series that pages had no room for."""

    def __init__(self, source: PageSource) -> None:
        self._source = source
        self._reading: NodeReading | None = None
        self._read_s = 0.0
        self._made: dict[tuple[int, Form], bytes] = {}
        self._refused: Counter[str] = Counter()

    def old(self) -> bool:
        """True if the node has to be read anew."""
        return self._reading is None or time.monotonic() - self._read_s > FRESH_S

    def renew(self, reading: NodeReading) -> None:
        """Take in a new reading."""
        self._reading, self._read_s = reading, time.monotonic()
        self._made.clear()

    def get(self, reader: int, form: Form) -> tuple[bytes, int]:
        """Return a page, and the number of series that were left out now."""
        assert self._reading is not None
        if (reader, form) in self._made:
            return self._made[reader, form], 0
        reading = replace(self._reading, refused={**self._reading.refused, **self._refused})
        made = metrics_page.page(self._source, reading, reader, form)
        self._refused += made.refused
        if len(self._made) >= READERS_KEPT:
            self._made.clear()
        self._made[reader, form] = made.body
        return made.body, made.refused.total()


def listen(where: Listener) -> socket.socket:
    """Return a socket that listens there; OSError if that cannot be."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((where.host, where.port))
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def ready(checks: Mapping[str, str]) -> Answer:
    """Return the answer to `/readyz`: each part that jobs need, and why one does not work."""
    lines = [
        f"{'fail' if why else 'ok'} {name}{f': {why}' if why else ''}"
        for name, why in checks.items()
    ]
    return Answer(503 if any(checks.values()) else 200, "".join(f"{e}\n" for e in lines).encode())


def _uid(client: socket.socket, address: Any) -> int | None:
    """Return the user at the far end; None on another host, or where the kernel does not say."""
    if client.family != socket.AF_INET:
        return None
    try:
        return owner(client.getsockname(), address)
    except OSError:
        return None


async def _linger(client: socket.socket) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            left = LINGER_BYTES
            while left > 0:
                data = await asyncio.get_running_loop().sock_recv(client, 4096)
                if not data:
                    return
                left -= len(data)


async def _nothing() -> None:
    """Prove that a loop runs."""


async def _checked(checks: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    return checks()


async def _awaited(work: Awaitable[_T]) -> _T:
    return await work
