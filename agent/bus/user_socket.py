# SPDX-License-Identifier: Apache-2.0
"""The socket of one Unix user: a PUB socket that tells who listens and counts what was missed.

Owns the access: the file of the socket belongs to that user with mode 0600, in a folder that only
the agent's user can change, and the far end's uid is compared as well (SO_PEERCRED). Owns what one
user can cost: connections, subscriptions and unread messages are bounded.
"""

from __future__ import annotations

import contextlib
import os
import struct
from pathlib import Path

import msgspec
import zmq

UNREAD_MAX = 32
"""Messages that wait for one subscriber; what follows is missed by that one alone."""
CONNECTIONS_MAX = 8
SUBSCRIPTIONS_MAX = 64
TOPIC_BYTES_MAX = 256
BACKLOG = 8
HANDSHAKE_MS = 2000
FILES_MODE = 0o600

_accepted, _ended = zmq.EVENT_ACCEPTED, zmq.EVENT_DISCONNECTED
_EVENT = struct.Struct("=H")
"""The start of the first frame of an event of the monitor (zmq_socket_monitor(3)); the package's
own decoder would load its part for asyncio, 0.2 MiB."""


class UserSocket:
    """An open socket at `path`, for `uid` and for root; used by one thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], path: Path, uid: int) -> None:
        self.uid = uid
        self.topics: set[bytes] = set()
        """The prefixes that somebody subscribes to."""
        self.connections = 0
        self.missed = 0
        """Messages that at least one subscriber did not get, since it did not read."""
        self.sent = 0
        self._path = path
        self.socket = socket = context.socket(zmq.XPUB)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, UNREAD_MAX),
            (zmq.RCVHWM, SUBSCRIPTIONS_MAX),
            (zmq.MAXMSGSIZE, TOPIC_BYTES_MAX),
            (zmq.BACKLOG, BACKLOG),
            (zmq.HANDSHAKE_IVL, HANDSHAKE_MS),
            (zmq.XPUB_NODROP, 1),
            *((zmq.IPC_FILTER_UID, each) for each in {uid, 0, os.geteuid()}),
        ):
            socket.setsockopt(option, value)
        self.monitor = socket.get_monitor_socket(_accepted | _ended)
        path.unlink(missing_ok=True)
        try:
            socket.bind(f"ipc://{path}")
            path.chmod(FILES_MODE)
            if uid != os.geteuid():
                os.chown(path, uid, -1, follow_symlinks=False)
        except (zmq.ZMQError, OSError):
            self.close()
            raise

    def hear(self) -> bool:
        """Take news of subscriptions and connections; False if the user has too many."""
        while (heard := _received(self.socket)) is not None:
            change = self.topics.add if heard[:1] == b"\x01" else self.topics.discard
            change(heard[1:])
        while self.monitor.poll(0):
            (event,) = _EVENT.unpack_from(self.monitor.recv_multipart()[0])
            self.connections += 1 if event == _accepted else -1
        return len(self.topics) <= SUBSCRIPTIONS_MAX and self.connections <= CONNECTIONS_MAX

    def wants(self, prefix: bytes) -> bool:
        """True if somebody subscribes to topics that begin so, or to some of them."""
        return any(each.startswith(prefix) or prefix.startswith(each) for each in self.topics)

    def send(self, topic: bytes, data: bytes, dropped: int) -> None:
        """Send to whoever reads. `dropped`: messages for this user that were never sent.

        The first try fails if some subscriber has UNREAD_MAX unread messages. That is counted, and
        the second one leaves out that subscriber alone.
        """
        if not self._try(topic, data, dropped):
            self.missed += 1
            self.socket.setsockopt(zmq.XPUB_NODROP, 0)
            try:
                self._try(topic, data, dropped)
            finally:
                self.socket.setsockopt(zmq.XPUB_NODROP, 1)
        self.sent += 1

    def _try(self, topic: bytes, data: bytes, dropped: int) -> bool:
        losses = msgspec.msgpack.encode({"missed": self.missed, "dropped": dropped})
        try:
            self.socket.send_multipart((topic, data, losses), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """End all connections and remove the file."""
        self.socket.disable_monitor()
        self.monitor.close(0)
        self.socket.close(0)
        with contextlib.suppress(OSError):
            self._path.unlink()


def _received(socket: zmq.Socket[bytes]) -> bytes | None:
    try:
        return bytes(socket.recv(zmq.NOBLOCK))
    except zmq.Again:
        return None
