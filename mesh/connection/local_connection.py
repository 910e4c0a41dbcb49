# SPDX-License-Identifier: Apache-2.0
"""A connection to the broker of this very host, for processes of the node itself.

The kernel says who holds the other end: a socket's owner cannot be forged, so a broker that runs as
this process's own user is believed without a handshake, and what goes over the connection costs
what it did before (TLS costs a scheduler about as much again as all else it does with a message).
Owns the order: the owner is asked after the greeting, when the other end must have been accepted,
and before anything is signed.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from nats.aio.client import Client

from stoker.native.errors import NotSupported

TABLE = Path("/proc/net/tcp")
_ESTABLISHED = "01"
"""TCP_ESTABLISHED in /proc/net/tcp, include/net/tcp_states.h."""
Address = tuple[str, int]


class LocalConnection(Client):
    """nats-py's client, which says nothing to a broker of another user."""

    def __init__(self) -> None:
        super().__init__()
        self._proven = 0

    def _connect_command(self) -> bytes:
        """Called by nats-py between the greeting and the answer to it, which carries the key's
        signature; OSError is what it takes for a connection that failed."""
        check_owner(self._socket())
        self._proven += 1
        command: bytes = super()._connect_command()
        return command

    def _socket(self) -> tuple[Address, Address]:
        writer = self._transport._io_writer  # type: ignore[union-attr]
        return writer.get_extra_info("sockname"), writer.get_extra_info("peername")

    def check_proven(self) -> None:
        """NotSupported where nats-py connected without having asked: another version of it."""
        if not self._proven:
            raise NotSupported("this nats-py connects in a way in which the broker is not checked")


def check_owner(ends: tuple[Address, Address]) -> None:
    """PermissionError unless the far end of this connection is held by this process's user."""
    found = owner(*ends)
    if found != os.geteuid():
        whose = "nobody whom the kernel names" if found is None else f"uid {found}"
        where = "{}:{}".format(*ends[1])
        raise PermissionError(
            f"what listens at {where} belongs to {whose}, not to uid {os.geteuid()}:"
            " it is not this node's broker"
        )


def owner(ours: Address, theirs: Address) -> int | None:
    """The uid that holds the far end of a connection within this host, proc_net_tcp.rst.

    None for an end that nobody has accepted (inode 0: the kernel then names root, whoever listens)
    or that is not open any more, and for one that is not on this host.
    """
    wanted = (_hexadecimal(theirs), _hexadecimal(ours), _ESTABLISHED)
    for line in TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if tuple(fields[1:4]) == wanted and fields[9] != "0":
            return int(fields[7])
    return None


def _hexadecimal(address: Address) -> str:
    """As the kernel prints it: the four bytes of the host as one number of this machine's order."""
    raw = socket.inet_aton(address[0])
    return f"{int.from_bytes(raw, 'little'):08X}:{address[1]:04X}"
