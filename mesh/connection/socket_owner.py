# SPDX-License-Identifier: Apache-2.0
"""The owner of the far end of a connection within this host, as the kernel names it.

Owns the rule by which a broker is trusted without TLS: it must run as this process's user.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

TABLE = Path("/proc/net/tcp")
_ESTABLISHED = "01"
"""TCP_ESTABLISHED as /proc/net/tcp prints it (include/net/tcp_states.h)."""
Address = tuple[str, int]


def check_owner(ends: tuple[Address, Address]) -> None:
    """Raise PermissionError unless this process's user owns the far end of this connection."""
    found = owner(*ends)
    if found != os.geteuid():
        user = "an unknown user" if found is None else f"uid {found}"
        where = "{}:{}".format(*ends[1])
        raise PermissionError(
            f"the program that listens at {where} belongs to {user}, not to uid {os.geteuid()}:"
            " it is not this node's broker"
        )


def owner(ours: Address, theirs: Address) -> int | None:
    """Return the uid that owns the far end of a connection within this host (proc_net_tcp.rst).

    None if the far end is not accepted yet (inode 0; the kernel then names root), is closed, or is
    on another host.
    """
    wanted = (_hexadecimal(theirs), _hexadecimal(ours), _ESTABLISHED)
    for line in TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        if tuple(fields[1:4]) == wanted and fields[9] != "0":
            return int(fields[7])
    return None


def _hexadecimal(address: Address) -> str:
    """Return an address as the kernel prints it: the host is one number in native byte order."""
    raw = socket.inet_aton(address[0])
    return f"{int.from_bytes(raw, 'little'):08X}:{address[1]:04X}"
