# SPDX-License-Identifier: Apache-2.0
"""The faults of a config.toml: each by its line and key, with what is wrong and what to do.

Pure. Invariant: every key of the file is known or a fault, all faults are found at once, and no
text of a fault shows the value of a secret setting.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import msgspec

from stoker.agent.config import lines
from stoker.agent.config.tables import CHECKS, TABLES
from stoker.native import setting
from stoker.native.errors import BadRequest
from stoker.native.setting import bare

BYTES_MAX = 1 << 20
"""The largest file that is read."""
SHOWN_MAX = 40
"""The characters of a wrong value that a fault shows."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list in [ ]",
    "object": "a table",
    "null": "nothing",
}

Keys = tuple[str | int, ...]
"""The keys that lead to a value; items of a list by number, from 0."""


class FileFault(NamedTuple):
    """One fault."""

    path: Keys
    """The keys that lead to it; none for a file that is not TOML."""
    text: str
    line: int = 0
    """Its line, from 1; 0 if it is not known."""

    @property
    def row(self) -> dict[str, Any]:
        """The fault for a program; a line that is not known is None."""
        return {"setting": lines.dotted(self.path), "line": self.line or None, "text": self.text}

    def at(self, file: Path | str) -> str:
        """Return the fault as one line: file, line, key, what is wrong."""
        key = lines.dotted(self.path)
        place = f"{file}:{self.line}" if self.line else str(file)
        return f"{place}: {key} {self.text}" if key else f"{place}: {self.text}"


def read(path: Path) -> tuple[dict[str, Any], list[FileFault]]:
    """Return the tables of a file and its faults; no tables if there is none. BadRequest if it
    cannot be read at all."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from None
    if len(data) > BYTES_MAX:
        raise BadRequest(f"{path} has more than {BYTES_MAX >> 20} MiB")
    return parse(data)


def parse(data: bytes) -> tuple[dict[str, Any], list[FileFault]]:
    """Return the tables of a text and its faults; no tables if it is not TOML."""
    try:
        text = data.decode()
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        wrong = f"byte {error.start} is {data[error.start]:#04x}"
        return {}, [FileFault((), f"it is not UTF-8: {wrong}")]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return {}, [_not_toml(str(error))]
    return tables, [each._replace(line=_line(text, each.path)) for each in found(tables)]


def found(tables: Mapping[str, Any]) -> list[FileFault]:
    """Return the faults of the tables, in the file's order."""
    faults = [fault for name, value in tables.items() for fault in _table(name, value)]
    wrong = {fault.path[0] for fault in faults}
    for name, check in CHECKS.items():
        if name in tables and name not in wrong:
            faults += _checked(name, check, msgspec.convert(tables[name], TABLES[name]))
    return faults


def _line(text: str, path: Keys) -> int:
    """Return the line of a key; of what it would be in, if it is missing."""
    places = (lines.of(text, path[:length]) for length in range(len(path), 0, -1))
    return next((place for place in places if place), 0)


def _not_toml(said: str) -> FileFault:
    """Return the fault of a text that is no TOML, of which tomllib says where it is."""
    place = re.search(r" \(at line (\d+), column (\d+)\)", said)
    if place is None:
        return FileFault((), f"it is not TOML: {said}")
    what = said.replace(place[0], f" at column {place[2]}")
    return FileFault((), f"it is not TOML: {what}", int(place[1]))


def _checked(name: str, check: Any, table: Any) -> Iterator[FileFault]:
    try:
        check(table)
    except BadRequest as error:
        key = re.match(rf"{name}(?:\[(\d+)\])?\.(\w+) ", error.message)
        if key is None:
            yield FileFault((name,), f"is wrong: {error.message}")
            return
        item = (int(key[1]) - 1,) if key[1] else ()
        yield FileFault((name, *item, key[2]), error.message.removeprefix(key[0]))


def _table(name: str, value: Any) -> Iterator[FileFault]:
    if name not in TABLES:
        yield _unknown((name,), TABLES)
    else:
        yield from _walk(value, TABLES[name], (name,), secret=False)


def _walk(value: Any, annotation: Any, path: Keys, *, secret: bool) -> Iterator[FileFault]:
    """Yield the faults of one value; those of a table or list are those of its parts."""
    kind, secret = bare(annotation), secret or setting.of(annotation).secret
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        yield from _struct(value, kind, path, secret=secret)
    elif origin is dict and isinstance(value, dict):
        for name, each in value.items():
            yield from _walk(each, arguments[1], (*path, name), secret=secret)
    elif origin in (list, tuple) and isinstance(value, list):
        for index, each in enumerate(value):
            yield from _walk(each, arguments[0], (*path, index), secret=secret)
    elif origin is Literal and value not in arguments:
        choices = " or ".join(json.dumps(each) for each in arguments)
        yield FileFault(path, f"is {_shown(value, secret=secret)}: say {choices}")
    else:
        yield from _leaf(value, annotation, path, secret=secret)


def _struct(
    value: Mapping[str, Any], kind: type[msgspec.Struct], path: Keys, *, secret: bool
) -> Iterator[FileFault]:
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    for name, each in value.items():
        if name in known:
            yield from _walk(each, known[name].type, (*path, name), secret=secret)
        else:
            yield _unknown((*path, name), known)
    for name, field in known.items():
        if field.required and name not in value:
            yield FileFault(path, f"has no {name}: it must have one")


def _leaf(value: Any, annotation: Any, path: Keys, *, secret: bool) -> Iterator[FileFault]:
    try:
        msgspec.convert(value, annotation)
    except msgspec.ValidationError as error:
        said = str(error).partition(" - at ")[0].removeprefix("Expected ")
        said = re.sub(r"`([a-z]+)(?: \| null)?`", lambda kind: _KINDS.get(kind[1], kind[0]), said)
        said = said.partition(", got")[0]
        yield FileFault(path, f"is {_shown(value, secret=secret)}: it must be {said}")


def _unknown(path: Keys, known: Iterable[str]) -> FileFault:
    from difflib import get_close_matches  # only a wrong name needs it

    near = get_close_matches(str(path[-1]), list(known), n=1, cutoff=0.6)
    what = "is no setting" if len(path) > 1 else "is no table of settings"
    remedy = f"perhaps {near[0]} is meant" if near else f"known are {', '.join(known)}"
    return FileFault(path, f"{what}: {remedy}")


def _shown(value: Any, *, secret: bool) -> str:
    if secret:
        return setting.HIDDEN
    if isinstance(value, str) and "://" in value:
        value = setting.shown_url(value)
    text = json.dumps(value, default=str)
    return text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…"
