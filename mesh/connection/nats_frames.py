# SPDX-License-Identifier: Apache-2.0
"""The frames of the NATS client protocol, as far as a client of requests and replies needs them.

Pure: bytes that arrived in, frames out, however the bytes were cut. Owns the bounds of what one
frame may hold, so that a broker which is none cannot fill the memory. A command line that loads
this instead of a general client starts in half the time (`stoker bench cli`). Source:
docs.nats.io, "NATS Protocol" (INFO, CONNECT, PUB, HPUB, SUB, MSG, HMSG, PING, PONG, +OK, -ERR).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

LINE_BYTES_MAX = 64 * 1024
"""The longest control line; an INFO with many addresses has some KiB."""
PAYLOAD_BYTES_MAX = 64 << 20
"""The largest payload that the protocol's servers may be set to."""
END = b"\r\n"


class InfoFrame(NamedTuple):
    """The broker's greeting: one object as JSON."""

    data: bytes


class Delivery(NamedTuple):
    """A message; `status` is that of its headers, such as "503", or empty, as `reply` is where
    nobody waits for an answer."""

    subject: str
    data: bytes
    status: str
    reply: str = ""


class ErrorFrame(NamedTuple):
    """An error that the broker reports, without its quotes."""

    words: str


class PingFrame(NamedTuple):
    """The broker wants a PONG."""


class PongFrame(NamedTuple):
    """The answer to a PING: everything before it has been taken."""


Frame = InfoFrame | Delivery | ErrorFrame | PingFrame | PongFrame


class _Announced(NamedTuple):
    """The line of a message whose payload follows."""

    subject: str
    reply: str
    header_bytes: int
    total_bytes: int


class Frames:
    """The frames of one connection, in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._announced: _Announced | None = None

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; ValueError for bytes that no broker sends."""
        self._buffer += data
        while True:
            frame = self._payload() if self._announced is not None else self._line()
            if frame is not None:
                yield frame
            elif self._announced is None or not self._is_whole(self._announced):
                return

    def _is_whole(self, message: _Announced) -> bool:
        return len(self._buffer) >= message.total_bytes + len(END)

    def _payload(self) -> Frame | None:
        message = self._announced
        assert message is not None
        if not self._is_whole(message):
            return None
        whole = bytes(self._buffer[: message.total_bytes])
        del self._buffer[: message.total_bytes + len(END)]
        self._announced = None
        data, status = whole[message.header_bytes :], _status(whole, message)
        return Delivery(message.subject, data, status, message.reply)

    def _line(self) -> Frame | None:
        """Take one line; None if there is no whole one, or if it announces a payload."""
        while (end := self._buffer.find(END)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + len(END)]
            word, _, rest = line.partition(b" ")
            match word.upper():
                case b"MSG" | b"HMSG":
                    self._announced = _announced(word.upper(), rest)
                    return None
                case b"PING":
                    return PingFrame()
                case b"PONG":
                    return PongFrame()
                case b"INFO":
                    return InfoFrame(rest)
                case b"-ERR":
                    return ErrorFrame(rest.decode("utf-8", "replace").strip("' "))
                case b"+OK":
                    continue
            raise ValueError(f"{line[:40]!r} is no word of a NATS server")
        if len(self._buffer) > LINE_BYTES_MAX:
            raise ValueError(f"a line of over {LINE_BYTES_MAX} bytes")
        return None


def _announced(word: bytes, rest: bytes) -> _Announced:
    """Read `subject sid [reply] [header bytes] bytes`."""
    parts = rest.split()
    sizes = 2 if word == b"HMSG" else 1
    if not 2 + sizes <= len(parts) <= 3 + sizes:
        raise ValueError(f"{rest[:40]!r} announces no message")
    total = int(parts[-1])
    header = int(parts[-2]) if sizes == 2 else 0
    if not 0 <= header <= total <= PAYLOAD_BYTES_MAX:
        raise ValueError(f"a message of {total} bytes with headers of {header}")
    reply = parts[2].decode() if len(parts) == 3 + sizes else ""
    return _Announced(parts[0].decode(), reply, header, total)


def _status(whole: bytes, message: _Announced) -> str:
    """Return the status of headers that begin with `NATS/1.0 503`."""
    if not message.header_bytes:
        return ""
    words = whole[: message.header_bytes].partition(END)[0].split()
    return words[1].decode("ascii", "replace") if len(words) > 1 else ""


def publication(
    subject: str, reply: str, data: bytes, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a message to a subject, with the subject for its reply."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(data), data)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"NATS/1.0\r\n{lines}\r\n".encode()
    sizes = (len(head), len(head) + len(data))
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        subject.encode(), reply.encode(), *sizes, head, data,
    )  # fmt: skip
