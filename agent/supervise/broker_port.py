# SPDX-License-Identifier: Apache-2.0
"""The broker's port: how it is chosen, and which process occupies it.

A port stays the same from start to start. It lies below the kernel's ephemeral range, so that no
outgoing connection of another program occupies it when the node comes back.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from stoker.mesh.connection.context import LOOPBACK
from stoker.native.errors import Refused

FIRST, COUNT = 20_000, 12_000
"""The range of ports; net.ipv4.ip_local_port_range starts above it, at 32768."""
TRIES_MAX = 100
_LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp (include/net/tcp_states.h)."""


def check(port: int, address: str = LOOPBACK) -> None:
    """Refuse a port that the broker cannot have, naming its user or root's privilege."""
    lowest = lowest_open()
    if _listeners(port) if port < lowest else not is_free(port, address):
        raise Refused(
            f"port {port} is in use by {holder(port)}",
            hint="Give another one with --port, or none",
        )
    if port < lowest:
        raise Refused(
            f"port {port} is reserved for root (as all below {lowest}), and the broker never"
            " runs with root's rights",
            hint=f"Give one from {lowest} to 65535 with --port, or none",
        )


def is_usable(port: int, address: str = LOOPBACK) -> bool:
    """True if the broker could listen on this port now."""
    return port >= lowest_open() and is_free(port, address)


def lowest_open() -> int:
    """Return the lowest port on which a process without privileges may listen, ip(7)."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    return 1024


def is_free(port: int, address: str = LOOPBACK) -> bool:
    """True if a server could listen on this port of an own address now."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True


def choose(instance: str, address: str = LOOPBACK, *, beside: int = 0) -> int:
    """Return a free port, the same one for the same state folder unless it is taken. `beside`: one
    that is given already."""
    first = int(instance, 16)
    for step in range(TRIES_MAX):
        port = FIRST + (first + step) % COUNT
        if port != beside and is_free(port, address):
            return port
    with socket.socket() as sock:  # a hundred ports are taken: the kernel chooses
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def holder(port: int) -> str:
    """Return who listens on a port: `pid 812 (python3)`, or why that is unknown."""
    inodes = _listeners(port)
    if not inodes:
        return "a process of another network namespace or an address in use"
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _has_socket(entry, inodes):
            with contextlib.suppress(OSError):
                return f"pid {entry.name} ({(entry / 'comm').read_text().strip()})"
    return "a process of another user"


def _listeners(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _has_socket(process: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(descriptor.readlink()) in inodes:
                    return True
    return False
