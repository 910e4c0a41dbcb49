# SPDX-License-Identifier: Apache-2.0
"""The names of what a queue or a job may choose: placement, order, options.

Mirrors the enums of `native/core/wire.h`; numbers are stored in the log, so they are only ever
added.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final


class Placement(IntEnum):
    """Which node and devices; QUEUE leaves it to the job's queue, and there to BEST."""

    QUEUE = 0
    BEST = 1
    FGD = 2
    PACK = 3
    SPREAD = 4
    LEAST_LOADED = 5
    RANDOM = 6
    COST = 7
    POWER = 8
    THERMAL = 9
    CUSTOM = 10


class Order(IntEnum):
    """Who is next within a queue."""

    FIFO = 1
    ANY = 2
    BACKFILL = 3
    CONSERVATIVE = 4
    SHORTEST = 5
    LEAST_ATTAINED = 6


FIRST_ORDER: Final = Order.BACKFILL
"""Of queue 0 in a new cluster and of queues made without an order. Measured against the others in
docs/measurements/job-traces.md: one job that can never start stops nobody else, nobody starves, and
nothing depends on estimates, which few give."""


class Option(IntFlag):
    """Options of a job; `native/core/wire.h` says what each means."""

    PREEMPTIBLE = 1
    SPREAD_TASKS = 2
    PACK_TASKS = 4
    ATTRACT = 8
    REPEL = 16
    SAME_LINK = 32
    AFTER_ANY = 64
    PREEMPTOR = 128
    MIX_VENDORS = 256


class Kind(IntFlag):
    """Kinds of devices; those that a job accepts are a set of them."""

    GPU = 1
    CPU = 2


VENDORS_MAX = 16
"""Numbers of vendors that the core tells apart, 0 for one that is not known."""
VENDORS: Final = {"nvidia": 1, "amd": 2, "intel": 3}
"""A vendor's number is stored in the log; a name that is not here has one of the others."""
