# SPDX-License-Identifier: Apache-2.0
"""Model of one card's draw and work at other clocks, learned from its readings alone.

A step of a job takes time in kernels, a part of which depends on the clock, and time in which the
card waits. With x = highest clock / clock - 1:

    whole(x) = 1 + k x              length of a step; the unknown k is from 0 to 1
    work     = 1 / whole(x)         as a share of the work at the highest clock
    busy     = 1 - rest / whole(x)  rest: idle share at the highest clock
    power    = base + memory x (bandwidth share) + dynamic x busy x (1 + x)^-n    (`draw.py`)

k is first guessed by a roofline, from the busy shares of memory and kernels. It is then fitted to
the rates of traffic over PCIe and links at the clocks that the card had under this load. Rates are
only compared with each other, so the traffic of a unit of work need not be known.
Invariant: a changed load begins with the guess again, and what belongs to the card (base, dynamic,
n) is kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.plan.draw import CardDraw, Shares

UNREAD: Final = (0.8, 0.0, 0.3)
"""k, rest and memory of a card without readings, which is assumed to be busy with work that depends
on the clock."""
UNKNOWN_MHZ: Final = 1000.0
"""The only clock in the menu of a card whose clocks cannot be held down; any value would do."""
POINTS: Final = 18
"""Number of clocks in a menu."""
LOWEST: Final = 0.4
"""Share of the highest clock below which the linear model of a step is not trusted."""
EXPONENT: Final = 2.5
GUESS_ERROR: Final = 0.25
"""Error of the first guess of k."""
RATE_ERROR: Final = 0.003
"""Smallest relative error of a traffic rate."""
CHANGED: Final = 0.12
"""The change, as a share, from which on a ratio that no clock changes shows another load."""
QUANTUM: Final = 0.012
"""Step of utilisation, which drivers report in whole per cent."""
IDLE_BUSY: Final = 0.02
LEAKAGE: Final = 0.05
"""Leakage of a warm die beyond the draw at rest, as a share of the highest limit; a guess."""
SETTLED_NS: Final = 1_200_000_000
"""The time without a change of clock or load after which a reading of power is settled: about the
longest window and delay of a power sensor."""
SAMPLE_NS: Final = 1_000_000_000
FADE: Final = 0.998
"""Weight that a sample keeps when the next one comes: a card whose clock rests learns nothing new,
and must not forget what it learned while the clock moved."""
PAST_RATE: Final = 0.1


class ClockPoint(NamedTuple):
    """One clock of a menu."""

    clock_mhz: float
    power_w: float
    work: float
    """Work relative to a card at full load and its highest clock."""


def _traffic_ns(reading: PowerSample) -> int:
    return reading.traffic_ns or reading.t_ns


def _other(now: float, before: float, quantum: float) -> bool:
    """True if a ratio that does not depend on the clock has changed."""
    return abs(now - before) > CHANGED * (now if now > before else before) + quantum


def _alike(now: PowerSample, before: PowerSample) -> bool:
    """True if clock and limit are unchanged."""
    same = now.limit_w is None or before.limit_w is None or abs(now.limit_w - before.limit_w) < 1
    return same and abs((now.clock_mhz or 0.0) - (before.clock_mhz or 0.0)) < 1


class CardModel:
    """Model of one card, fed with its samples in order."""

    def __init__(self, card: PowerCard) -> None:
        assert card.power is not None
        self.card = card
        self.max_mhz = card.clocks.max_mhz if card.clocks else UNKNOWN_MHZ
        self.draw = CardDraw(
            card.idle_w + LEAKAGE * card.power.max_w,
            card.memory_w,
            0.8 * card.power.default_w,
            card.power.max_w,
        )
        self.exponent = EXPONENT
        self.k, self.rest, self.memory = UNREAD
        self.idle = False
        self._last: PowerSample | None = None
        self._ratios: tuple[float, float] | None = None
        self._sums = [0.0] * 6
        self._samples = 0
        self._odd = 0
        self._since_ns = 0
        self._sampled_ns = 0
        self._grid = self._clocks()

    def _clocks(self) -> list[tuple[float, float, float]]:
        """(clock, x, dynamic power there of a busy card) of the menu, lowest first."""
        if self.card.clocks is None:
            return [(self.max_mhz, 0.0, 1.0)]
        low = max(LOWEST * self.max_mhz, self.card.clocks.min_mhz)
        step = (self.max_mhz - low) / (POINTS - 1)
        clocks = [low + step * i for i in range(POINTS)]
        return [
            (clock, self.max_mhz / clock - 1, (clock / self.max_mhz) ** self.exponent)
            for clock in clocks
        ]

    def read(self, reading: PowerSample) -> bool:
        """Take in the sample of one tick; True if the load has changed."""
        last = self._last
        if None in (reading.clock_mhz, reading.busy, reading.memory_busy, reading.traffic_bytes):
            return self._read_less(reading)
        if not reading.clock_mhz:  # asleep: its clock stands still
            self._last = None
            return self._rested(reading) if (reading.busy or 0.0) < IDLE_BUSY else False
        self._last = reading
        if last is None or not _alike(reading, last):
            self._since_ns = reading.t_ns
        elapsed_ns = _traffic_ns(reading) - _traffic_ns(last) if last is not None else 0
        if last is None or elapsed_ns <= 0:
            return False
        assert reading.clock_mhz and reading.busy is not None and reading.memory_busy is not None
        assert last.clock_mhz and reading.traffic_bytes is not None
        assert last.traffic_bytes is not None
        if reading.busy < IDLE_BUSY:
            return self._rested(reading)
        rate = (reading.traffic_bytes - last.traffic_bytes) / elapsed_ns
        steady = abs(reading.clock_mhz / last.clock_mhz - 1) < 0.004
        changed = self._load_changed(reading.busy, reading.memory_busy, rate)
        if changed:
            self._since_ns = reading.t_ns
            self._begin(reading)
        x = max(0.0, self.max_mhz / reading.clock_mhz - 1)
        if steady and rate > 0 and not changed and not self._odd:
            self._fit(x, 1.0 / rate)
        self._settle(reading, x, steady)
        return changed

    def _read_less(self, reading: PowerSample) -> bool:
        """Take in a sample that lacks fields; True if the card was idle and now works.

        A card that works is assumed to be as busy as UNREAD says.
        """
        if reading.busy is None:
            return False
        if (rests := reading.busy < IDLE_BUSY) != self.idle:
            self._since_ns = reading.t_ns
        if rests:
            return self._rested(reading)
        was, self.idle = self.idle, False
        if was:
            self.k, self.rest, self.memory = UNREAD
        return was

    def _rested(self, reading: PowerSample) -> bool:
        if reading.power_w is not None and self.idle:
            self._fit_power(reading, (1.0, 0.0, 0.0))
        was, self.idle = self.idle, True
        self._ratios = None
        self.rest, self.memory, self.k = 1.0, 0.0, 0.0
        return not was

    def _load_changed(self, busy: float, memory_busy: float, rate: float) -> bool:
        """True if idle time or bandwidth changed relative to traffic, which no clock can cause."""
        if rate <= 0:
            return self.idle
        now = (1 - busy) / rate, memory_busy / rate
        if self.idle or self._ratios is None:
            self._ratios = now
            return True
        # The busy shares cover the last sensor period and the traffic the whole tick, so the ratio
        # of the tick in which the load changes is a mix. The next tick shows the new load.
        quantum = QUANTUM / rate
        (rest, memory), (rest_before, memory_before) = now, self._ratios
        odd = _other(rest, rest_before, quantum) or _other(memory, memory_before, quantum)
        self._odd = self._odd + 1 if odd else 0
        if self._odd >= 2:
            self._ratios = now
            self._odd = 0
            return True
        if not odd:
            self._ratios = (
                rest_before + 0.2 * (rest - rest_before),
                memory_before + 0.2 * (memory - memory_before),
            )
        return False

    def _begin(self, reading: PowerSample) -> None:
        self.idle = False
        self._sums = [0.0] * 6
        self._samples = 0
        assert reading.busy is not None and reading.memory_busy is not None
        self.k = self._guess(reading.busy, reading.memory_busy)

    @staticmethod
    def _guess(busy: float, memory_busy: float) -> float:
        """Guess k: the busier memory is beside the kernels, the less they depend on the clock."""
        bound = min(0.92, max(0.08, (memory_busy / max(busy, 0.05)) ** 2))
        return min(1.0, busy * (1 - bound))

    def _fit(self, x: float, y: float) -> None:
        """Add the point (x, 1 / rate) to the fit of a line, whose slope over its intercept is k."""
        s = self._sums
        self._sums = [
            s[0] * FADE + 1.0,
            s[1] * FADE + x,
            s[2] * FADE + x * x,
            s[3] * FADE + y,
            s[4] * FADE + x * y,
            s[5] * FADE + y * y,
        ]
        self._samples += 1

    def _fitted(self, guess: float) -> float:
        n, sx, sxx, sy, sxy, syy = self._sums
        if self._samples < 3:
            return guess
        mean_x, mean_y = sx / n, sy / n
        spread = max(0.0, sxx / n - mean_x * mean_x)
        if spread < 1e-6:
            return guess
        slope = (sxy / n - mean_x * mean_y) / spread
        level = mean_y - slope * mean_x
        # The line and the guess are weighted by their errors.
        noise = max(0.0, syy / n - mean_y * mean_y - slope * slope * spread) / (mean_y * mean_y)
        doubt = (noise + RATE_ERROR**2) / GUESS_ERROR**2
        trust = n * spread / (n * spread + doubt)
        fitted = slope / level if level > 0 else 1.0
        return trust * min(1.0, max(0.0, fitted)) + (1 - trust) * guess

    def _settle(self, reading: PowerSample, x: float, steady: bool) -> None:
        assert reading.busy is not None and reading.memory_busy is not None
        whole = 1 + self.k * x
        # Utilisation as read, converted to the highest clock.
        rest, memory = (1 - reading.busy) * whole, reading.memory_busy * whole
        if self._samples < 2:
            self.rest, self.memory = rest, memory
        else:
            self.rest += PAST_RATE * (rest - self.rest)
            self.memory += PAST_RATE * (memory - self.memory)
        self.rest = min(1.0, max(0.0, self.rest))
        compute = 1 - self.rest
        self.k = min(self._fitted(self._guess(compute, self.memory)), compute)
        if reading.power_w is not None and steady and not self._odd:
            self._fit_power(reading, self._shares(x))

    def _fit_power(self, reading: PowerSample, shares: Shares) -> None:
        assert reading.power_w is not None
        if reading.t_ns - self._since_ns >= SETTLED_NS:
            if reading.power_limited and reading.limit_w is not None:
                self.draw.limited(reading.power_w, reading.limit_w)
            if reading.t_ns - self._sampled_ns >= SAMPLE_NS:
                self._sampled_ns = reading.t_ns
                self.draw.read(reading.power_w, shares)
        self.draw.follow(reading.power_w, shares)

    def _shares(self, x: float) -> Shares:
        """Shares of this load in the card's power at x: base, memory, kernels."""
        less = 1 / (1 + self.k * x)
        busy = max(0.0, 1 - self.rest * less)
        return 1.0, self.memory * less, busy * float((1 + x) ** -self.exponent)

    def menu(self) -> list[ClockPoint]:
        """Return the clocks from the lowest useful one to the highest; power and work grow."""
        k, rest = self.k, self.rest
        base_w, memory_w, kernels_w = self.draw.parts
        base_w, memory_w = base_w + self.draw.offset_w, memory_w * self.memory
        made = []
        for clock, x, dynamic in self._grid:
            less = 1 / (1 + k * x)
            busy = max(0.0, 1 - rest * less)
            power = base_w + memory_w * less + kernels_w * busy * dynamic
            made.append(ClockPoint(clock, power, (1 - rest) * less))
        return made
