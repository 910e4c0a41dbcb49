# SPDX-License-Identifier: Apache-2.0
"""Signals from the readings of one card, compared with its earlier readings.

Pure: readings in, signals out. The comparison does not depend on the vendor, since all vendors give
the same fields. Invariant: an absent field is a signal only if an earlier reading had it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from stoker.agent.devices.fields import SLOWED
from stoker.agent.devices.readings import Absent, CardReadings, Reading
from stoker.agent.health.signals import NODE, RESET, Kind, Signal

MARGIN_C = 3.0
"""A card that is closer than this to its shutdown temperature gets no new jobs."""
SHARE, SHARE_S = 0.5, 10.0
"""Heat holds a card back if it slowed the clocks for more than SHARE of SHARE_S seconds."""
STUCK_S, APART_S = 3.0, 1.5
STUCK_W, STUCK_RATIO = 25.0, 0.25
"""A power sensor is stuck when it repeats a value for STUCK_S while the energy counter shows
another power for APART_S; a sensor that averages follows a load only after a second."""
ENERGY_BACK_J = 1.0
"""An energy counter that falls by more than this shows that the card was reset."""
TROUBLES: dict[str, Kind] = {
    "lost": "lost",
    "refused": "refused",
    "mismatch": "mismatch",
    "missing": "missing",
    "hung": "hung",
}
COUNTERS: tuple[tuple[str, Kind], ...] = (
    ("ecc_corrected", "ecc_corrected"),
    ("ecc_uncorrected", "ecc_uncorrected"),
    ("retired_pages", "page_retired"),
    ("remapped_rows", "page_retired"),
    ("pcie_replays", "pcie_replays"),
)
FLAGS: tuple[tuple[str, Kind], ...] = (
    ("remap_pending", "remap_pending"),
    ("retired_pending", "remap_pending"),
    ("remap_failed", "remap_failed"),
)
ANEW = ("ecc_corrected", "ecc_uncorrected")
"""Counters that fall only when the card was reset or its driver was loaded again."""
BRAKE_WORD = "power brake"
HEAT_WORDS = SLOWED - {BRAKE_WORD}
HEAT_TIMES = ("throttle_thermal_ns", "throttle_hard_thermal_ns")
SAMPLED = ("power_w", "temperature_c", "clock_hz", "energy_j")
ASKS = {
    "reset": RESET,
    "drain and reset": RESET,
    "reset bus": RESET,
    "reboot node": NODE,
    "reboot system": NODE,
    "drain peers": NODE,
    "recover imex domain": NODE,
}
"""NVML's recovery actions (`RECOVERY` in `agent/devices/nvidia/card.py`) -> RESET or NODE."""


class _Told(NamedTuple):
    """A signal before its card and time are added."""

    kind: Kind
    text: str = ""
    number: int = 0
    times: int = 1


