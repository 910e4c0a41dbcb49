# SPDX-License-Identifier: Apache-2.0
"""The names of what a queue or a job may choose: placement, order, options.

Relied on by records, mesh (schemas) and tui. Mirrors the enums of `native/core/wire.h`; numbers are
stored in the log, so they are only ever added.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag


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
