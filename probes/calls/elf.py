# SPDX-License-Identifier: Apache-2.0
"""Symbols, probe notes and code of a shared library, from its file alone.

The file belongs to a job and may be damaged, hostile or replaced while it is read: every offset is
checked, nothing is mapped, and any contradiction raises BadRequest (damaged) or NotSupported (not
64-bit little-endian). Dynamic symbols are found as the loader finds them, so a stripped library is
as good as any. Format: System V gABI, chapters 4 and 5; GNU versions: LSB core, 10.7; notes:
systemtap's wiki, UserSpaceProbeImplementation.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cached_property

import msgspec

from stoker.native.errors import BadRequest, NotSupported

PART_MAX = 16 << 20
"""The longest table that is read."""
ENTRIES_MAX = 1 << 18
"""The most symbols, sections or notes that are read."""

MACHINES = {62: "x86_64", 183: "aarch64"}

_PT_LOAD, _PT_DYNAMIC = 1, 2
_SHT_SYMTAB, _SHT_NOTE = 2, 7
_KINDS = {0: "notype", 1: "object", 2: "func", 10: "ifunc"}
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 4, 5, 6, 10
_DT_GNU_HASH, _DT_VERSYM, _DT_VERDEF = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC
_HIDDEN = 0x8000


class Symbol(msgspec.Struct, frozen=True):
    """A defined function or variable. `default`: a program linked today gets this version."""

    name: str
    address: int
    size: int
    kind: str
    """func, ifunc (the address is of a resolver), object (a variable) or notype."""
    version: str = ""
    default: bool = True


class UsdtNote(msgspec.Struct, frozen=True):
    """A probe in the library's source; `semaphore` is an address, 0: none."""

    provider: str
    name: str
    address: int
    semaphore: int


class _Part(msgspec.Struct, frozen=True):
    """A segment or a section: `kind` is p_type or sh_type."""

    kind: int
    address: int
    offset: int
    size: int
    flags: int
    name: int = 0
    link: int = 0


