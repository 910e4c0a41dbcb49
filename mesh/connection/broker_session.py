# SPDX-License-Identifier: Apache-2.0
"""One connection of a server's process to the broker of its host, until it is lost.

Owns that nothing is signed for a broker of another user: the kernel names the owner of the other
end, and is asked after the greeting, when that end was surely accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from stoker.mesh.connection.broker_protocol import BrokerProtocol
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.connection.nats_frames import Delivery, publication
from stoker.mesh.connection.socket_owner import check_owner
from stoker.mesh.identity import certificate
from stoker.mesh.identity.identity import Identity
from stoker.native.errors import Denied, StokerError, Unavailable

UNSENT_BYTES_MAX = 64 << 20
"""The most bytes that wait for the broker; what is published beyond them is refused."""


class NobodyListens(Unavailable):
    """No process serves a request's subject."""


class Overdue(Unavailable):
    """A request was not answered in time."""


class SessionOptions(NamedTuple):
    """The words by which a process introduces itself. The broker proves itself by its owner, and by
    the certificate `pinned` where there is one."""

    key: Identity
    name: str
    inbox: str
    pinned: Path | None = None


class SessionOwner(Protocol):
    """The connection that this one serves until it is lost."""

    def deliver(self, message: Delivery) -> None:
        """Take a message of a subscription."""

    def tell(self, error: Exception) -> None:
        """Report an error."""


class BrokerSession(BrokerProtocol):
    """The connection; `lost` is set when it has ended."""

    def __init__(self, options: SessionOptions, owner: SessionOwner) -> None:
        super().__init__(options.key, options.name, options.inbox)
        self._owner = owner
        self.lost = asyncio.Event()

    def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message; OSError if it cannot be sent now, ValueError if it never can."""
        if self._transport is None or self._lost:
            raise ConnectionResetError("the broker is not connected")
        if len(data) > self.max_payload:
            raise ValueError(f"a message of {len(data)} bytes, at most {self.max_payload}")
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            raise BlockingIOError(f"the broker has not read {UNSENT_BYTES_MAX} bytes")
        self._write(publication(subject, reply, data, headers))

    def send(self, frame: bytes) -> None:
        """Send a frame that is no message."""
        self._write(frame)

    async def finish(self) -> None:
        """Write what is pending and end the connection; return when that is done."""
        self._write_gathered()
        if self._transport is not None and not self._lost:
            self._transport.close()
            await self.lost.wait()

    def cut(self) -> None:
        """End the connection at once; what is pending is lost."""
        if self._transport is not None:
            self._transport.abort()

    # --- what this kind of connection says of itself ----------------------------------------------

    def _check_broker(self) -> None:
        assert self._transport is not None
        near, far = map(self._transport.get_extra_info, ("sockname", "peername"))
        check_owner((near, far))

    def _deliver(self, message: Delivery) -> None:
        self._owner.deliver(message)

    def _no_responder(self) -> StokerError:
        return NobodyListens("no process serves this subject")

    def _overdue(self, subject: str, timeout_s: float) -> StokerError:
        return Overdue(f"no answer to {subject} within {timeout_s:g} s")

    def _complain(self, words: str) -> None:
        """Report an error of the broker; a refused publish ends the requests of its subject, which
        nothing else would end."""
        super()._complain(words)
        for asked in self._open.values():
            if self.denied and f'"{asked.subject}"' in words and not asked.answer.done():
                asked.answer.set_exception(Denied(f"the broker refused the request: {words[:300]}"))
        self._owner.tell(ConnectionError(self.complaint))

    def _end(self) -> None:
        super()._end()
        self.lost.set()


async def begin(client: BrokerProtocol, address: str, pinned: Path | None, within_s: float) -> None:
    """Connect a client to the broker at this address, which has the certificate `pinned` if there
    is one.

    Raises OSError, TimeoutError or a StokerError; the client is then of no more use.
    """
    place = urlsplit(address)
    secured = certificate.pinned(pinned) if pinned is not None else None
    try:
        async with asyncio.timeout(within_s):
            await asyncio.get_running_loop().create_connection(
                lambda: client,
                place.hostname or LOOPBACK,
                place.port or 0,
                ssl=secured,
                server_hostname=certificate.NAMES[0] if secured is not None else None,
            )
            await client.begin()
    except BaseException:
        await client.close()
        raise
