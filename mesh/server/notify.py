# SPDX-License-Identifier: Apache-2.0
"""Notifications to the supervisor by systemd's sd_notify protocol: ready, status, watchdog.

Does nothing if NOTIFY_SOCKET is not set. Guarantees that a supervisor that does not read never
stops or delays this process.
"""

from __future__ import annotations

import contextlib
import os
import socket

_LINE_BYTES_MAX = 512


def ready(status: str = "") -> None:
    """Send READY=1: the process serves everything."""
    _send("READY=1", *_status(status))


def status(text: str) -> None:
    """Send a STATUS= line; its first word is for programs: `ok`, `waiting` or `blocked`."""
    _send(*_status(text))


def stopping() -> None:
    """Send STOPPING=1: an orderly shutdown began."""
    _send("STOPPING=1")


def alive() -> None:
    """Send WATCHDOG=1: the main loop runs."""
    _send("WATCHDOG=1")


def _status(text: str) -> list[str]:
    line = text.replace("\n", " ").encode()[:_LINE_BYTES_MAX].decode(errors="ignore")
    return [f"STATUS={line}"] if line else []


def _send(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or not lines:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.setblocking(False)
        sender.sendto("\n".join(lines).encode(), address)
