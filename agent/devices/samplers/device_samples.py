# SPDX-License-Identifier: Apache-2.0
"""Samples of cards for an Observation, which placements read.

Invariant: a value that a card does not have is None with its reason. The reasons of a card are
looked up again only when other values are absent, because that decodes all of its readings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stoker.agent.devices.fields import REASONS
from stoker.agent.devices.readings import CardReadings, Reading
from stoker.agent.devices.samplers.sampled import Sampled
from stoker.scheduler.nouns import DeviceSample

POWERS: Final = ("power_w", "power_average_w", "energy_power_w")
"""Fields for the power of an observation; the first that has a value is taken."""
AT_WORK: Final = 0.1
"""The share of time in which a device works from which on its clock says what it can do."""
_SOURCES: Final = {
    "busy_ratio": "busy_ratio",
    "power_w": "power_w",
    "temperature_c": "temperature_c",
    "limit_c": "temperature_slowdown_c",
    "power_limit_w": "power_limit_w",
    "clock_ratio": "clock_limit_hz",
    "memory_free_bytes": "memory_free_bytes",
    "throttle": "throttle",
}
"""The field whose absence is the reason for that of a value."""

Number = Callable[[str], float | None]


class DeviceSamples:
    """Samples of the cards of a node."""

    def __init__(self) -> None:
        self._absent: dict[str, tuple[frozenset[str], dict[str, str]]] = {}
        """The absent values of each card with their reasons."""

    def newest(self, sampled: Sampled) -> DeviceSample:
        """Return a sample of a card, without decoding its readings where that can be done."""
        found = sampled.newest()
        if not found:
            return sample(sampled.readings())
        values = _values(lambda name: found[name] if name in found else sampled.fixed(name))
        if "throttle" in found:
            bits = int(found["throttle"])
            values["throttle"] = tuple(w for bit, w in enumerate(REASONS) if bits >> bit & 1)
        missing = frozenset(name for name in _SOURCES if values.get(name) is None)
        known, absent = self._absent.get(sampled.card.id, (frozenset(), {}))
        if missing != known:
            readings = sampled.readings()
            absent = {name: _why(readings, name) for name in missing}
            self._absent[sampled.card.id] = missing, absent
        return DeviceSample(sampled.card.id, absent=absent, **values)


def sample(readings: CardReadings) -> DeviceSample:
    """Sample of a card for an Observation."""
    if readings.state == "hung":
        return DeviceSample(readings.id, absent=dict.fromkeys(_SOURCES, readings.why))
    values = _values(readings.number)
    words = readings.fields.get("throttle")
    if isinstance(words, Reading):
        values["throttle"] = tuple(words.value)
    absent = {name: _why(readings, name) for name in _SOURCES if values.get(name) is None}
    return DeviceSample(readings.id, absent=absent, **values)


def _values(number: Number) -> dict[str, Any]:
    busy, free = number("busy_ratio"), number("memory_free_bytes")
    return {
        "busy_ratio": None if busy is None else min(busy, 1.0),
        "power_w": next((w for name in POWERS if (w := number(name)) is not None), None),
        "temperature_c": number("temperature_c"),
        "limit_c": number("temperature_slowdown_c"),
        "power_limit_w": number("power_limit_w"),
        "clock_ratio": _clock_ratio(number, busy),
        "memory_free_bytes": None if free is None else int(free),
    }


def _clock_ratio(number: Number, busy: float | None) -> float | None:
    """Return the part of the highest clock that the device may use; None if nothing tells it."""
    most, allowed = number("clock_max_hz"), number("clock_limit_hz")
    if allowed is None and busy is not None and busy >= AT_WORK:
        allowed = number("clock_hz")
    return None if not most or allowed is None else min(allowed / most, 1.0)


def _why(readings: CardReadings, name: str) -> str:
    """Return why a value is absent."""
    if name == "clock_ratio" and not readings.why_not("clock_limit_hz"):
        return readings.why_not("clock_max_hz") or "its highest clock is not known"
    return readings.why_not(_SOURCES[name]) or "it was not read yet"