class ElfFile:
    """One library, read through the caller's descriptor."""

    def __init__(self, fd: int, name: str = "the library") -> None:
        self._fd, self._name = fd, name
        self.size = os.fstat(fd).st_size
        head = self._pread(0, 64)
        if head[:4] != b"\x7fELF":
            raise self._damaged("it is no ELF file")
        if head[4:6] != b"\x02\x01":
            raise NotSupported(f"{name} is not a 64-bit little-endian library")
        fields = struct.unpack_from("<HHIQQQIHHHHHH", head, 16)
        self.machine = MACHINES.get(fields[1], f"machine {fields[1]}")
        self._segments_at, self._sections_at = fields[4], fields[5]
        self._segment_count, self._section_count, self._names_at = fields[9], fields[11], fields[12]
        if (self._segment_count and fields[8] != 56) or (self._section_count and fields[10] != 64):
            raise self._damaged("its headers have a size that is none")

    def symbols(self, name: str) -> list[Symbol]:
        """Return every definition of function `name` that other libraries can see."""
        found = self._dynamic_symbols.get(name, [])
        return [symbol for symbol in found if symbol.kind != "object"]

    def variable(self, name: str) -> Symbol | None:
        """Return the variable of this name that other libraries can see, or None."""
        found = self._dynamic_symbols.get(name, [])
        return next((symbol for symbol in found if symbol.kind == "object"), None)

    @property
    def base(self) -> int:
        """Return the address at which the beginning of the file is loaded, before it is moved."""
        first = (part for part in self._segments if part.kind == _PT_LOAD and not part.offset)
        return next((part.address for part in first), 0)

    def inner(self, name: str) -> list[Symbol]:
        """Return the exported functions of this name, else internal ones of an unstripped file."""
        found = self._full_symbols.get(name, [])
        return self.symbols(name) or [each for each in found if each.kind != "object"]

    @cached_property
    def usdt(self) -> list[UsdtNote]:
        """Return the probes of `sys/sdt.h` and the like; none if section headers are stripped."""
        base = next((p.address for p in self._sections if self._is(p, b".stapsdt.base")), None)
        return [
            note
            for part in self._sections
            if part.kind == _SHT_NOTE and self._is(part, b".note.stapsdt")
            for note in _stapsdt(self._part(part), base)
        ]

    def offset_of(self, address: int, *, code: bool = False) -> int:
        """Return the file offset of an address; with `code`, only in executable segments."""
        for part in self._segments:
            inside = part.address <= address < part.address + part.size
            if part.kind == _PT_LOAD and inside and (part.flags & 1 or not code):
                return address - part.address + part.offset
        raise self._damaged(f"address {address:#x} lies in no{' executable' * code} part of it")

    def code(self, address: int, count: int) -> bytes:
        """Return the first bytes at an address, fewer at the end of the file."""
        offset = self.offset_of(address, code=True)
        return self._pread(offset, max(0, min(count, self.size - offset)))

    # --- tables -----------------------------------------------------------------------------------

    @cached_property
    def _segments(self) -> list[_Part]:
        table = self._pread(self._segments_at, self._segment_count * 56)
        return [
            _Part(kind, address, offset, size, flags)
            for kind, flags, offset, address, _, size, _, _ in struct.iter_unpack(
                "<IIQQQQQQ", table
            )
        ]

    @cached_property
    def _sections(self) -> list[_Part]:
        count = self._section_count if self._sections_at else 0
        table = self._pread(self._sections_at, count * 64) if count else b""
        return [
            _Part(kind, address, offset, size, flags, name, link)
            for name, kind, flags, address, offset, size, link, _, _, _ in struct.iter_unpack(
                "<IIQQQQIIQQ", table
            )
        ]

    def _is(self, part: _Part, name: bytes) -> bool:
        return _text(self._section_names, part.name) == name

    @cached_property
    def _section_names(self) -> bytes:
        if self._names_at >= len(self._sections):
            return b""
        return self._part(self._sections[self._names_at])

    @cached_property
    def _full_symbols(self) -> dict[str, list[Symbol]]:
        found: dict[str, list[Symbol]] = {}
        for part in self._sections:
            if part.kind == _SHT_SYMTAB and part.link < len(self._sections):
                names = self._part(self._sections[part.link])
                for symbol in _symbols(self._part(part), names, b"", {}):
                    found.setdefault(symbol.name, []).append(symbol)
        return found

    @cached_property
    def _dynamic_symbols(self) -> dict[str, list[Symbol]]:
        dynamic = self._dynamic
        found: dict[str, list[Symbol]] = {}
        if _DT_SYMTAB not in dynamic or _DT_STRTAB not in dynamic:
            return found
        count = self._symbol_count(dynamic)
        table = self._at(dynamic[_DT_SYMTAB], count * 24)
        names = self._at(dynamic[_DT_STRTAB], dynamic.get(_DT_STRSZ, 0))
        versym = self._at(dynamic[_DT_VERSYM], count * 2) if _DT_VERSYM in dynamic else b""
        for symbol in _symbols(table, names, versym, self._versions(dynamic, names)):
            found.setdefault(symbol.name, []).append(symbol)
        return found

    @cached_property
    def _dynamic(self) -> dict[int, int]:
        part = next((part for part in self._segments if part.kind == _PT_DYNAMIC), None)
        if part is None:
            return {}
        table = self._part(part)
        return dict(reversed(list(struct.iter_unpack("<QQ", table[: len(table) // 16 * 16]))))

    def _symbol_count(self, dynamic: dict[int, int]) -> int:
        """Return the number of symbols by the old hash table, or by the new one's last chain."""
        if _DT_HASH in dynamic:
            count = struct.unpack("<II", self._at(dynamic[_DT_HASH], 8))[1]
        elif _DT_GNU_HASH in dynamic:
            count = self._gnu_hash_count(dynamic[_DT_GNU_HASH])
        else:
            return 0
        if count > ENTRIES_MAX:
            raise self._damaged(f"it claims {count} symbols")
        return int(count)

    def _gnu_hash_count(self, address: int) -> int:
        buckets, first, blooms, _ = struct.unpack("<IIII", self._at(address, 16))
        if max(buckets, first, blooms) > ENTRIES_MAX:
            raise self._damaged("its hash table is larger than that of any library")
        chains = address + 16 + blooms * 8 + buckets * 4
        table = self._at(address + 16 + blooms * 8, buckets * 4)
        last = max((each for (each,) in struct.iter_unpack("<I", table)), default=0)
        if last < first:
            return int(first)
        while not struct.unpack("<I", self._at(chains + (last - first) * 4, 4))[0] & 1:
            last += 1
            if last > ENTRIES_MAX:
                raise self._damaged(f"its hash table has no end below {ENTRIES_MAX} symbols")
        return int(last) + 1

    def _versions(self, dynamic: dict[int, int], names: bytes) -> dict[int, str]:
        """Return the names of the versions that the library defines, by index."""
        at = dynamic.get(_DT_VERDEF, 0)
        found: dict[int, str] = {}
        while at and len(found) < ENTRIES_MAX:
            _, _, index, _, _, first, step = struct.unpack("<HHHHIII", self._at(at, 20))
            (name,) = struct.unpack("<I", self._at(at + first, 4))
            if index in found:
                break
            found[index] = _text(names, name).decode(errors="replace")
            at = at + step if step else 0
        return found

    # --- bytes ------------------------------------------------------------------------------------

    def _at(self, address: int, count: int) -> bytes:
        return self._pread(self.offset_of(address), count)

    def _part(self, part: _Part) -> bytes:
        return self._pread(part.offset, part.size)

    def _pread(self, offset: int, count: int) -> bytes:
        if count > PART_MAX:
            raise self._damaged(f"a table of it has {count} bytes")
        if offset + count > self.size:
            raise self._damaged("a table of it lies beyond its end")
        data = os.pread(self._fd, count, offset)
        if len(data) != count:
            raise self._damaged("it ends early")
        return data

    def _damaged(self, why: str) -> BadRequest:
        return BadRequest(f"{self._name} is damaged: {why}")


def _symbols(
    table: bytes, names: bytes, versym: bytes, versions: dict[int, str]
) -> Iterator[Symbol]:
    """Return the defined functions and variables of one symbol table."""
    table = table[: len(table) // 24 * 24]
    for i, (name, info, _, section, address, size) in enumerate(
        struct.iter_unpack("<IBBHQQ", table)
    ):
        kind = _KINDS.get(info & 15)
        if not section or not address or kind is None or i >= ENTRIES_MAX:
            continue
        version = struct.unpack_from("<H", versym, 2 * i)[0] if versym else 1
        text = _text(names, name).decode(errors="replace")
        shown = versions.get(version & ~_HIDDEN, "") if version & ~_HIDDEN > 1 else ""
        yield Symbol(text, address, size, kind, shown, not version & _HIDDEN)


def _text(strings: bytes, at: int) -> bytes:
    if at >= len(strings):
        return b""
    end = strings.find(b"\0", at)
    return strings[at : end if end >= 0 else len(strings)]


def _notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield (owner, type, text) of each note; a truncated one ends the list."""
    at = 0
    while at + 12 <= len(data):
        owner, text, kind = struct.unpack_from("<III", data, at)
        names = at + 12
        texts = names + (owner + 3 & ~3)
        at = texts + (text + 3 & ~3)
        if texts + text > len(data):
            return
        yield data[names : names + owner], kind, data[texts : texts + text]


def _stapsdt(data: bytes, base: int | None) -> Iterator[UsdtNote]:
    for owner, kind, text in _notes(data):
        if owner != b"stapsdt\0" or kind != 3 or len(text) < 24:
            continue
        address, linked_base, semaphore = struct.unpack_from("<QQQ", text)
        moved = base - linked_base if base is not None else 0  # prelinking moves the code
        provider, name, *_ = (*text[24:].split(b"\0"), b"", b"")
        yield UsdtNote(
            provider.decode(errors="replace"),
            name.decode(errors="replace"),
            address + moved,
            semaphore + moved if semaphore else 0,
        )
