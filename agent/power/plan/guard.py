# SPDX-License-Identifier: Apache-2.0
"""The thermal guard of one card: the most power at which its die stays below the ceiling.

It follows a first-order model: one heat capacity behind one thermal resistance. Two gains correct
the model's temperatures of die and inlet by readings, which are whole degrees and late. The inlet
temperature so takes up whatever the model does not know, such as fans and neighbouring cards.
Invariant: without readings it allows less with time, never more.
"""

from __future__ import annotations

from typing import Final

R_C_PER_W: Final = 0.06
C_J_PER_C: Final = 1200.0
"""Thermal resistance and heat capacity of a 700 W card; those of other cards are scaled by their
highest limit."""
MARGIN_C: Final = 1.5
"""Distance of the aim below the ceiling: readings are whole degrees and late."""
REACH_S: Final = 12.0
"""Time in which the die may warm up to the aim."""
GAIN_T: Final = 0.25
GAIN_INLET: Final = 0.12
"""Gains per second of the temperatures of the die and of the inlet."""
HARD_W_PER_S: Final = 60.0
"""Watts by which the allowed power falls in each second at the ceiling, which the model had not
foreseen."""
RELAX_W_PER_S: Final = 10.0
"""Watts of that reduction that are given back in each second below the ceiling."""
STALE_S: Final = 5.0
"""Time without a reading after which the allowed power falls."""
SHRINK_W_PER_S: Final = 20.0
"""Watts by which the allowed power falls in each second after STALE_S without a reading."""


class Guard:
    """The model of one card's temperature, fed with its power and temperature."""

    def __init__(self, ceiling_c: float, max_w: float) -> None:
        scale = 700.0 / max_w if max_w else 1.0
        self._r = R_C_PER_W * scale
        self._c = C_J_PER_C / scale
        self.aim_c = ceiling_c - MARGIN_C
        self._t: float | None = None
        self._inlet = 30.0
        self._at_ns = self._seen_ns = 0
        self.most_w = max_w
        self._less_w = 0.0

    def aim(self, ceiling_c: float) -> None:
        """Set another ceiling."""
        self.aim_c = ceiling_c - MARGIN_C

    def read(self, now_ns: int, power_w: float, temperature_c: float | None) -> None:
        """Take in one reading; None if the temperature is absent."""
        if self._t is None:
            if temperature_c is None:
                return
            self._t = temperature_c
            self._inlet = temperature_c - self._r * power_w
            self._at_ns = self._seen_ns = now_ns
            return
        dt = (now_ns - self._at_ns) * 1e-9
        if dt <= 0:
            return
        self._at_ns = now_ns
        self._t += dt * (power_w - (self._t - self._inlet) / self._r) / self._c
        if temperature_c is None:
            return
        self._seen_ns = now_ns
        if temperature_c >= self.aim_c + MARGIN_C:
            self._less_w = min(self._less_w + HARD_W_PER_S * dt, self.most_w)
        else:
            self._less_w = max(self._less_w - RELAX_W_PER_S * dt, 0.0)
        error = temperature_c - self._t
        self._t += min(1.0, GAIN_T * dt) * error
        self._inlet += min(1.0, GAIN_INLET * dt) * error

    def allowed_w(self, now_ns: int) -> float:
        """The most this card may draw for now; may be below what the device takes."""
        if self._t is None:
            return self.most_w
        steady = (self.aim_c - self._inlet) / self._r
        most = steady + self._c * (self.aim_c - self._t) / REACH_S - self._less_w
        blind_s = (now_ns - self._seen_ns) * 1e-9 - STALE_S
        if blind_s > 0:
            most = min(most, self.most_w) - SHRINK_W_PER_S * blind_s
        return max(0.0, most)

    @property
    def estimate_c(self) -> float | None:
        """The die temperature as the model has it; None before the first reading."""
        return self._t
