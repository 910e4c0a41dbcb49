# SPDX-License-Identifier: Apache-2.0
"""Requests on a connection of a server's process, which ends them itself when it is lost.

Owns how many may be open. It stands where requests on nats-py's connection are expected.
"""

from __future__ import annotations

from typing import cast

from nats.aio.client import Client

from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.requests import PENDING_MAX, Requests
from stoker.native.errors import Unavailable


class BrokerRequests(Requests):
    """The open requests of a connection; `on_error` and `on_lost` have nothing to do."""

    def __init__(self, connection: BrokerConnection) -> None:
        super().__init__(cast(Client, connection))
        self._own = connection
        self._count = 0

    async def request(
        self, subject: str, data: bytes, timeout_s: float, headers: dict[str, str] | None = None
    ) -> bytes:
        if self._count >= PENDING_MAX:
            raise Unavailable(f"{PENDING_MAX} requests are unanswered")
        self._count += 1
        try:
            return await self._own.request(subject, data, timeout_s, headers)
        except Unavailable as error:
            raise Unavailable(f"{subject}: {error.message}") from None
        finally:
            self._count -= 1
