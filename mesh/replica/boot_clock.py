# SPDX-License-Identifier: Apache-2.0
"""The scheduler's clock for deadlines: it has no date and counts suspends."""

from __future__ import annotations

import time


def boot_ns() -> int:
    """Return CLOCK_BOOTTIME, by which the replica measures deadlines."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
