# SPDX-License-Identifier: Apache-2.0
"""Python tuples from the structs of a header: their fields, how they are packed and unpacked.

A field is packed where its member lies and unpacked from there by name alone, so that no order is
written down twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from generate.header import FORMATS, Constant, Header, Member, Record, Tuple
from generate.text import COLUMNS, UNSORTED, docstring, head, joined, listed, sentence

FIELD = re.compile(r"(\w+)(?: as (\w+))?(\?)?(?:: (\w+))?(?:=(.+))?")


@dataclass(frozen=True)
class Slot:
    """A member of a record after nested records were spread out. `at`: its first place."""

    member: Member
    at: int
    places: int
    format: str


@dataclass(frozen=True)
class Field:
    """One field of a tuple."""

    name: str
    type: str
    default: str
    doc: str
    member: str
    packed: str
    unpacked: str
    flag: int = 0
    optional: bool = False


class Layout:
    """The slots of a record and its `struct` format."""

    def __init__(self, header: Header, record: Record, bytes_: frozenset[str]) -> None:
        self.slots: dict[str, Slot] = {}
        self.nested: dict[str, Member] = {}
        self._bytes = bytes_
        self._at = 0
        self._spread(header, record, "")
        self.format = "<" + "".join(slot.format for slot in self.slots.values())

    def _spread(self, header: Header, record: Record, before: str) -> None:
        for member in record.members:
            if member.type in FORMATS or member.array:
                self._add(member, before)
            else:
                self.nested[member.name] = member
                inner = "header." if member.name == "header" else before
                self._spread(header, header.records[member.type], inner)

    def _add(self, member: Member, before: str) -> None:
        whole = member.name in self._bytes or member.type not in FORMATS
        places = 1 if whole else member.count
        form = f"{member.size}s" if whole else member.format
        name = before + (f"zero{self._at}" if member.name == "zero" else member.name)
        if name in self.slots:
            raise ValueError(f"two members are called {name}")
        self.slots[name] = Slot(member, self._at, places, form)
        self._at += places


class Writer:
    """Writes the class of one tuple."""

    def __init__(self, header: Header, record: Record, form: Tuple) -> None:
        self.header = header
        self.record = record
        self.form = form
        parsed = [FIELD.fullmatch(each) for each in form.fields]
        if None in parsed:
            raise ValueError(f"{form.name}: a field is not understood: {form.fields}")
        self.parsed = [each for each in parsed if each is not None]
        whole = frozenset(each[1] for each in self.parsed if each[5] == 'b""')
        self.layout = Layout(header, record, whole)
        self.constant = "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", form.name).upper()
        self.fields = [self._field(each) for each in self.parsed]

    @property
    def kind(self) -> str:
        """The command's kind: the struct's name, or that of a further tuple of the struct."""
        first = self.record.tuples[0] is self.form
        return self.record.name.upper() if first else self.constant[1:]

    @property
    def is_cut(self) -> bool:
        """True if the record ends with a request, whose end is left out where it says nothing."""
        return self.is_command and self.record.members[-1].type == "request"

    @property
    def is_command(self) -> bool:
        return "header" in self.layout.nested

    def _field(self, found: re.Match[str]) -> Field:
        member, name = found[1], found[2] or found[1]
        if member == "term":
            member = "header.term"
        slot = self.layout.slots.get(member)
        default = found[5] or ""
        if slot is None:
            return self._without_slot(name, found[4] or "", default)
        one = f"f[{slot.at}]"
        several = f"f[{slot.at}:{slot.at + slot.places}]"
        doc, type_ = sentence(slot.member.doc), "int"
        packed, unpacked = f"self.{name}", one
        if slot.member.type not in FORMATS:
            return self._of_records(name, found[4], slot, doc)
        if default == "None" or found[3]:
            flag = self._flag(f"HAS_{member.upper()}").value
            unpacked = f"{one} if {self._flags()} & {flag} else None"
            packed = f"self.{name} or 0"
            return Field(
                name, "int | None", default, doc, member, packed, unpacked, flag, optional=True
            )
        if default == 'b""':
            type_, unpacked = "bytes", f'{one} if any({one}) else b""'
        elif slot.member.array:
            type_ = "tuple[int, ...]"
            packed = f"*padded(self.{name}, {slot.places})"
            unpacked = f"tuple(filter(None, {several}))"
        elif found[4] == "bool" or default in ("True", "False"):
            type_, unpacked = "bool", f"bool({one})"
        elif found[4] == "JobState":
            type_, unpacked = "JobState", f"STATES[{one} - 1]"
        return Field(name, type_, default, doc, member, packed, unpacked)

    def _without_slot(self, name: str, type_: str, default: str) -> Field:
        """A flag, or a nested record as the tuple of another struct."""
        if name in self.layout.nested:
            other = Writer(self.header, *_of_tuple(self.header, type_))
            inner = ", ".join(self._inner(field) for field in other.fields)
            doc = sentence(self.layout.nested[name].doc)
            return Field(name, type_, "", doc, name, "", f"{type_}({inner})")
        flag = self._flag(name.upper())
        unpacked = f"bool({self._flags()} & {flag.value})"
        return Field(name, "bool", default, sentence(flag.doc), "", "", unpacked, flag.value)

    def _inner(self, field: Field) -> str:
        """A field of a nested tuple, from this record's slots or by its default."""
        if field.member not in self.layout.slots:
            return field.default
        slot = self.layout.slots[field.member]
        if slot.member.type == "condition":
            return f"unpack_conditions(f[{slot.at}])"
        if slot.member.array:
            return f"tuple(filter(None, f[{slot.at}:{slot.at + slot.places}]))"
        return f"f[{slot.at}]"

    def _of_records(self, name: str, type_: str | None, slot: Slot, doc: str) -> Field:
        count = self.layout.slots.get(f"{slot.member.name}_n") or self.layout.slots[name]
        if slot.member.type == "condition":
            unpacked = f"unpack_conditions(f[{slot.at}])"
            packed = f"pack_conditions(self.{name})"
            return Field(name, "Conditions", "()", doc, name, packed, unpacked)
        if slot.member.type == "share":
            unpacked = f"unpack_shares(f[{count.at}], f[{slot.at}])"
            default = next((f[5] or "" for f in self.parsed if f[1] == name), "")
            return Field(name, "Shares", default, doc, name, f"pack_shares(self.{name})", unpacked)
        unpacked = f"tuple({type_}.unpack_all(f[{slot.at}])[: f[{count.at}]])"
        return Field(name, f"tuple[{type_}, ...]", "", doc, slot.member.name, "", unpacked)

    def _flags(self) -> str:
        name = "header.flags" if self.is_command else "flags"
        return f"f[{self.layout.slots[name].at}]"

    def _flag(self, name: str) -> Constant:
        """The constant of a flag: one declared before the struct, or the only one of that name."""
        near = [c for c in self.record.flags if c.name == name or c.name.endswith(f"_{name}")]
        every = self.header.constants.values()
        found = near or [c for c in every if c.name == name or c.name.endswith(f"_{name}")]
        if len(found) != 1:
            raise ValueError(f"{self.form.name}.{name.lower()} is neither a member nor a flag")
        return found[0]

    def lines(self) -> Iterator[str]:
        """The class with all that belongs to it."""
        yield from ("", "", f'{self.constant} = Struct("{self.layout.format}")')
        yield from list(self.fields_lines())[2:]
        if self.is_command:
            yield from self._pack()
        yield from self._unpack()

    def fields_lines(self) -> Iterator[str]:
        """The class with its fields alone."""
        yield from ("", "", f"class {self.form.name}(NamedTuple):")
        yield from docstring(self.form.doc, "    ")
        yield ""
        for field in self.fields:
            default = f" = {field.default}" if field.default else ""
            yield f"    {field.name}: {field.type}{default}"
            if field.doc:
                yield from docstring(field.doc, "    ")

    def _pack(self) -> Iterator[str]:
        by_member = {field.member: field for field in self.fields}
        values = {"header.size": str(self.record.size), "header.kind": self.kind}
        flags = list(self._packed_flags())
        values["header.flags"] = "flags" if flags else "0"
        for name, slot in self.layout.slots.items():
            if name in by_member:
                values[name] = by_member[name].packed
            elif name == "shares_n":
                values[name] = "len(self.shares)"
            elif name not in values:
                values[name] = ", ".join(["0"] * slot.places)
        self._check(by_member)
        yield from ("", "    def pack(self) -> bytes:")
        yield from flags
        values = {name: values[name] for name in self.layout.slots}
        before, after = ("shortened(", ")") if self.is_cut else ("", "")
        opening = f"return {before}{self.constant}.pack("
        yield from listed(opening, values.values(), f"){after}", "        ")

    def _check(self, by_member: dict[str, Field]) -> None:
        """Every member of a command is in its first tuple: a field cannot be forgotten."""
        if self.record.tuples[0] is not self.form:
            return
        names = {name for name in self.layout.slots if not name.startswith(("zero", "header."))}
        if missing := names - {"shares_n"} - set(by_member):
            raise ValueError(f"{self.form.name} lacks {', '.join(sorted(missing))}")

    def _packed_flags(self) -> Iterator[str]:
        """The lines that put the flags of a command together."""
        before = "flags ="
        for field in self.fields:
            if field.flag:
                test = " is not None" if field.optional else ""
                yield f"        {before} {field.flag} if self.{field.name}{test} else 0"
                before = "flags |="

    def _unpack(self) -> Iterator[str]:
        """A command is unpacked alone, a view also from several in a row."""
        made = self._made()
        yield from ("", "    @classmethod", "    def unpack(cls, raw: bytes) -> Self:")
        if self.is_command:
            whole = f'raw.ljust({self.record.size}, b"\\0")' if self.is_cut else "raw"
            yield from (f"        f = {self.constant}.unpack({whole})", *made)
            return
        yield '        """Make it from exactly one record."""'
        yield f"        return cls.of_values({self.constant}.unpack(raw))"
        yield from ("", "    @classmethod", "    def unpack_all(cls, raw: bytes) -> list[Self]:")
        yield '        """Make one of each of the records that follow each other."""'
        yield f"        return list(map(cls.of_values, {self.constant}.iter_unpack(raw)))"
        yield from self.of_values()

    def _made(self) -> Iterator[str]:
        """The statement that returns the tuple, without the slower `__new__` of a NamedTuple."""
        values = [field.unpacked for field in self.fields]
        end = "))" if len(values) > 1 else ",))"
        yield from listed("return tuple.__new__(cls, (", values, end, " " * 8)

    def of_values(self) -> Iterator[str]:
        """The method that makes the tuple from the values of a record."""
        made = self._made()
        yield from ("", "    @classmethod", "    def of_values(cls, f: tuple[Any, ...]) -> Self:")
        yield from ('        """Make it from values in the order of the record."""', *made)


