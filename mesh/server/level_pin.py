# SPDX-License-Identifier: Apache-2.0
"""The newest feature level that a scheduler takes part in, as its operator pins it.

`[upgrade]` of config.toml. Owns that a pin only narrows what the build supports, so that whoever
waits with an upgrade, or wants to stay able to go back, founds and raises nothing by accident.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.mesh.log.feature_level import BUILD, FeatureRange, narrowed
from stoker.native import config_table
from stoker.native.errors import BadRequest


class LevelPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[upgrade]`."""

    newest_level: int | None = None
    """Newest feature level that this server takes part in; unset: the newest that it knows."""


def read(path: Path) -> FeatureRange:
    """Return the levels that a scheduler takes part in; BadRequest says what is wrong.

    Without the file they are all that the build supports.
    """
    return narrowed(config_table.read(path, "upgrade", LevelPin, check).newest_level)


def check(pin: LevelPin) -> None:
    """Raise BadRequest for a pin below what this build supports."""
    if pin.newest_level is not None and pin.newest_level < BUILD.oldest:
        raise BadRequest(
            f"upgrade.newest_level is {pin.newest_level}, and this stoker supports levels"
            f" {BUILD.text}"
        )
