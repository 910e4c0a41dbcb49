# SPDX-License-Identifier: Apache-2.0
"""The clocks of one simulated host, which differ from those of all others.

Owns the difference of the two: CLOCK_BOOTTIME never goes back and never jumps, CLOCK_REALTIME may
be stepped either way by anybody at any moment.
"""

from __future__ import annotations

import random

from stoker.mesh.sim.timeline import SECOND, Timeline

REAL_BEGIN_NS = 1_700_000_000 * SECOND
DRIFT_PPM_MAX = 200
MILLION = 1_000_000


class HostClock:
    """Two clocks that drift against simulated time by up to DRIFT_PPM_MAX."""

    def __init__(self, timeline: Timeline, chance: random.Random) -> None:
        self._timeline = timeline
        self._rate = MILLION + chance.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)
        """The progress of CLOCK_BOOTTIME in a million ns of simulated time."""
        self._boot_offset = chance.randrange(1, 1000) * SECOND
        self._real_offset = REAL_BEGIN_NS + chance.randint(-2 * SECOND, 2 * SECOND)
        self._stopped_ns: int | None = None
        self._steady_since = -1_000_000 * SECOND

    def boot(self) -> int:
        """Return CLOCK_BOOTTIME."""
        now = self._timeline.now if self._stopped_ns is None else self._stopped_ns
        return now * self._rate // MILLION + self._boot_offset

    def real(self) -> int:
        """Return CLOCK_REALTIME."""
        return self._timeline.now + self._real_offset

    def step(self, by_ns: int) -> None:
        """Set CLOCK_REALTIME forward or back."""
        self._real_offset += by_ns

    def stop(self) -> None:
        """Stop CLOCK_BOOTTIME, as for a virtual machine that its host paused."""
        if self._stopped_ns is None:
            self._stopped_ns = self._timeline.now

    def go_on(self) -> None:
        """Let a stopped clock go on from where it stood."""
        if self._stopped_ns is not None:
            self._boot_offset -= self._timeline.now - self._stopped_ns
            self._stopped_ns = None
            self._steady_since = self._timeline.now

    def steady_ns(self) -> int:
        """Return for how long the clock has gone on without a stop; 0 while it stands still."""
        return 0 if self._stopped_ns is not None else self._timeline.now - self._steady_since

    def reboot(self) -> None:
        """Begin CLOCK_BOOTTIME at one second, as a new boot does."""
        self._stopped_ns = None
        self._boot_offset += SECOND - self.boot()
