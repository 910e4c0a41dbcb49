# SPDX-License-Identifier: Apache-2.0
"""Tell whoever started this process that it is ready, and how it is: systemd's sd_notify protocol.

Silent when NOTIFY_SOCKET is not set; a supervisor that does not listen never stops or delays the
process that notifies.
"""

from __future__ import annotations

import contextlib
import os
import socket

_LINE_BYTES_MAX = 512


def ready(status: str = "") -> None:
    """READY=1, once everything the process serves is served."""
    _send("READY=1", *_status(status))


def status(text: str) -> None:
    """A new STATUS= line; the first word is for programs: `ok`, `waiting` or `blocked`."""
    _send(*_status(text))


def stopping() -> None:
    """STOPPING=1: an ordered end began."""
    _send("STOPPING=1")


def alive() -> None:
    """WATCHDOG=1: the main loop still turns."""
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
