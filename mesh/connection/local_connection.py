# SPDX-License-Identifier: Apache-2.0
"""A connection to the broker of this host, for the node's own processes.

The kernel names the owner of the other end of a local socket, so a broker that runs as this
process's user is trusted without TLS, which would double the scheduler's cost of a message. Owns
the order: the owner is checked after the greeting, when the other end was surely accepted, and
before anything is signed.
"""

from __future__ import annotations

from nats.aio.client import Client

from stoker.mesh.connection.socket_owner import Address, check_owner
from stoker.native.errors import NotSupported


class LocalConnection(Client):
    """nats-py's client; it sends nothing to a broker of another user."""

    def __init__(self) -> None:
        super().__init__()
        self._proven = 0

    def _connect_command(self) -> bytes:
        """Check the broker's owner, then return the answer to its greeting.

        nats-py calls this before it sends the key's signature and treats OSError as a failed
        connection.
        """
        check_owner(self._socket())
        self._proven += 1
        command: bytes = super()._connect_command()
        return command

    def _socket(self) -> tuple[Address, Address]:
        writer = self._transport._io_writer  # type: ignore[union-attr]
        return writer.get_extra_info("sockname"), writer.get_extra_info("peername")

    def cut(self) -> None:
        """End the connection at once; what is pending is lost. A closed one stays as it is."""
        if self._transport is not None:
            self._transport._io_writer.transport.abort()  # type: ignore[attr-defined]

    def check_proven(self) -> None:
        """Raise NotSupported if this version of nats-py connected without the check."""
        if not self._proven:
            raise NotSupported("this nats-py connects in a way in which the broker is not checked")


def send_now(connection: Client) -> None:
    """Write what was published, instead of when nats-py's flushing task has its turn.

    Use it for a message for which somebody waits; many messages are cheaper in that task, which
    writes all of them together.
    """
    if connection.is_connected and connection._pending_data_size > 0:
        pending, connection._pending = connection._pending, []
        connection._pending_data_size = 0
        connection._transport.writelines(pending)  # type: ignore[union-attr]