def _of_tuple(header: Header, name: str) -> tuple[Record, Tuple]:
    for record in header.records.values():
        for form in record.tuples:
            if form.name == name:
                return record, form
    raise ValueError(f"no struct has the tuple {name}")


def plain_lines(header: Header, record: Record) -> Iterator[str]:
    """The class of a struct without a tuple of its own: each member as it is, but padding."""
    layout = Layout(header, record, frozenset())
    title = "".join(part.capitalize() for part in record.name.split("_")) + "Record"
    constant = f"{record.name.upper()}_LAYOUT"
    yield from ("", "", f'{constant} = Struct("{layout.format}")', "", "")
    yield f"class {title}(NamedTuple):"
    yield from docstring(record.doc or f"A `struct sk_{record.name}` as it is.", "    ")
    yield ""
    packed, unpacked = [], []
    for name, slot in layout.slots.items():
        if slot.member.name == "zero":
            packed += ["0"] * slot.places
            continue
        several = slot.places > 1
        own = name if name not in ("count", "index") else f"{name}_"
        type_ = "tuple[int, ...]" if several else "int" if slot.member.type in FORMATS else "bytes"
        yield f"    {own}: {type_}"
        if slot.member.doc:
            yield from docstring(sentence(slot.member.doc), "    ")
        packed.append(f"*padded(self.{own}, {slot.places})" if several else f"self.{own}")
        unpacked.append(f"f[{slot.at}:{slot.at + slot.places}]" if several else f"f[{slot.at}]")
    yield from ("", "    def pack(self) -> bytes:", '        """The record\'s bytes."""')
    yield from listed(f"return {constant}.pack(", packed, ")", " " * 8)
    yield from ("", "    @classmethod", "    def unpack_all(cls, raw: bytes) -> list[Self]:")
    yield '        """Make one of each of the records that follow each other."""'
    fields = listed("cls(", unpacked, ")", " " * 12)
    yield from ("        return [", *fields, f"            for f in {constant}.iter_unpack(raw)")
    yield "        ]"


