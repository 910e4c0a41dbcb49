# SPDX-License-Identifier: Apache-2.0
"""The options of a job as data, from `scheduler/job_options.toml`, and their form in the log."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from generate.header import Header
from generate.names import short, word
from generate.text import docstring, head, joined, listed

KEYS: Final = {
    "name", "type", "default", "shown", "says", "least", "most", "unit", "request", "view", "log",
    "flag",
}  # fmt: skip
FROM_OUTSIDE: Final = {"QUEUE", "CUSTOM", "SCORED"}
"""Placements that no flag names as they are."""
FLAG_KEYS: Final = {
    "name", "place", "param", "type", "choices", "multiple", "is_flag", "default", "show_default",
    "metavar", "help", "arg", "table", "doc", "also",
}  # fmt: skip


@dataclass(frozen=True)
class Flag:
    """One flag of the command line, as the declaration has it."""

    name: str
    place: int
    table: str
    doc: str
    given: dict[str, Any]

    @property
    def param(self) -> str:
        """The argument of the command's function."""
        named: str = self.given.get("param", self.name.removeprefix("--").replace("-", "_"))
        return named


@dataclass(frozen=True)
class Option:
    """One option of a job. A type or a default is Python text."""

    name: str
    type: str
    default: str
    says: str
    request: str
    view: str
    in_log: bool
    least: str = ""
    most: str = ""
    unit: str = ""
    flags: list[Flag] = field(default_factory=list)


@dataclass(frozen=True)
class Declared:
    """The whole declaration. `types`: name of a type -> its values."""

    types: dict[str, list[str]]
    options: list[Option]


def read(path: Path, header: Header) -> Declared:
    """Every option in the order of the log; ValueError for a key that means nothing."""
    declared = tomllib.loads(path.read_text(encoding="utf-8"))
    types: dict[str, list[str]] = declared["types"]
    found = [_option(row, header, types) for row in declared["option"]]
    names = [option.name for option in found]
    if len(set(names)) != len(names):
        raise ValueError("two options have one name")
    return Declared(types, found)


def _option(row: dict[str, Any], header: Header, types: dict[str, list[str]]) -> Option:
    if unknown := set(row) - KEYS:
        raise ValueError(f"{row['name']}: unknown keys {', '.join(sorted(unknown))}")
    given = row["type"].removesuffix("?")
    optional = row["type"].endswith("?")
    type_ = f"{given} | None" if optional else given
    flags = [_flag(row["name"], each, header) for each in row.get("flag", [])]
    for flag in flags:
        values = types.get(given, flag.given.get("choices", []))
        if set(flag.given.get("choices", values)) != set(values):
            raise ValueError(f"{flag.name}: its choices are not the values of {given}")
    return Option(
        name=row["name"],
        type=type_,
        default="None" if optional else _default(row),
        says=row["says"],
        request=_other(row, "request", re.sub(r"\bint\b", "Int", type_)),
        view=_other(row, "view", type_),
        in_log=row.get("log", True),
        least=_limit(row.get("least"), header),
        most=_limit(row.get("most"), header),
        unit=row.get("unit", ""),
        flags=flags,
    )


def _default(row: dict[str, Any]) -> str:
    """The default as Python text: quoted if the type is a string, otherwise as declared."""
    if "shown" in row or "default" not in row:
        return str(row.get("shown", ""))
    quoted = row["type"] == "str" or row["type"].startswith("Literal") or row["type"][0].isupper()
    return f'"{row["default"]}"' if quoted else str(row["default"])


def _other(row: dict[str, Any], where: str, type_: str) -> str:
    """The type in a message, empty where the option is not in it."""
    given = row.get(where, type_)
    return "" if given is False else str(given)


def _limit(value: float | str | None, header: Header) -> str:
    """A number, or the number of a named limit of the core."""
    if isinstance(value, str):
        return str(header.constants[value].value)
    return "" if value is None else repr(value)


def _flag(option: str, row: dict[str, Any], header: Header) -> Flag:
    if unknown := set(row) - FLAG_KEYS:
        raise ValueError(f"{option} {row['name']}: unknown keys {', '.join(sorted(unknown))}")
    given = {key: row[key] for key in row if key not in ("name", "place", "table", "doc")}
    if given.get("choices") == "placement":
        names = short(header.enums["placement"])
        given["choices"] = [word(n.name) for n in names if n.name not in FROM_OUTSIDE]
    return Flag(row["name"], row["place"], row["table"], row["doc"], given)


SAYS: Final = (
    "The options of a job as the log keeps them, and the limits of each.\n\nWritten by"
    " `make generate` from scheduler/job_options.toml; change that file instead. They encode as a"
    " msgpack array, so options are only ever appended, each with a default."
)


def module(declared: Declared) -> str:
    """The text of `scheduler/job_options.py`."""
    imports = [
        "from typing import Final, Literal, NamedTuple",
        "",
        "import msgspec",
    ]
    lines = head(SAYS, imports)
    for name, values in declared.types.items():
        lines += listed(f"{name} = Literal[", (f'"{value}"' for value in values), "]", "")
    lines += ["", "", "class JobOptions(msgspec.Struct, frozen=True, array_like=True, gc=False):"]
    lines += [
        *docstring("A job as it was asked for. Names are kept as they were given.", "    "),
        "",
    ]
    for option in declared.options:
        if option.in_log:
            default = f" = {option.default}" if option.default else ""
            lines += [f"    {option.name}: {option.type}{default}", *docstring(option.says, "    ")]
    return joined([*lines, *_limits(declared.options)])


def _limits(options: list[Option]) -> Iterator[str]:
    yield from ("", "", "class OptionLimit(NamedTuple):")
    yield '    """The least and the most of one option; `unit` is one of `figures`, or empty."""'
    yield from ("", "    option: str", "    least: float", "    most: float", '    unit: str = ""')
    yield from ("", "", "LIMITS: Final = (")
    for option in options:
        if option.most:
            values = [f'"{option.name}"', _number(option.least), _number(option.most)]
            values += [f'"{option.unit}"'] if option.unit else []
            yield f"    OptionLimit({', '.join(values)}),"
    yield from (")", '"""Limits that hold at every door."""')


def _number(text: str) -> str:
    return f"{int(text):_}" if text.lstrip("-").isdigit() else text
