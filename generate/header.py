# SPDX-License-Identifier: Apache-2.0
"""A C header of records as data: its constants, enums and structs with their comments and offsets.

It reads the plain C of `native/core/wire.h` and no more; what it does not know is an error. The
compiler checks every offset that is computed here (`generate/layout.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FORMATS: Final = {
    "uint8_t": "B",
    "uint16_t": "H",
    "int16_t": "h",
    "uint32_t": "I",
    "int32_t": "i",
    "uint64_t": "Q",
}
SIZES: Final = {"B": 1, "H": 2, "h": 2, "I": 4, "i": 4, "Q": 8}
BLOCK = re.compile(
    r"(?P<comment>/\*.*?\*/)"
    r"|#define SK_(?P<define>\w+) (?P<value>[^\n/]+?)[ \t]*(?P<said>/\*[^\n]*?\*/)?\n"
    r"|enum sk_(?P<enum>\w+) \{(?P<names>.*?)\n\};"
    r"|struct sk_(?P<struct>\w+) \{(?P<members>.*?)\n\};",
    re.DOTALL,
)
MEMBER = re.compile(
    r"(?P<type>\w+|struct sk_\w+) (?P<name>\w+)(?:\[(?P<count>\w+)\])?;\s*(?P<said>/\*.*?\*/)?",
    re.DOTALL,
)
NAME = re.compile(
    r"(?P<before>/\*(?:(?!\*/).)*\*/)?\s*SK_(?P<name>\w+) = (?P<value>\d+),"
    r"[ \t]*(?P<said>/\*(?:(?!\*/).)*\*/)?",
    re.DOTALL,
)
PYTHON = re.compile(r"Python: (\w+)(?:\((.*?)\))?\s*$", re.DOTALL)


@dataclass(frozen=True)
class Constant:
    """A `#define` with a number. `group` is the class of the flags that it is one of, or empty."""

    name: str
    value: int
    doc: str
    group: str = ""


@dataclass(frozen=True)
class Member:
    """A field of a struct. `type` is a C type or a struct; `count` is 1 without a list."""

    name: str
    type: str
    count: int
    offset: int
    size: int
    doc: str
    array: bool

    @property
    def format(self) -> str:
        """Its characters of a `struct` format; a nested record is bytes."""
        if self.type not in FORMATS:
            return f"{self.size}s"
        return f"{self.count if self.array else ''}{FORMATS[self.type]}"


@dataclass(frozen=True)
class Tuple:
    """A Python form of a struct, from a "Python:" line: its name and its fields as written."""

    name: str
    fields: tuple[str, ...]
    doc: str


@dataclass
class Record:
    """A struct. `flags` are the constants declared right before it."""

    name: str
    members: list[Member]
    size: int
    doc: str
    flags: list[Constant] = field(default_factory=list)
    tuples: list[Tuple] = field(default_factory=list)


@dataclass
class Header:
    """All that a header declares, in its order."""

    constants: dict[str, Constant] = field(default_factory=dict)
    enums: dict[str, list[Constant]] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    """Enum or group of flags -> the sentence before it."""
    records: dict[str, Record] = field(default_factory=dict)
    variants: dict[str, dict[int, Tuple]] = field(default_factory=dict)
    """Enum of kinds -> kind -> the tuple of a record of that kind."""


def plain(comment: str | None) -> str:
    """The words of a C comment as one line."""
    text = re.sub(r"^/\*|\*/$", "", comment or "")
    return " ".join(re.sub(r"\n\s*\*?", "\n", text).replace(" - ", " ").split())


def read(path: Path) -> Header:
    """Every declaration of a header."""
    header = Header()
    _Reader(header, None).read(path.read_text(encoding="utf-8"))
    return header


def read_more(header: Header, path: Path, structs: tuple[str, ...] | None) -> None:
    """Adds another header, or some structs of it, which may use what is known already."""
    _Reader(header, structs).read(path.read_text(encoding="utf-8"))


class _Reader:
    """Goes through one header; remembers the comment and the constants before a declaration."""

    def __init__(self, header: Header, wanted: tuple[str, ...] | None) -> None:
        self.header = header
        self.wanted = wanted
        self.comment = ""
        self.tuple: Tuple | None = None
        self.group = ""
        self.last: Record | None = None
        self.flags: list[Constant] = []

    def read(self, text: str) -> None:
        for block in BLOCK.finditer(text):
            if block["comment"]:
                self._comment(plain(block["comment"]))
            elif block["define"]:
                self._constant(block["define"], block["value"], plain(block["said"]))
            elif block["enum"]:
                self._enum(block["enum"], block["names"])
            elif block["struct"]:
                self._struct(block["struct"], block["members"])
        self._settle()

    def _comment(self, text: str) -> None:
        """A comment that is followed by no struct belongs to the one before it."""
        self._settle()
        named = PYTHON.search(text)
        self.comment = text[: named.start()].strip() if named else text
        self.group = named[1] if named and named[2] is None else ""
        self.tuple = _tuple(text)
        if self.group:
            self.header.docs[self.group] = self.comment

    def _settle(self) -> None:
        if self.tuple is not None and self.last is not None:
            self.last.tuples.append(self.tuple)
        self.tuple = None

    def _constant(self, name: str, value: str, doc: str) -> None:
        if value == "UINT64_MAX":
            number = (1 << 64) - 1
        elif not re.fullmatch(r"\(?-?\d+\)?u?", value):
            return
        else:
            number = int(value.strip("()u"))
        constant = Constant(name, number, doc, self.group)
        self.header.constants[name] = constant
        self.flags.append(constant)

    def _enum(self, name: str, names: str) -> None:
        found = []
        for each in NAME.finditer(names):
            text = plain(each["before"] or each["said"])
            if form := _tuple(text):
                self.header.variants.setdefault(name, {})[int(each["value"])] = form
                text = form.doc
            found.append(Constant(each["name"], int(each["value"]), text))
        self.header.enums[name] = found
        self.header.docs[name] = self.comment
        self.flags, self.group = [], ""

    def _struct(self, name: str, body: str) -> None:
        if self.wanted is not None and name not in self.wanted:
            return
        members: list[Member] = []
        at = 0
        for found in MEMBER.finditer(body):
            member = self._member(found, at, name)
            members.append(member)
            at = member.offset + member.size
        record = Record(name, members, at, self.comment, self.flags)
        self.header.records[name] = self.last = record
        self._settle()
        self.flags, self.group, self.comment = [], "", ""

    def _member(self, found: re.Match[str], at: int, record: str) -> Member:
        type_ = found["type"].removeprefix("struct sk_")
        if type_ in FORMATS:
            each = SIZES[FORMATS[type_]]
            if at % each:
                raise ValueError(f"{record}.{found['name']} at {at} leaves a hole before it")
        elif type_ in self.header.records:
            each = self.header.records[type_].size
        else:
            raise ValueError(f"{record}.{found['name']} has the unknown type {type_}")
        count = self._number(found["count"]) if found["count"] else 1
        array = found["count"] is not None
        return Member(found["name"], type_, count, at, each * count, plain(found["said"]), array)

    def _number(self, text: str) -> int:
        if text.isdigit():
            return int(text)
        return self.header.constants[text.removeprefix("SK_")].value


def _tuple(text: str) -> Tuple | None:
    """The tuple that a comment names, with the sentences before its line."""
    named = PYTHON.search(text)
    if named is None or named[2] is None:
        return None
    return Tuple(named[1], tuple(_split(named[2])), text[: named.start()].strip())


def _split(fields: str) -> list[str]:
    """Split fields at the commas that stand in no parentheses."""
    return [each.strip() for each in re.split(r",(?![^()]*\))", fields) if each.strip()]
