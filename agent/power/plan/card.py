# SPDX-License-Identifier: Apache-2.0
"""What the power loop knows of a card: its ranges, once, and what its driver said of it, each tick.

Nothing here is true power or true load: a value is what a vendor's call answered, and None where it
answered nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

RETURN_SHARE: Final = 0.15
"""Of its default limit is kept for a card that is off the bus: what such a card draws idle when it
is back, at about 0.1, and its error. No job is placed on it before its limit is set again."""


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


@dataclass(frozen=True, slots=True)
class PowerCard:
    """One card as the loop is told of it."""

    id: str
    power: PowerRange | None
    """None: no limit can be set; what it draws is then measured and taken off the budget."""
    clocks: ClockRange | None
    """None: clocks cannot be held down."""
    ceiling_c: float
    """Die temperature that must not be passed."""
    idle_w: float = 75.0
    """A first guess, until the card was seen idle."""
    memory_w: float = 150.0
    """Of the memory at full bandwidth; a guess."""
    most_w: float = 0.0
    """Of one without limits: what it can draw, as far as that is known; 0: it is not."""

    @property
    def return_w(self) -> float:
        """What is kept for it while it is off the bus and draws nothing."""
        return RETURN_SHARE * (self.power.default_w if self.power else self.most_w)


class PowerSample(NamedTuple):
    """One card's answers, all taken at about `t_ns` on one clock."""

    card: str
    t_ns: int
    limit_w: float | None = None
    """The limit in force, read back."""
    power_w: float | None = None
    """Averaged and late, as the driver has it."""
    energy_j: float | None = None
    """Since whenever; only differences count."""
    clock_mhz: float | None = None
    busy: float | None = None
    """0 to 1."""
    memory_busy: float | None = None
    """0 to 1."""
    temperature_c: float | None = None
    power_limited: bool | None = None
    """The throttle reason of the power limit."""
    heat_limited: bool | None = None
    """The throttle reasons of temperature."""
    traffic_bytes: float | None = None
    """Cumulative, over PCIe and links; its rate goes with the work done."""
    traffic_ns: int = 0
    """When that was read, where it is read more seldom than the rest; 0: at `t_ns`."""
    gone: bool = False
    """It is off the bus, or has to be reset: it does no work, and nothing else is known of it."""
