# SPDX-License-Identifier: Apache-2.0
"""Copies of the simulated driver libraries that lack functions, as those of an older driver do.

In the copy's table of dynamic symbols a missing function is an undefined weak one: a lookup does
not find it, and the rest of the library is unchanged. Format: System V gABI, chapters 4 (sections)
and 5 (symbols).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stoker.native.errors import BadRequest

_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_DYNSYM, _FUNCTION, _WEAK = 11, 2, 2


def copy(libraries: dict[Path, Path], parts: Iterable[str]) -> list[str]:
    """Copy each library to its place, without the functions that have any of `parts` in their name.

    Returns their names. BadRequest, without a copy, for a part that is in no name.
    """
    files = {to: bytearray(library.read_bytes()) for library, to in libraries.items()}
    missing: list[str] = []
    for part in parts:
        found = [name for image in files.values() for name in _remove(image, part)]
        if not found:
            raise BadRequest(f"fault missing: no function of a simulated driver has {part!r} in it")
        missing += found
    for to, image in files.items():
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(image)
        to.chmod(0o755)
    return missing


def _remove(image: bytearray, part: str) -> list[str]:
    """Make the functions with `part` in their name undefined; return their names."""
    removed = []
    table, size, texts = _dynamic_symbols(image)
    for at in range(table, table + size, _SYMBOL.size):
        name_at, info, other, section, _, _ = _SYMBOL.unpack_from(image, at)
        begin = texts + name_at
        name = image[begin : image.index(0, begin)].decode()
        if section and info & 0xF == _FUNCTION and part in name:
            _SYMBOL.pack_into(image, at, name_at, _WEAK << 4 | _FUNCTION, other, 0, 0, 0)
            removed.append(name)
    return removed


def _dynamic_symbols(image: bytearray) -> tuple[int, int, int]:
    """Return the offset and size of the table, and the offset of its texts."""
    (first,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    sections = [_SECTION.unpack_from(image, first + number * size) for number in range(count)]
    (table,) = [each for each in sections if each[1] == _DYNSYM]
    return table[4], table[5], sections[table[6]][4]
