# SPDX-License-Identifier: Apache-2.0
"""The simulated node of a run (SIM), in virtual time, with the loads that are drawn for it.

Invariant: a policy sees only `readings`, which are the answers of the simulated driver. The true
figures, `truth`, are for the report alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stoker.agent.power.plan.card import ClockRange, PowerCard, PowerRange, PowerSample
from stoker.native import _sim
from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.plant_draw import DrawnCard, Trouble

NVIDIA: Final = 1
FEATURES: Final = 4 | 8 | 16
"""SK_SIM_HAS_ENERGY, _INSTANT_POWER, _LOCKED_CLOCKS."""
WHY_POWER: Final = 1 << 1
WHY_HEAT: Final = 1 << 2 | 1 << 3
S: Final = 1_000_000_000
MS: Final = 1_000_000


class Truth(NamedTuple):
    """True state of the whole node at one moment."""

    work: float
    energy_j: float
    hottest_c: float
    limits_w: float


def model_of(index: int, drawn: DrawnCard, trouble: Trouble | None = None) -> dict[str, Any]:
    """Return the model of a card in the form that native/sim takes."""
    low, high, step = ranges.CLOCK_MHZ
    target, slowdown, shutdown = ranges.TEMPERATURE_C
    return {
        "vendor": NVIDIA,
        "name": "SIM 700 W",
        "uuid": f"GPU-5100b0a7-0000-4000-8000-{index:012x}",
        "bus_id": f"00000000:{0x10 + index:02x}:00.0",
        "minor": index,
        "pcie_gen": 5,
        "pcie_width": 16,
        "memory_bytes": 141 << 30,
        "bandwidth_gb_s": 4800,
        "units": 132,
        "clock_min_mhz": low,
        "clock_max_mhz": high,
        "clock_step_mhz": step,
        "memory_mhz": 3201,
        "limit_min_mw": int(ranges.LIMIT_MIN_W * 1e3),
        "limit_default_mw": int(ranges.TDP_W * 1e3),
        "limit_max_mw": int(ranges.TDP_W * 1e3),
        "target_c": target,
        "slowdown_c": slowdown,
        "shutdown_c": shutdown,
        "memory_max_c": 105,
        "flags": FEATURES,
        "physics": dict(drawn.physics),
        "sensor": _sensor(drawn.sensor, trouble),
    }


def _sensor(drawn: dict[str, float], trouble: Trouble | None) -> dict[str, Any]:
    slower = trouble.amount if trouble and trouble.name == "doubled_delay" else 1.0
    period = round(drawn["period_ms"]) * MS
    return {
        "period_ns": period,
        "window_ns": int(drawn["window_ms"] * slower) * MS,
        "sampled_ns": int(period * drawn["sampled_share"]),
        "delay_ns": int(drawn["delay_ms"] * slower) * MS,
        "gain": drawn["gain"],
        "offset_w": drawn["offset_w"],
        "energy_period_ns": round(drawn["energy_period_ms"]) * MS,
        "temperature_period_ns": round(drawn["temperature_period_ms"]) * MS,
    }


def cards() -> list[PowerCard]:
    """Return the descriptions of the node's cards that the loop gets."""
    low, high, step = ranges.CLOCK_MHZ
    tdp = ranges.TDP_W
    return [
        PowerCard(
            f"sim-{i}",
            PowerRange(ranges.LIMIT_MIN_W, tdp, tdp),
            ClockRange(low, high, step),
            float(ranges.TEMPERATURE_C[0]),
        )
        for i in range(ranges.CARDS)
    ]


class Plant:
    """One node in virtual time."""

    def __init__(self, drawn: Sequence[DrawnCard], seed: int, trouble: Trouble | None) -> None:
        self._drawn = drawn
        self._trouble = trouble
        models = [model_of(i, card, trouble) for i, card in enumerate(drawn)]
        self.node = _sim.Node.create(None, models, True, seed, "power-loop")
        self._next = [0] * len(drawn)
        self._now_ns = 0
        self._struck = trouble is None or trouble.name == "doubled_delay"
        self._load(0)

    def _load(self, until_ns: int) -> None:
        """Set the loads that begin until then."""
        for index, card in enumerate(self._drawn):
            while self._next[index] < len(card.changes):
                change = card.changes[self._next[index]]
                if change.at_s * S > until_ns:
                    break
                self.node.set_load(index, *change.load)
                self._next[index] += 1

    def advance(self, until_ns: int) -> None:
        """Let time pass until then, and change loads at the drawn times."""
        while (at_ns := self._change_ns()) < until_ns:
            self._pass(at_ns)
            self._load(at_ns)
        self._pass(until_ns)
        self._load(until_ns)
        if not self._struck and self._trouble and self._now_ns >= self._trouble.at_s * S:
            self._strike(self._trouble)

    def _change_ns(self) -> int:
        left = [
            int(card.changes[at].at_s * S) + 1
            for card, at in zip(self._drawn, self._next, strict=True)
            if at < len(card.changes)
        ]
        return min(left, default=1 << 62)

    def _pass(self, until_ns: int) -> None:
        if until_ns > self._now_ns:
            self.node.advance(until_ns - self._now_ns)
            self._now_ns = until_ns

    def _strike(self, trouble: Trouble) -> None:
        self._struck = True
        if trouble.name == "lost_samples":
            self.node.inject("drop", -1, value=int(trouble.amount))
        elif trouble.name == "stuck_sensor":
            until = self._now_ns + int(trouble.amount * S)
            self.node.inject("stuck", trouble.card, until_ns=until)
        elif trouble.name == "ambient_step":
            self.node.inject("heat", -1, value=int(trouble.amount * 1000))

    def readings(self) -> list[PowerSample]:
        """Samples that the driver returns now; a card that does not answer is left out."""
        made = (reading_of(f"sim-{i}", self.node.sensor(i)) for i in range(len(self._drawn)))
        return [each for each in made if each is not None]

    def truth(self) -> Truth:
        """Return the true figures, which only the report may use."""
        now = [self.node.truth(i)["now"] for i in range(len(self._drawn))]
        return Truth(
            sum(each["work"] for each in now),
            sum(each["energy_j"] for each in now),
            max(each["die_c"] for each in now),
            sum(each["limit_mw"] for each in now) * 1e-3,
        )


def reading_of(card: str, sensor: dict[str, int] | None) -> PowerSample | None:
    """Return a driver's answers as a sample; temperatures are whole degrees, as NVML gives them."""
    if sensor is None:
        return None
    return PowerSample(
        card,
        sensor["t_ns"],
        limit_w=sensor["limit_mw"] * 1e-3,
        power_w=sensor["power_instant_mw"] * 1e-3,
        energy_j=sensor["energy_mj"] * 1e-3,
        clock_mhz=float(sensor["clock_mhz"]),
        busy=sensor["busy_percent"] * 0.01,
        memory_busy=sensor["memory_busy_percent"] * 0.01,
        temperature_c=float((sensor["temperature_mc"] + 500) // 1000),
        power_limited=bool(sensor["why"] & WHY_POWER),
        heat_limited=bool(sensor["why"] & WHY_HEAT),
        traffic_bytes=float(sensor["pcie_rx_bytes"] + sensor["pcie_tx_bytes"]),
    )