class Examiner:
    """The readings of one card over time."""

    def __init__(self, id: str, energy_j: float | None = None) -> None:
        self.id = id
        self.levels: dict[str, float] = {}
        """Field -> the value from which on each of its readings must be examined at once."""
        self.eager = False
        """True while nothing of the card can be read though it was read before."""
        self._gone = False
        """True from when the card was lost or silent until its readings are there again."""
        self._round_ns = 0
        """The time of the last readings that were told as silent."""
        self._counts: dict[str, float] = {} if energy_j is None else {"energy_j": energy_j}
        self._link_errors: dict[int, float] = {}
        self._were_up: set[int] = set()
        self._known: set[str] = set()
        """The fields of SAMPLED that were read at least once."""
        self._heat: deque[tuple[int, float]] = deque(maxlen=64)
        """(time, ns so far in which heat slowed the clocks), over the last SHARE_S seconds."""
        self._power: tuple[float, int] | None = None
        """(watts that the sensor repeats, since when)."""
        self._apart_ns: int | None = None
        """The time at which the sensor and the energy counter began to differ; None: they agree."""

    @property
    def energy_j(self) -> float | None:
        """The energy counter as last read, or as an earlier agent stored it; None if unknown."""
        return self._counts.get("energy_j")

    def trouble(self, state: str, why: str, now_ns: int) -> list[Signal]:
        """Return the signals that follow from the card's state alone."""
        kind = TROUBLES.get(state)
        if kind is None:
            return []
        self._gone = self._gone or kind == "lost"
        return [Signal(self.id, kind, now_ns, text=_brief(why))]

    def look(self, found: CardReadings, now_ns: int) -> list[Signal]:
        """Return all signals that follow from the readings."""
        if found.state == "starting":
            return []
        said = self.trouble(found.state, found.why, now_ns)
        if said:
            return said
        said = self._silent(found, now_ns)
        if self.eager:
            return said
        if self._gone:
            self._gone = False
            self._counts.clear()
            return [Signal(self.id, "reset_seen", now_ns, text="it answers again")]
        parts = (
            self._counters(found),
            self._levels(found),
            self._links(found),
            self._heat_share(found, now_ns),
            self._sensors(found, now_ns),
        )
        return [
            Signal(self.id, told.kind, now_ns, told.number, told.text, told.times)
            for part in parts
            for told in part
        ]

    def _silent(self, found: CardReadings, now_ns: int) -> list[Signal]:
        """Return a signal for each new round of readings that lacks every field of SAMPLED."""
        read = any(isinstance(found.fields.get(name), Reading) for name in SAMPLED)
        self.eager = bool(self._known) and not read
        if not self.eager or found.t_ns == self._round_ns:
            return []
        self._round_ns, self._gone = found.t_ns, True
        why = found.why_not(SAMPLED[0])
        return [Signal(self.id, "silent", now_ns, text=why)]

    def was_read(self) -> None:
        """Take the card as read by an earlier agent, so that silence from now on is a signal."""
        self._known.add(SAMPLED[0])

    def glance(self, newest: Mapping[str, float], now_ns: int) -> list[Signal]:
        """Return the signals of the power sensor of a card without other new readings."""
        if self.eager or not newest:
            return []
        told = self._stuck(newest.get("power_w"), newest.get("energy_power_w"), now_ns)
        return [Signal(self.id, each.kind, now_ns, text=each.text) for each in told]

    # --- parts ------------------------------------------------------------------------------------

    def _counters(self, found: CardReadings) -> Iterator[_Told]:
        energy = found.number("energy_j")
        if energy is not None:
            if energy < self._counts.get("energy_j", 0.0) - ENERGY_BACK_J:
                yield _Told("reset_seen", "its energy counter began anew")
            self._counts["energy_j"] = energy
        for name, kind in COUNTERS:
            value = found.number(name)
            before = self._counts.get(name)
            if value is None:
                continue
            self._counts[name] = value
            if before is not None and value > before:
                yield _Told(kind, f"{name} {value:g}", times=int(value - before))
            elif before is not None and value < before and name in ANEW:
                yield _Told("reset_seen", f"{name} began anew")

    def _levels(self, found: CardReadings) -> Iterator[_Told]:
        for name, kind in FLAGS:
            flag = found.fields.get(name)
            if isinstance(flag, Reading) and flag.value:
                yield _Told(kind, name)
        asked = found.fields.get("recovery_action")
        if isinstance(asked, Reading) and asked.value != "none":
            yield _Told("recovery", str(asked.value), ASKS.get(str(asked.value), NODE))
        words = found.fields.get("throttle")
        if isinstance(words, Reading):
            for word in HEAT_WORDS.intersection(words.value):
                yield _Told("slowdown", word)
            if BRAKE_WORD in words.value:
                yield _Told("brake")
        yield from self._temperatures(found)

    def _temperatures(self, found: CardReadings) -> Iterator[_Told]:
        die, memory = found.number("temperature_c"), found.number("memory_temperature_c")
        slowdown = found.number("temperature_slowdown_c")
        shutdown = found.number("temperature_shutdown_c")
        most = found.number("memory_temperature_max_c")
        limits = [c for c in (slowdown, shutdown and shutdown - MARGIN_C) if c]
        self.levels = {"temperature_c": min(limits)} if limits else {}
        if most:
            self.levels["memory_temperature_c"] = most
        if die is not None and slowdown and die >= slowdown:
            yield _Told("hot", f"{die:g} C of {slowdown:g} C")
        if die is not None and shutdown and die >= shutdown - MARGIN_C:
            yield _Told("near_shutdown", f"{die:g} C of {shutdown:g} C")
        if memory is not None and most and memory >= most:
            yield _Told("memory_hot", f"{memory:g} C of {most:g} C")

    def _links(self, found: CardReadings) -> Iterator[_Told]:
        ports = found.fields.get("links")
        for port in ports.value if isinstance(ports, Reading) else ():
            number, errors = port["port"], port.get("errors")
            if port["up"]:
                self._were_up.add(number)
            elif number in self._were_up:
                yield _Told("link_down", f"port {number}")
            if errors is None:
                continue
            grown = errors - self._link_errors.get(number, errors)
            self._link_errors[number] = errors
            if grown > 0:
                yield _Told("link_errors", f"port {number}", times=int(grown))

    def _heat_share(self, found: CardReadings, now_ns: int) -> Iterator[_Told]:
        times = [ns for name in HEAT_TIMES if (ns := found.number(name)) is not None]
        if not times or (self._heat and now_ns - self._heat[-1][0] < 0.5e9):
            return
        self._heat.append((now_ns, sum(times)))
        while len(self._heat) > 2 and now_ns - self._heat[1][0] >= SHARE_S * 1e9:
            self._heat.popleft()
        passed = now_ns - self._heat[0][0]
        if passed >= SHARE_S * 1e9:
            share = (self._heat[-1][1] - self._heat[0][1]) / passed
            if share > SHARE:
                yield _Told("throttle_share", f"{share:.0%} of {passed / 1e9:.0f} s")

    def _sensors(self, found: CardReadings, now_ns: int) -> Iterator[_Told]:
        read = {n for n in SAMPLED if isinstance(found.fields.get(n), Reading)}
        missing = sorted(self._known - read)
        self._known |= read
        if missing:
            field = found.fields.get(missing[0])
            yield _Told("lost_samples", field.why if isinstance(field, Absent) else missing[0])
        yield from self._stuck(found.number("power_w"), found.number("energy_power_w"), now_ns)

    def _stuck(self, power: float | None, true: float | None, now_ns: int) -> Iterator[_Told]:
        # A decoded reading and the number of the last round may round the same value differently.
        power = None if power is None else round(power, 3)
        if power is None or self._power is None or self._power[0] != power:
            self._power = None if power is None else (power, now_ns)
        apart = power is not None and true is not None and _differ(power, true)
        self._apart_ns = (self._apart_ns or now_ns) if apart else None
        if self._power is None or self._apart_ns is None:
            return
        same_s, apart_s = (now_ns - self._power[1]) / 1e9, (now_ns - self._apart_ns) / 1e9
        if same_s >= STUCK_S and apart_s >= APART_S:
            yield _Told("stuck_sensor", f"{power:g} W, by energy {true:.0f} W")


def _differ(power: float, true: float) -> bool:
    return abs(true - power) > max(STUCK_W, STUCK_RATIO * true)


def _brief(why: str) -> str:
    """Cut the seconds of waiting off a reason, since they differ in every reading."""
    return why.partition(": no answer for")[0]