COMMANDS = (
    "The core's commands as Python tuples: what a caller asks for and what the log stores."
    "\n\nWritten by `make generate` from native/core/wire.h; change that file instead. `pack` gives"
    " the bytes of a record, `unpack` takes exactly one."
)
ARRAY = ("RangeEnd", "SubmitArray")
"""The commands that have a file of their own, since the others fill one."""
ARRAYS = (
    "The core's commands about arrays as Python tuples."
    "\n\nWritten by `make generate` from native/core/wire_array.h; change that file instead. `pack`"
    " gives the bytes of a record, `unpack` takes exactly one."
)
VIEWS = (
    "The core's answers as Python tuples."
    "\n\nWritten by `make generate` from native/core/wire.h and wire_view.h; change them instead."
)
HINTS = (
    "The hints that the core takes, and what it says of them, as Python tuples."
    "\n\nWritten by `make generate` from native/core/core.h; change that file instead."
)


def commands(header: Header) -> str:
    """The text of `scheduler/wire_commands.py`."""
    kinds = [c.name for c in header.enums["kind"]]
    found = [
        Writer(header, record, form)
        for record in header.records.values()
        for form in record.tuples
        if record.members[0].name == "header"
    ]
    used = ["Conditions", "Shares", "pack_conditions", "pack_shares", "padded"]
    used += ["shortened", "unpack_conditions", "unpack_shares"]
    typing = "Final, NamedTuple, Self"
    lines = _module(COMMANDS, [*kinds, "NO_LIMIT", "Kind", "Order", "Placement"], used, typing)
    lines.insert(lines.index("from struct import Struct"), CALLABLE)
    array = f"from stoker.scheduler.wire_array import {', '.join(ARRAY)}"
    lines.insert(lines.index(next(n for n in lines if "wire_fields" in n)), array)
    for writer in found:
        lines += writer.lines() if writer.form.name not in ARRAY else ()
    sizes = [f"{writer.kind}: {writer.record.size}" for writer in found]
    lines += ["", "", *listed("SIZES: Final[dict[int, int]] = {", sizes, "}", "")]
    lines += ['"""Bytes of a command by kind."""', ""]
    unpack = [f"{writer.kind}: {writer.form.name}.unpack" for writer in found]
    types = "Final[dict[int, Callable[[bytes], Command]]]"
    names = [writer.form.name for writer in found]
    request = [name for name in names if name != "Place"]
    lines += _union("Request", request, "Commands that `propose` takes.")
    lines += _union("Command", [*request, "Place"], "Commands that the log may hold.")
    lines += listed(f"UNPACK: {types} = {{", unpack, "}", "")
    return joined([*lines, '"""Readers of the bytes of one command, by kind."""'])


