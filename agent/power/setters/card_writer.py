# SPDX-License-Identifier: Apache-2.0
"""One card's settings in a thread of its own: written when asked for, read back all the time.

A driver that hangs blocks this thread alone, and the power loop sees how old the value read back
is. Invariant: only the newest wanted value is written, and after `give_back` only the original one.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from stoker.agent.devices.readings import Absent
from stoker.agent.power.plan.card import ClockRange
from stoker.agent.power.setters.card_setters import CardSetter

TICK_S = 0.1
AGAIN_S = 2.0
SAME_W = 1.0
"""Limits within a watt count as equal, since drivers round."""


class Back(NamedTuple):
    """A limit that was read back."""

    limit_w: float
    t_ns: int
    """Time of reading it, CLOCK_MONOTONIC."""


class CardWriter:
    """Writes and reads back the settings of one card."""

    def __init__(self, id: str, setter: CardSetter, clocks: ClockRange | None) -> None:
        self.id = id
        self.setter = setter
        self._clocks = clocks
        self.back: Back | None = None
        self.refused = ""
        """Reason of the driver that refused the last write."""
        self.unread = ""
        """Reason why the limit in force cannot be read."""
        self._wishes = threading.Lock()
        self._limit_w: float | None = None
        self._clock_mhz: float | None = None
        self._held = False
        """True if this writer may have lowered the clocks."""
        self._again_s = 0.0
        """Time at which a clock that the driver refused is tried again."""
        self._found_w = 0.0
        self._leaving = False
        self.given_back = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"limit of {id}", daemon=True)

    def start(self, found_w: float) -> None:
        """Begin; `found_w` is the limit to restore at the end."""
        self._found_w = found_w
        self._thread.start()

    def want_limit(self, watts: float) -> None:
        with self._wishes:
            self._limit_w = watts
        self._wake.set()

    def want_clock(self, mhz: float) -> None:
        """Ask for a highest clock in MHz; the card's maximum releases the clocks."""
        with self._wishes:
            self._clock_mhz, self._again_s = mhz, 0.0
        self._wake.set()

    def give_back(self) -> None:
        """Restore the original settings and end; `given_back` is set when they were read back."""
        self._leaving = True
        self._wake.set()

    def _run(self) -> None:
        while not self._leaving:
            try:
                self._write()
                self._look()
            except Exception as error:  # a binding may raise anything; the card is tried again
                self.refused = f"its driver's binding failed: {error!r}"
            self._wake.wait(TICK_S)
            self._wake.clear()
        limit = self.setter.set_power_limit(self._found_w)
        clocks = self.setter.reset_clocks() if self._held else None
        self._look()
        back = self.back
        same = back is not None and abs(back.limit_w - self._found_w) < SAME_W
        if same and limit is None and clocks is None:
            self.given_back.set()

    def _write(self) -> None:
        with self._wishes:
            limit, self._limit_w = self._limit_w, None
            clock = self._clock_mhz if time.monotonic() >= self._again_s else None
        wrong = [each for each in (self._set_limit(limit), self._set_clock(clock)) if each]
        if limit is not None or clock is not None:
            self.refused = "; ".join(each.why for each in wrong)

    def _set_limit(self, watts: float | None) -> Absent | None:
        return None if watts is None else self.setter.set_power_limit(watts)

    def _set_clock(self, mhz: float | None) -> Absent | None:
        """Set the clocks; a refused wish is tried again, since nobody reads clocks back."""
        if mhz is None or self._clocks is None:
            return None
        if mhz >= self._clocks.max_mhz:
            problem = self.setter.reset_clocks()
        else:
            self._held = True
            problem = self.setter.set_clock_range(self._clocks.min_mhz, mhz)
        with self._wishes:
            if problem is not None:
                self._again_s = time.monotonic() + AGAIN_S
            elif self._clock_mhz == mhz:
                self._clock_mhz = None
        return problem

    def _look(self) -> None:
        limit = self.setter.power_limit_w()
        self.unread = limit.why if isinstance(limit, Absent) else ""
        if not isinstance(limit, Absent):
            self.back = Back(limit, time.monotonic_ns())
