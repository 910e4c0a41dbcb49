# SPDX-License-Identifier: Apache-2.0
"""The time that goes into log entries: CLOCK_REALTIME without its steps.

Pure: both clocks come in as arguments. Owns three promises. It never goes back: where the date was
set back, it goes on at the pace of CLOCK_BOOTTIME until the date has caught up, so a pause of a
second is a second. It never leaps while the scheduler runs: where the date was set forward, it
follows at twice that pace, so what is due in an hour is due in half an hour at the soonest. And a
new scheduler begins with the date, but not before the last entry.

A step of the date by D is therefore seen in `times` of jobs for at most as long as D: entries made
meanwhile carry a time that is ahead of the date, or behind it.
"""

from __future__ import annotations

from typing import NamedTuple

SLACK_NS = 1_000_000_000
"""The date may run ahead by so much at once: the correction of a clock that was a little off."""


class Instant(NamedTuple):
    """The moment of one event, by both clocks of a replica."""

    log_ns: int
    """The log's time, which is written into entries."""
    boot_ns: int
    """CLOCK_BOOTTIME, by which deadlines are measured."""


class LogTime:
    """One scheduler's. `read` is to be called at least once for each entry."""

    def __init__(self) -> None:
        self._floor_ns = 0
        self._last: tuple[int, int] | None = None
        """(log time, CLOCK_BOOTTIME) of the last reading."""

    def begin(self, entry_ns: int) -> None:
        """An entry of this time is in the log."""
        self._floor_ns = max(self._floor_ns, entry_ns)

    def read(self, real_ns: int, boot_ns: int) -> int:
        """The time now."""
        now_ns = max(real_ns, self._floor_ns)
        if self._last is not None:
            last_ns, at_ns = self._last
            passed_ns = max(0, boot_ns - at_ns)
            steady_ns = max(last_ns, self._floor_ns) + passed_ns
            slack_ns = self._slack(real_ns - steady_ns, passed_ns)
            now_ns = steady_ns + slack_ns
        self._last = (now_ns, boot_ns)
        return now_ns

    @staticmethod
    def _slack(ahead_ns: int, passed_ns: int) -> int:
        """How much of what the date is ahead is made up now."""
        if ahead_ns <= 0:
            return 0
        return ahead_ns if ahead_ns <= SLACK_NS else min(ahead_ns, passed_ns)
