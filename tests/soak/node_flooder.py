# SPDX-License-Identifier: Apache-2.0
"""A node's stolen key in a process of its own: it sends one kind of flood to one broker.

`python -m tests.soak.node_flooder KIND SECONDS URL SEED CERTIFICATE NODE` prints what became of it
as JSON. Bytes are made once and written as fast as the connection takes them. A connection that
ends is made again, after the pause that clients make; the kind `storm` makes none. Owns that each
kind stays on what the allow-list of a node names, except those that say that they do not.
"""

from __future__ import annotations

import base64
import json
import select
import socket
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from stoker.mesh.connection.nats_frames import publication
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import subjects

AT_ONCE = 1000
"""The frames of one piece, which is written again and again."""
NO_MESSAGE = b"\xc1" * 200
CONNECT_S = 10.0
PIECE_BYTES = 1 << 16
COPIES = 60_000
PAUSE_S = 0.1
"""The pause after a connection ended or was refused; stoker's own agents wait 0.05 to 1 s."""
STORM = "storm"

Piece = Callable[[str, str], bytes]
"""Returns frames for a node's name and its inbox."""


def _published(subject: Callable[[str], str], *, answered: bool = False) -> Piece:
    def piece(node: str, inbox: str) -> bytes:
        return publication(subject(node), f"{inbox}.1" if answered else "", NO_MESSAGE) * AT_ONCE

    return piece


def _subscriptions(node: str, inbox: str) -> bytes:
    lines = (b"SUB %s.c%d %d\r\nUNSUB %d\r\n" % (inbox.encode(), n, n + 10, n + 10)
             for n in range(AT_ONCE))  # fmt: skip
    return b"".join(lines)


def _copies(node: str, inbox: str) -> bytes:
    return publication(subjects.log_range(node), f"{inbox}.1", NO_MESSAGE)


KINDS: dict[str, Piece] = {
    "observations": _published(subjects.observation),
    "hellos": _published(subjects.hello, answered=True),
    "ranges": _published(subjects.log_range, answered=True),
    "outcomes": _published(subjects.outcome, answered=True),
    "leases": _published(subjects.lease_request),
    "records": _published(lambda node: subjects.records("admin", node, 1)),
    "kernels": _published(lambda node: subjects.kernels("admin", node, 1)),
    "alerts": _published(subjects.alerts),
    "rotations": _published(subjects.rotation, answered=True),
    "spool": _published(lambda node: subjects.spooled_output(node, (1, 0, 1, 1), "out")),
    "forbidden": _published(lambda node: "$JS.API.STREAM.NAMES"),
    "foreign": lambda node, inbox: b"SUB stoker.v1.> 9\r\n" * AT_ONCE,
    "subscriptions": _subscriptions,
    "copies": _copies,
    "pings": lambda node, inbox: b"PING\r\n" * AT_ONCE,
    "connections": lambda node, inbox: b"",
    STORM: _published(subjects.hello, answered=True),
}
"""All that a key may do without an end: publish on each subject of its allow-list, use what is none
of its own (twice), hear, send what every client may, and connect again and again, while the key is
taken and while it is shut out."""


class Flooder:
    """One key, and what it has met."""

    def __init__(self, url: str, key: Identity, pinned: Path, node: str) -> None:
        self._key, self._node = key, node
        self._inbox = f"{subjects.inbox(f'agent.{node}')}.flood"
        self._security = certificate.pinned(pinned)
        place = urlsplit(url)
        self._address = (place.hostname or "", place.port or 0)
        self.found: Counter[str] = Counter()

    def flood(self, kind: str, seconds: float) -> None:
        """Send until the time is over, on one connection after the other."""
        piece = KINDS[kind](self._node, self._inbox)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                with self._connected() as connection:
                    self.found["connected"] += 1
                    if kind == "copies":
                        connection.sendall(_heard_often(self._inbox))
                    self._send(connection, piece, deadline)
            except OSError as error:
                self.found[type(error).__name__] += 1
            if kind not in (STORM, "connections"):
                time.sleep(PAUSE_S)

    def _send(self, connection: ssl.SSLSocket, piece: bytes, deadline: float) -> None:
        connection.setblocking(False)
        left, frames = memoryview(piece), max(piece.count(b"\r\n"), 1)
        while piece and time.monotonic() < deadline:
            readable, writable, _ = select.select([connection], [connection], [], 0.1)
            if readable and not self._read(connection):
                return
            if writable:
                try:
                    left = left[connection.send(left[:PIECE_BYTES]) :]
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    continue
                if not left:
                    self.found["lines"] += frames
                    left = memoryview(piece)

    def _read(self, connection: ssl.SSLSocket) -> bool:
        """Throw away what came; False if the broker ended the connection."""
        try:
            while data := connection.recv(PIECE_BYTES):
                if data.startswith(b"PING"):
                    connection.send(b"PONG\r\n")
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        return False

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(self._address, CONNECT_S)
        made = self._security.wrap_socket(plain, server_hostname=certificate.NAMES[0])
        greeting = json.loads(made.recv(PIECE_BYTES).removeprefix(b"INFO "))
        signature = base64.b64encode(self._key.sign(greeting["nonce"].encode())).decode()
        said = {"verbose": False, "pedantic": False, "lang": "python", "version": "1",
                "protocol": 1, "headers": True, "no_responders": True, "name": "thief",
                "nkey": self._key.public, "sig": signature}  # fmt: skip
        own = f"SUB {self._inbox}.* 1\r\n".encode()
        made.sendall(b"CONNECT %s\r\n%sPING\r\n" % (json.dumps(said).encode(), own))
        if not made.recv(PIECE_BYTES).startswith(b"PONG"):
            made.close()
            raise ConnectionRefusedError("the broker does not take the key now")
        return made


def _heard_often(inbox: str) -> bytes:
    return b"".join(b"SUB %s.* %d\r\n" % (inbox.encode(), number) for number in range(10, COPIES))


def main() -> None:
    """The command line."""
    kind, seconds, url, seed, pinned, node = sys.argv[1:]
    flooder = Flooder(url, identity.load(Path(seed)), Path(pinned), node)
    flooder.flood(kind, float(seconds))
    print(json.dumps(flooder.found))


if __name__ == "__main__":
    main()