def array_command(header: Header) -> str:
    """The text of `scheduler/wire_array.py`."""
    writers = [Writer(header, *_of_tuple(header, name)) for name in ARRAY]
    used = ["Conditions", "pack_conditions", "padded", "unpack_conditions"]
    kinds = [writer.kind for writer in writers]
    lines = _module(ARRAYS, [*kinds, "Kind", "Placement"], used, "NamedTuple, Self")
    return joined([*lines, *(line for writer in writers for line in writer.lines())])


def views(header: Header) -> str:
    """The text of `scheduler/wire_views.py`."""
    writers = [
        Writer(header, record, form)
        for record in header.records.values()
        for form in record.tuples
        if record.members[0].name != "header"
    ]
    used = ["Shares", "unpack_conditions", "unpack_shares"]
    lines = _module(VIEWS, ["STATES", "JobState", "Kind"], used, "Any, NamedTuple, Self")
    submit = "from stoker.scheduler.wire_commands import Submit"
    lines.insert(lines.index(next(n for n in lines if "wire_fields" in n)), submit)
    for writer in writers:
        lines += writer.lines()
    return joined(lines)


def hints(header: Header, plain: tuple[str, ...]) -> str:
    """The text of `scheduler/wire_hints.py`; `plain`: structs without a tuple of their own."""
    fields = "from stoker.scheduler.wire_fields import padded"
    imports = ["from struct import Struct", "from typing import NamedTuple, Self", "", fields]
    lines = head(HINTS, imports, UNSORTED)
    for name in plain:
        lines += plain_lines(header, header.records[name])
    return joined(lines)


