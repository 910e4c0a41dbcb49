# SPDX-License-Identifier: Apache-2.0
"""The clock by which the scheduler's process measures: it knows no dates and counts a suspend."""

from __future__ import annotations

import time


def boot_ns() -> int:
    """CLOCK_BOOTTIME: what the replica's deadlines are of."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
