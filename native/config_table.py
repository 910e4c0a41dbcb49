# SPDX-License-Identifier: Apache-2.0
"""One table of `config.toml`, read by the part of stoker that owns it.

Guarantees that a table with a mistake is refused by one line with the file and the table, and that
nothing of it is used.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from stoker.native.errors import BadRequest

T = TypeVar("T")


def read(path: Path, name: str, kind: type[T], check: Callable[[T], None] | None = None) -> T:
    """Return a table as `kind`, which stands for an absent one when it is called without arguments.

    `check` raises BadRequest for values that make no sense together. BadRequest says what is wrong.
    """
    try:
        table = tomllib.loads(path.read_text()).get(name, {})
    except FileNotFoundError:
        return kind()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequest(f"{path}: {error}") from None
    try:
        found = msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{path}: {name}: {error}") from None
    try:
        if check is not None:
            check(found)
    except BadRequest as error:
        raise BadRequest(f"{path}: {error.message}") from None
    return found
