# SPDX-License-Identifier: Apache-2.0
"""The text of a new config.toml: every setting with its description, each behind a `#`.

Pure. Invariant: the text as it is changes nothing, and each line that has a value is the default.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

import msgspec

from stoker.agent.config.tables import TABLES, Field, fields, struct_in
from stoker.native import setting
from stoker.native.setting import bare

WIDTH = 90
HEAD = """\
# The settings of this node. Each line shows a default and does nothing until you remove its `#`.
#   stoker config validate    says what is wrong, line by line
#   stoker config print       shows each value and where it comes from
# `stoker up` reads the file; a running node has changes after `stoker down` and `stoker up`.
# The options of `up` and the variables in ( ) go before what is here.
"""


def text() -> str:
    """Return the whole text."""
    return "\n".join([HEAD, *(line for name in TABLES for line in _table(name, TABLES[name]))])


def toml(value: Any) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{json.dumps(name)} = {toml(each)}" for name, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _table(name: str, annotation: Any) -> Iterator[str]:
    kind, struct = get_origin(bare(annotation)), struct_in(annotation)
    assert struct is not None
    if kind is None:
        yield f"[{name}]"
    else:
        yield f"# [[{name}]]" if kind is list else f'# [{name}."NAME"]'
    nested = []
    for field in fields(struct):
        if struct_in(field.annotation) is None:
            yield from _field(field)
        else:
            nested.append(field)
    yield ""
    for field in nested:
        yield from _table(f"{name}.{field.name}", field.annotation)


def _field(field: Field) -> Iterator[str]:
    mark = setting.of(field.annotation)
    before = " or ".join(each for each in (mark.option, mark.variable) if each)
    said = f"{field.text} ({before})" if before else field.text
    yield from textwrap.wrap(said, WIDTH, initial_indent="# ", subsequent_indent="# ")
    value = None if field.default is msgspec.NODEFAULT else msgspec.to_builtins(field.default)
    yield f"# {field.name} =" if value is None else f"# {field.name} = {toml(value)}"
