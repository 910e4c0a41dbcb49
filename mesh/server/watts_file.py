# SPDX-License-Identifier: Apache-2.0
"""The watts of device models as an operator states them in `config.toml`.

Guarantees that a table with a wrong figure is refused by name and never used in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from stoker.native import config_table
from stoker.native.errors import BadRequest
from stoker.scheduler.hints import ModelPower

MODELS_MAX: Final = 64
"""The most models that the file may name, and that the core takes."""
WATTS_MAX: Final = 100_000


class StatedWatts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table `[models."NAME"]`."""

    idle_w: float
    """Watts that a device of this model draws when it does nothing."""
    full_w: float
    """Watts that it draws at full load."""


def read(path: Path) -> dict[str, ModelPower]:
    """Return the watts of each model in the tables `[models."NAME"]`; BadRequest if one is wrong.

    A table has `idle_w` and `full_w`. Without the file there are none.
    """
    rows = config_table.read(path, "models", dict[str, StatedWatts], check)
    return {model: ModelPower(row.idle_w, row.full_w) for model, row in rows.items()}


def check(rows: Mapping[str, StatedWatts]) -> None:
    """Raise BadRequest for too many models, or figures that no device has."""
    if len(rows) > MODELS_MAX:
        raise BadRequest(f"watts of {len(rows)} models, at most {MODELS_MAX}")
    for model, row in rows.items():
        if not 0 <= row.idle_w <= row.full_w <= WATTS_MAX or not row.full_w:
            raise BadRequest(
                f"models.{model}: idle_w is {row.idle_w:g} and full_w {row.full_w:g},"
                f" not 0 <= idle_w <= full_w <= {WATTS_MAX} with full_w above 0"
            )
