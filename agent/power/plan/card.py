# SPDX-License-Identifier: Apache-2.0
"""A card as the power plan knows it: its ranges, read once, and a sample of it each tick.

Values are a driver's answers, with the errors of its sensors, and not the true power or load.
Invariant: a value that the driver did not give is None.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

RETURN_SHARE: Final = 0.15
"""The share of its default limit that is kept for a card off the bus: the draw at rest, about 0.1,
and the error of that. No job is placed on the card before its limit is set again."""


class PowerRange(NamedTuple):
    """Limits that the device takes, in watts; `default_w` is what it has after a reset."""

    min_w: float
    default_w: float
    max_w: float

    def __str__(self) -> str:
        return f"{self.min_w:g} to {self.max_w:g} W"


class ClockRange(NamedTuple):
    """Clocks that the device takes, in MHz."""

    min_mhz: float
    max_mhz: float
    step_mhz: float


class PowerCard(msgspec.Struct, frozen=True):
    """One card as the loop is told of it."""

    id: str
    power: PowerRange | None
    """None: no limit can be set; what it draws is then measured and taken off the budget."""
    clocks: ClockRange | None
    """None: clocks cannot be held down."""
    ceiling_c: float
    """The highest permitted die temperature."""
    idle_w: float = 75.0
    """Draw at rest; a guess until the card was seen idle."""
    memory_w: float = 150.0
    """Draw of the memory at full bandwidth; a guess."""
    most_w: float = 0.0
    """The most that a card without limits can draw, if known; otherwise 0."""

    @property
    def return_w(self) -> float:
        """Watts that are kept for the card while it is off the bus and draws nothing."""
        return RETURN_SHARE * (self.power.default_w if self.power else self.most_w)


class PowerSample(NamedTuple):
    """One card's readings, all taken at about `t_ns` on one clock."""

    card: str
    t_ns: int
    limit_w: float | None = None
    """The limit in force, read back."""
    power_w: float | None = None
    """Draw as the driver reports it, averaged and late."""
    energy_j: float | None = None
    """Counter with any origin; only differences count."""
    clock_mhz: float | None = None
    busy: float | None = None
    """0 to 1."""
    memory_busy: float | None = None
    """0 to 1."""
    temperature_c: float | None = None
    power_limited: bool | None = None
    """True if the driver names the power limit as a throttle reason."""
    heat_limited: bool | None = None
    """True if the driver names a temperature as a throttle reason."""
    traffic_bytes: float | None = None
    """Bytes over PCIe and links so far; their rate follows the work done."""
    traffic_ns: int = 0
    """Time of `traffic_bytes`, which may be read less often; 0: `t_ns`."""
    gone: bool = False
    """True if the card is off the bus or needs a reset: it does no work, and has no other field."""
