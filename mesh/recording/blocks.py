# SPDX-License-Identifier: Apache-2.0
"""The format of a recording: a line that names it, then blocks of moments, each checked by itself.

Pure. Owns that a damaged block costs what it held and nothing else, and that no byte of a file is
believed before its checksum was compared. The ring, `record` and `replay` use no other format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from stoker.native.errors import Corrupt, NotSupported

FORMAT: Final = 1
"""The number of the format; a file with another number is refused."""
MAGIC: Final = b"stoker recording "
HEADER: Final = MAGIC + b"%d\n" % FORMAT
BLOCK_BYTES_MAX: Final = 64 << 20
"""The largest block as it is stored."""
UNPACKED_BYTES_MAX: Final = 512 << 20
"""The most bytes of one block that are unpacked, whatever a hostile file says."""
LEVEL: Final = 6

_KEY = 1
_head = struct.Struct("<IIqqB")


class Recorded(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The rows of one part at one time, as JSON by key; None where a row is gone.

    `whole` rows replace all that the part had; others are laid over them.
    """

    t_ns: int
    part: str
    rows: dict[str, bytes | None]
    whole: bool = False


class Block(NamedTuple):
    """The place and the times of one whole block. A key block needs nothing before it."""

    offset: int
    size: int
    """The bytes of the whole block, its head included."""
    first_ns: int
    last_ns: int
    key: bool


class Damage(NamedTuple):
    """A stretch of a file that cannot be used, with the reason."""

    offset: int
    size: int
    why: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Recorded])


def encode(moments: Sequence[Recorded], *, key: bool) -> bytes:
    """Return one block; there is at least one moment."""
    packed = zlib.compress(_encoder.encode(moments), LEVEL)
    times = [moment.t_ns for moment in moments]
    rest = struct.pack("<qqB", min(times), max(times), _KEY if key else 0)
    return struct.pack("<II", len(packed), zlib.crc32(packed, zlib.crc32(rest))) + rest + packed


def decode(data: bytes) -> list[Recorded]:
    """Return the moments of one whole block, as `scan` found it."""
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data[_head.size :], UNPACKED_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise Corrupt(f"a block unpacks to more than {UNPACKED_BYTES_MAX} bytes")
        return _decoder.decode(plain)
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a block is not what stoker wrote: {error}") from None


def check_header(data: bytes, name: str) -> int:
    """Return where the blocks of a file begin; Corrupt or NotSupported names the file."""
    line, found, _ = data[:64].partition(b"\n")
    if not data:
        raise Corrupt(f"{name} is empty", hint="record again: stoker record FILE")
    if not line.startswith(MAGIC) or not found or not line[len(MAGIC) :].isdigit():
        raise Corrupt(f"{name} is no recording of stoker", hint="`stoker record FILE` makes one")
    number = int(line[len(MAGIC) :])
    if number != FORMAT:
        raise NotSupported(
            f"{name} is a recording of format {number}, and this stoker reads format {FORMAT}",
            hint="replay it with the version of stoker that made it",
        )
    return len(line) + 1


def scan(data: bytes | memoryview, begin: int) -> Iterator[Block | Damage]:
    """Yield the blocks of a file, and where they are not whole what is wrong.

    Behind a damaged block all is passed over up to the next key block: what lies between builds on
    what is lost.
    """
    offset, lost = begin, False
    while offset < len(data):
        size = _size(data, offset)
        if not size or offset + size > len(data):
            yield Damage(offset, len(data) - offset, "it is cut off in the middle of a block")
            return
        block = _block(data, offset, size)
        lost = block is None or (lost and not block.key)
        if block is None:
            yield Damage(offset, size, "a block has another checksum than its bytes")
        elif lost:
            yield Damage(offset, size, "a block builds on a damaged one")
        else:
            yield block
        offset += size


def _size(data: bytes | memoryview, offset: int) -> int:
    """Return the size that a block says it has; 0 if its head is not whole or is absurd."""
    if offset + _head.size > len(data):
        return 0
    length = _head.unpack_from(data, offset)[0]
    return _head.size + length if 0 < length <= BLOCK_BYTES_MAX else 0


def _block(data: bytes | memoryview, offset: int, size: int) -> Block | None:
    """Return the block at this place, or None if its checksum is another."""
    _, crc, first_ns, last_ns, flags = _head.unpack_from(data, offset)
    if zlib.crc32(data[offset + 8 : offset + size]) != crc:
        return None
    return Block(offset, size, first_ns, last_ns, bool(flags & _KEY))
