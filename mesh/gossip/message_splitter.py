# SPDX-License-Identifier: Apache-2.0
"""The split of a stream of bytes into msgpack objects, which Serf's RPC sends without lengths.

Pure. Owns the bound of what is kept: an object that is larger than the limit, or no msgpack, is
refused as soon as its bytes show that, whatever it claims to hold.
"""

from __future__ import annotations

from stoker.native.errors import BadRequest

MESSAGE_BYTES_MAX = 4 << 20
"""The largest object: the list of 1,024 members with all the tags that they may have is 1 MiB."""

_WHOLE: dict[int, tuple[int, int]] = {
    **dict.fromkeys((*range(128), *range(224, 256), 192, 194, 195), (1, 0)),
    **{0x80 + count: (1, 2 * count) for count in range(16)},
    **{0x90 + count: (1, count) for count in range(16)},
    **{0xA0 + length: (1 + length, 0) for length in range(32)},
    0xCA: (5, 0),
    0xCB: (9, 0),
    0xCC: (2, 0),
    0xCD: (3, 0),
    0xCE: (5, 0),
    0xCF: (9, 0),
    0xD0: (2, 0),
    0xD1: (3, 0),
    0xD2: (5, 0),
    0xD3: (9, 0),
    0xD4: (3, 0),
    0xD5: (4, 0),
    0xD6: (6, 0),
    0xD7: (10, 0),
    0xD8: (18, 0),
}
"""First byte -> the bytes of the object and the objects that it holds, where that byte says all
(msgpack specification, formats)."""
_SIZED = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
    0xC7: (1, 1),
    0xC8: (2, 1),
    0xC9: (4, 1),
}
"""First byte -> the bytes of the length, and the bytes of a type after it."""
_HOLDERS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""First byte -> the bytes of the count, and the objects that each item is."""


class MessageSplitter:
    """Takes bytes as they come and returns the objects that are complete."""

    def __init__(self, bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._at = 0
        """The end of what was looked at."""
        self._missing = 1
        """The objects, those within others included, that the first one still lacks."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the objects that end in `data`; BadRequest for bytes that are none."""
        self._buffer += data
        found: list[bytes] = []
        while self._advance():
            found.append(bytes(self._buffer[: self._at]))
            del self._buffer[: self._at]
            self._at, self._missing = 0, 1
        if len(self._buffer) > self._bytes_max:
            raise BadRequest(f"an object of more than {self._bytes_max} bytes")
        return found

    def _advance(self) -> bool:
        """Look at what came; return True if the first object is complete."""
        while self._missing:
            step = self._head()
            if step is None:
                return False
            length, within = step
            if self._at + length > self._bytes_max or within > self._bytes_max:
                raise BadRequest(f"an object of more than {self._bytes_max} bytes")
            if self._at + length > len(self._buffer):
                return False
            self._at += length
            self._missing += within - 1
        return True

    def _head(self) -> tuple[int, int] | None:
        """Return the bytes of the next object without what it holds, and the number of objects
        that it holds; None if too few bytes have come."""
        if self._at >= len(self._buffer):
            return None
        first = self._buffer[self._at]
        if first in _WHOLE:
            return _WHOLE[first]
        if first == 0xC1:
            raise BadRequest("a byte that begins no msgpack object")
        width, more = _SIZED.get(first) or _HOLDERS[first]
        size = self._buffer[self._at + 1 : self._at + 1 + width]
        if len(size) < width:
            return None
        count = int.from_bytes(size)
        return (1 + width + more + count, 0) if first in _SIZED else (1 + width, count * more)
