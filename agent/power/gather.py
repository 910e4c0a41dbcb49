# SPDX-License-Identifier: Apache-2.0
"""Snapshots of the samplers as the power loop takes them.

Invariant: absent fields stay absent. The one exception is the measure of work done, which every
card needs: it is traffic over PCIe, else time in which memory worked, else time in kernels.
"""

from __future__ import annotations

from typing import Final

from stoker.agent.devices.readings import Absent, CardReadings
from stoker.agent.devices.readings import Reading as Value
from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.setters.card_setters import CardSetter

CEILING_C: Final = 85.0
"""Ceiling of a card that does not report its slowdown temperature."""
BELOW_SLOWDOWN_C: Final = 5.0
MHZ: Final = 1e6
LIMITS: Final = ("power_limit_max_w", "power_limit_default_w", "power_limit_w")
TRAFFIC: Final = ("pcie_tx_bytes", "pcie_rx_bytes")


def describe(
    id: str, setter: CardSetter | Absent, readings: CardReadings | None
) -> tuple[PowerCard | None, str]:
    """The plan's description of a card, or None and the reason why the card takes no part."""
    slowdown = readings.number("temperature_slowdown_c") if readings else None
    ceiling = slowdown - BELOW_SLOWDOWN_C if slowdown else CEILING_C
    range = setter if isinstance(setter, Absent) else setter.limits()
    if isinstance(setter, Absent) or isinstance(range, Absent):
        why = range.why if isinstance(range, Absent) else ""
        power = readings.number("power_w") if readings else None
        if power is None:
            return None, f"{why}; it has no power sensor either"
        return PowerCard(id, None, None, ceiling, most_w=_most_w(readings)), why
    clocks = setter.clock_range()
    return (
        PowerCard(
            id,
            range,
            None if isinstance(clocks, Absent) else clocks,
            ceiling,
            idle_w=0.1 * range.max_w,
            memory_w=0.2 * range.max_w,
        ),
        "",
    )


def _most_w(readings: CardReadings | None) -> float:
    """Return the most that a card can draw whose limit cannot be set, if its driver names it."""
    named = [readings.number(name) for name in LIMITS] if readings else []
    return max((each for each in named if each is not None), default=0.0)


class Gather:
    """Turns snapshots into samples, and keeps the sums that samples share."""

    def __init__(self) -> None:
        self.last: dict[str, PowerSample] = {}
        self._worked: dict[str, tuple[int, float]] = {}

    def reading(self, found: CardReadings, limit_w: float | None, t_ns: int) -> PowerSample:
        """A sample from one card's snapshot and the limit read back at `t_ns` (CLOCK_MONOTONIC)."""
        clock = found.number("clock_hz")
        power = found.number("power_w")
        busy, memory = found.number("busy_ratio"), found.number("memory_busy_ratio")
        traffic, traffic_ns = self._traffic(found, memory if memory is not None else busy)
        words = found.fields.get("throttle")
        why = words.value if isinstance(words, Value) else None
        made = PowerSample(
            found.id,
            t_ns,
            limit_w=limit_w,
            power_w=power if power is not None else found.number("power_average_w"),
            energy_j=found.number("energy_j"),
            clock_mhz=clock / MHZ if clock is not None else None,
            busy=busy,
            memory_busy=memory,
            temperature_c=found.number("temperature_c"),
            power_limited=None if why is None else "power limit" in why,
            heat_limited=None if why is None else any("thermal" in each for each in why),
            traffic_bytes=traffic,
            traffic_ns=traffic_ns,
        )
        self.last[found.id] = made
        return made

    def _traffic(self, found: CardReadings, share: float | None) -> tuple[float | None, int]:
        fields = [found.fields.get(name) for name in TRAFFIC]
        values = [each for each in fields if isinstance(each, Value)]
        if values:
            return float(sum(each.value for each in values)), max(each.t_ns for each in values)
        if share is None:
            return None, 0
        at_ns, worked = self._worked.get(found.id, (found.t_ns, 0.0))
        worked += share * max(0, found.t_ns - at_ns)
        self._worked[found.id] = found.t_ns, worked
        return worked, found.t_ns
