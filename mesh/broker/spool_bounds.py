# SPDX-License-Identifier: Apache-2.0
"""The room for the spooled output of all jobs: `[spool]` in config.toml, and its defaults.

The leading scheduler gives the stream these bounds, and each broker gets the room on disk that they
need. Owns that no bound is below what one job may ask for.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from stoker.native import config_table
from stoker.native.errors import BadRequest
from stoker.scheduler.job_options import LIMITS

DAYS_MAX = 366
BYTES_MAX = 1 << 40
_OPTION = next(each for each in LIMITS if each.option == "spool_output_bytes")
BYTES_MIN = 2 * _OPTION.most
"""Both streams of one job that spools as much as it may."""


class SpoolBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[spool]`; it is meant to be the same on every server."""

    bytes: int = 256 << 20
    """Bytes of spooled output of all jobs; beyond that the oldest is discarded. Each broker gets
    twice as much room on its disk, from its next start on."""
    days: int = 7
    """Days after which spooled output is discarded."""

    @property
    def store_bytes(self) -> int:
        """The room on disk of one copy: a block file is freed only when all in it was discarded."""
        return 2 * self.bytes

    @property
    def age_ns(self) -> int:
        """The time for which a piece is kept."""
        return self.days * 86_400_000_000_000


def read(path: Path) -> SpoolBounds:
    """Return the bounds of a `config.toml`, or the defaults; BadRequest says what is wrong."""
    return config_table.read(path, "spool", SpoolBounds, check)


def check(bounds: SpoolBounds) -> None:
    """Raise BadRequest for bounds that make no sense."""
    if not BYTES_MIN <= bounds.bytes <= BYTES_MAX:
        raise BadRequest(f"spool.bytes is {bounds.bytes}, from {BYTES_MIN} to {BYTES_MAX}")
    if not 1 <= bounds.days <= DAYS_MAX:
        raise BadRequest(f"spool.days is {bounds.days}, from 1 to {DAYS_MAX}")
