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
_MESSAGES = (b"MSG", b"HMSG")


class InfoFrame(NamedTuple):
    """The broker's greeting: one object as JSON."""

    data: bytes


class Delivery(NamedTuple):
    """A message; `status` is that of its headers, such as "503", or empty, as `reply` is where
    nobody waits for an answer. `number` is that of the subscription, `head` are the headers."""

    subject: str
    data: bytes
    status: str
    reply: str = ""
    number: bytes = b""
    head: bytes = b""


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
    number: bytes
    reply: str
    header_bytes: int
    total_bytes: int


class Frames:
    """The frames of one connection, in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = 0
        """The bytes of the message that the buffer begins with; 0 while its line is not whole."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; ValueError for bytes that no broker sends."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at = self._wanted = 0
        while (end := data.find(END, at)) >= 0:
            word, _, rest = data[at:end].partition(b" ")
            word, begin = word.upper(), end + len(END)
            if word in _MESSAGES:
                message = _announced(word, rest)
                after = begin + message.total_bytes + len(END)
                if after > len(data):
                    self._wanted = after - at
                    break
                yield _delivery(message, data, begin)
                at = after
            else:
                at = begin
                if word != b"+OK":
                    yield _short_frame(word, rest)
        self._keep(data, at)

    def _keep(self, data: bytes, at: int) -> None:
        """Keep the beginning of a frame that is not whole yet."""
        self._buffer += data[at:]
        if not self._wanted and len(self._buffer) > LINE_BYTES_MAX:
            raise ValueError(f"a line of over {LINE_BYTES_MAX} bytes")


def _short_frame(word: bytes, rest: bytes) -> Frame:
    """Return the frame of a line that no payload follows."""
    match word:
        case b"PING":
            return PingFrame()
        case b"PONG":
            return PongFrame()
        case b"INFO":
            return InfoFrame(rest)
        case b"-ERR":
            return ErrorFrame(rest.decode("utf-8", "replace").strip("' "))
    raise ValueError(f"{(word + b' ' + rest)[:40]!r} is no word of a NATS server")


def _announced(word: bytes, rest: bytes) -> _Announced:
    """Read `subject number [reply] [header bytes] bytes`."""
    parts = rest.split()
    sizes = 2 if word == b"HMSG" else 1
    if not 2 + sizes <= len(parts) <= 3 + sizes:
        raise ValueError(f"{rest[:40]!r} announces no message")
    total = int(parts[-1])
    header = int(parts[-2]) if sizes == 2 else 0
    if not 0 <= header <= total <= PAYLOAD_BYTES_MAX:
        raise ValueError(f"a message of {total} bytes with headers of {header}")
    reply = parts[2].decode() if len(parts) == 3 + sizes else ""
    return _Announced(parts[0].decode(), parts[1], reply, header, total)


def _delivery(message: _Announced, data: bytes, begin: int) -> Delivery:
    """Return the message whose headers and payload begin here."""
    subject, number, reply, header_bytes, total_bytes = message
    middle, end = begin + header_bytes, begin + total_bytes
    if not header_bytes:
        return Delivery(subject, data[begin:end], "", reply, number)
    head = data[begin:middle]
    return Delivery(subject, data[middle:end], _status(head), reply, number, head)


def _status(head: bytes) -> str:
    """Return the status of headers that begin with `NATS/1.0 503`."""
    words = head.partition(END)[0].split()
    return words[1].decode("ascii", "replace") if len(words) > 1 else ""


def headers(head: bytes) -> dict[str, str] | None:
    """Return the headers of a message by name, with its status and the text of it; None if it has
    none. A name that nobody can ask for is left out."""
    if not head:
        return None
    first, _, rest = head.partition(END)
    words = (word.decode("utf-8", "replace") for word in first.split(None, 2)[1:])
    found = dict(zip(("Status", "Description"), words, strict=False))
    for line in rest.split(END):
        name, colon, value = line.partition(b":")
        if colon and name.strip().isascii() and len(name.split()) == 1:
            found[name.strip().decode()] = value.strip().decode("utf-8", "replace")
    return found


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
