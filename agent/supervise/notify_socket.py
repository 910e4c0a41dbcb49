# SPDX-License-Identifier: Apache-2.0
"""The notifications of sd_notify(3): those of a node's children, and its own to systemd.

For the supervisor. Owns that a datagram of a child carries its pid, and that no other user writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from stoker.agent.state.state_folder import StateFolder


def path(state: StateFolder) -> Path:
    """Return the place of the socket to which children write."""
    return state.run / "notify.sock"


def opened(state: StateFolder) -> socket.socket:
    """Open the socket for READY=1; only this uid may write, and each datagram carries its pid."""
    place = path(state)
    place.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    former = os.umask(0o177)
    try:
        sock.bind(str(place))
    finally:
        os.umask(former)
    return sock


def tell_above(text: str) -> None:
    """Notify systemd if it started this process (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(text.encode(), address.replace("@", "\0", 1))


async def beat_watchdog() -> None:
    """Send WATCHDOG=1 at half of systemd's period while the loop runs."""
    period_us = int(os.environ.get("WATCHDOG_USEC", "0"))
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return
    while period_us > 0:
        tell_above("WATCHDOG=1")
        await asyncio.sleep(period_us / 2e6)