EFFECTS = (
    "The effects of an applied batch as Python tuples, one for each kind."
    "\n\nWritten by `make generate` from native/core/wire.h; change that file instead."
)


def effects(header: Header) -> str:
    """The text of `scheduler/wire_effects.py`."""
    record = header.records["effect"]
    forms = header.variants["effect_kind"]
    writers = {kind: Writer(header, record, form) for kind, form in forms.items()}
    names = [writer.form.name for writer in writers.values()]
    lines = _module(
        EFFECTS, ["STATES", "JobState"], ["Shares", "unpack_shares"], "Any, NamedTuple, Self"
    )
    lines.insert(lines.index("from struct import Struct"), CALLABLE)
    lines += ["", f'_EFFECT = Struct("{writers[1].layout.format}")']
    for writer in writers.values():
        lines += [*writer.fields_lines(), *writer.of_values()]
    lines += ["", "", *_union("Effect", names, "One effect.")]
    kinds = [f"{kind}: {writer.form.name}.of_values" for kind, writer in writers.items()]
    types = "dict[int, Callable[[tuple[Any, ...]], Effect]]"
    lines += [*listed(f"_OF_KIND: {types} = {{", kinds, "}", ""), "", ""]
    lines += ["def unpack_effects(raw: bytes) -> list[Effect]:"]
    lines += ['    """The effects of a batch in their order."""']
    return joined([*lines, "    return [_OF_KIND[f[0]](f) for f in _EFFECT.iter_unpack(raw)]"])


CALLABLE = "from collections.abc import Callable"


def _module(says: str, names: list[str], used: list[str], typing: str) -> list[str]:
    """The lines before the first class; `used`: of wire_fields, `typing`: of that module."""
    one = "from stoker.scheduler.wire_fields import "
    names_used = sorted(used, key=lambda name: (not name[0].isupper(), name))
    fields = listed(f"{one}(", names_used, ")", "")
    if len(one) + len(", ".join(names_used)) <= COLUMNS:
        fields = [one + ", ".join(names_used)]
    before = "from stoker.scheduler.wire_names import "
    named = listed(f"{before}(", sorted_names(names), ")", "")
    if len(named) == 1:
        named = [before + ", ".join(sorted_names(names))]
    imports = ["from struct import Struct", f"from typing import {typing}", "", *fields, *named]
    return head(says, imports, UNSORTED)


def sorted_names(names: list[str]) -> list[str]:
    """Return constants first, then classes, as the linter sorts them."""
    return sorted(names, key=lambda name: (not name.isupper(), name))


def _union(name: str, names: list[str], says: str) -> list[str]:
    lines = [f"{name} = ("]
    line = "   "
    for number, each in enumerate(names):
        part = f" | {each}" if number else f" {each}"
        if len(line) + len(part) > 100:
            lines.append(line)
            line = "   "
        line += part
    return [*lines, line, ")", f'"""{says}"""', ""]
