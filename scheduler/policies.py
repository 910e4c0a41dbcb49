# SPDX-License-Identifier: Apache-2.0
"""The names of the settings of queues and jobs: placement, order, options, kinds of devices."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from stoker.native.errors import BadRequest
from stoker.scheduler.wire_names import VENDORS_MAX, Kind, Option, Order, Placement

__all__ = [
    "FIRST_ORDER",
    "PLACEMENTS",
    "USER",
    "VENDORS",
    "VENDORS_MAX",
    "Kind",
    "Option",
    "Order",
    "Placement",
    "function_name",
    "placement_name",
    "placement_of",
    "word_of",
]

FIRST_ORDER: Final = Order.BACKFILL
"""The order of queue 0 in a new cluster and of queues made without one. It was measured against the
others in docs/measurements/job-traces.md: a job that can never start blocks no other, no job
starves, and nothing depends on estimates, which few jobs have."""

VENDORS: Final = {"nvidia": 1, "amd": 2, "intel": 3}
"""The vendors with a number of their own; the log stores it. Other names share the other numbers.
"""

USER: Final = "user:"
"""The beginning of a placement by a scoring function that the administrator offers."""
_FUNCTION: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_ALIASES: Final = {"pack": "binpack", "bin-pack": "binpack", "cost": "cost-optimized"}
"""Other spellings of placements, and their names."""


PLACEMENTS_KEPT: Final = 256
"""The names of placements whose numbers are kept, since each job asks for one."""


def word_of(placement: Placement) -> str:
    """Return the name of a placement as people write it: "least-loaded"."""
    return placement.name.lower().replace("_", "-")


PLACEMENTS: Final = tuple(
    word_of(each)
    for each in Placement
    if each not in (Placement.QUEUE, Placement.CUSTOM, Placement.SCORED)
)
"""The names of placements that anybody may ask for."""


@lru_cache(PLACEMENTS_KEPT)
def placement_of(name: str) -> Placement:
    """Return the placement with this name; empty is QUEUE. KeyError if there is none."""
    if name.startswith(USER):
        return Placement.SCORED
    return Placement[name.upper().replace("-", "_") or "QUEUE"]


def placement_name(text: str) -> str:
    """Return the name that a placement is kept by; BadRequest if there is none.

    `leastLoaded` and `least_loaded` are `least-loaded`; `pack` and `cost` have longer names now.
    """
    if not text:
        return ""
    if text.startswith(USER):
        return USER + function_name(text.removeprefix(USER))
    spelled = re.sub("(?<=[a-z])(?=[A-Z])", "-", text.strip()).replace("_", "-").lower()
    name = _ALIASES.get(spelled, spelled)
    if name and name not in PLACEMENTS:
        known = ", ".join(PLACEMENTS)
        raise BadRequest(
            f"there is no placement {text[:64]!r}", hint=f"There are: {known}, user:NAME"
        )
    return name


def function_name(name: str) -> str:
    """Return the name of a scoring function; BadRequest if it cannot be one."""
    if not _FUNCTION.fullmatch(name):
        raise BadRequest(
            f"not the name of a scoring function: {name[:64]!r}",
            hint="it has 1 to 32 letters, digits, - and _",
        )
    return name
