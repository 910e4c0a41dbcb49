# SPDX-License-Identifier: Apache-2.0
"""The limits of a new cluster, `[limits]` of config.toml; they are read once, for its genesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.native import config_table
from stoker.native.errors import BadRequest
from stoker.scheduler.core import Core, Limits

LIMIT_MAX = (1 << 31) - 1
"""No limit is larger; the core's own maxima are lower."""


def read(path: Path) -> Limits:
    """Return the limits of a `config.toml`, or the defaults; BadRequest says what is wrong."""
    table = config_table.read(path, "limits", dict[str, Any])
    try:
        return changed(Limits(), table)
    except BadRequest as error:
        raise BadRequest(f"{path}: [limits]: {error.message}") from None


def changed(limits: Limits, wanted: Mapping[str, Any]) -> Limits:
    """Return limits with some replaced; BadRequest for an unknown one, or one the core refuses."""
    for name, value in wanted.items():
        if name not in Limits._fields:
            raise BadRequest(f"there is no limit {name!r}, only {', '.join(Limits._fields)}")
        if type(value) is not int or not 1 <= value <= LIMIT_MAX:
            raise BadRequest(f"{name} is {value!r}, from 1 to {LIMIT_MAX}")
    made = limits._replace(**wanted)
    Core(made)
    return made
