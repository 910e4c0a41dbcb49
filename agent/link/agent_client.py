# SPDX-License-Identifier: Apache-2.0
"""One connection of the agent to a broker, until it is lost.

Each message is given to the handler of its subject in the turn of the loop in which it arrives.
Owns that no message ends the connection: a handler that fails is logged and counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar

from stoker.mesh.connection import socket_owner
from stoker.mesh.connection.broker_protocol import BrokerProtocol
from stoker.mesh.connection.nats_frames import Delivery, publication
from stoker.mesh.identity.identity import Identity
from stoker.native.errors import Denied, StokerError, Unavailable
from stoker.native.structured_log import structlog

PENDING_BYTES_MAX = 64 << 20
"""The most bytes that wait for the broker; what is published beyond them is dropped."""

_log = structlog.get_logger("link")

MessageHandler = Callable[[Delivery], None]
"""Called in the loop with each message of a subject; must return at once."""


class AgentClient(BrokerProtocol):
    """The connection; `lost` is done when it has ended. `pinned` says that TLS has proven the
    broker, which else must run as this process's user."""

    ping_s: ClassVar[float] = 1.0

    def __init__(
        self,
        key: Identity,
        name: str,
        inbox: str,
        subjects: Mapping[str, MessageHandler],
        counters: Counter[str],
        *,
        pinned: bool,
    ) -> None:
        super().__init__(key, f"stoker agent {name}", inbox)
        self._subjects = subjects
        self._counters = counters
        self._pinned = pinned
        self._who = name
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def publish(self, subject: str, payload: bytes) -> bool:
        """Send without an answer; False, and counted, if it cannot be sent."""
        if self._transport is None or self._lost:
            self._counters["publish_dropped"] += 1
            return False
        waiting = self._transport.get_write_buffer_size()
        if len(payload) > self.max_payload or waiting > PENDING_BYTES_MAX:
            self._counters["publish_failed"] += 1
            return False
        self._write(publication(subject, "", payload))
        return True

    async def request(
        self,
        subject: str,
        data: bytes,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        if len(data) > self.max_payload:
            most = self.max_payload
            raise Unavailable(f"a message of {len(data)} bytes, of which a broker takes {most}")
        return await super().request(subject, data, timeout_s, headers)

    # --- what the agent says of itself ------------------------------------------------------------

    def _check_broker(self) -> None:
        if not self._pinned:
            assert self._transport is not None
            near, far = map(self._transport.get_extra_info, ("sockname", "peername"))
            socket_owner.check_owner((near, far))

    def _subscribe(self) -> bytes:
        numbered = enumerate(self._subjects, 2)
        return b"".join(b"SUB %s %d\r\n" % (each.encode(), number) for number, each in numbered)

    def _no_responder(self) -> StokerError:
        return Unavailable("no scheduler listens")

    def _overdue(self, subject: str, timeout_s: float) -> StokerError:
        if subject in self.denied:
            return Denied(f"the broker does not let this node publish {subject}")
        return super()._overdue(subject, timeout_s)

    def _deliver(self, message: Delivery) -> None:
        handle = self._subjects.get(message.subject)
        if handle is None:
            self._counters["message_unknown"] += 1
            return
        try:
            handle(message)
        except Exception as error:
            self._counters["message_failed"] += 1
            _log.exception("a message could not be handled", error=str(error))

    def _complain(self, words: str) -> None:
        super()._complain(words)
        self._counters["link_errors"] += 1
        _log.warning("broker", connection=self._who, error=self.complaint)

    def _end(self) -> None:
        super()._end()
        if not self.lost.done():
            self.lost.set_result(None)
