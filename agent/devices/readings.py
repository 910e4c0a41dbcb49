# SPDX-License-Identifier: Apache-2.0
"""Readings of a card at one moment: each field a value with unit and error, or an absence.

Invariant: a missing value is an Absent with the driver's own words, never 0 and never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

State = Literal[
    "ok",
    "starting",  # its first round is not over
    "hung",  # a call has not returned for HUNG_S
    "lost",  # fell off the bus, or has to be reset
    "refused",  # the driver refuses this user
    "mismatch",  # driver and library are of different versions
    "missing",  # no library, no driver, or too old for every fast field
]
"""State of a card by its answers; this type does not say what to do about it."""

Trouble = Literal["", "lost", "refused", "mismatch", "missing"]


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One value and how far it can be trusted."""

    value: Any
    """A number, a text, a flag, or a list of objects (links, processes, partitions)."""
    unit: str = ""
    """SI: W, J, C, B, B/s, Hz, s, ns; "1" for ratios and counts; empty for what has none."""
    t_ns: int = 0
    """CLOCK_REALTIME ns when it was read, or the driver's own stamp."""
    window_ns: int = 0
    """It is a mean over so long before `t_ns`; 0: a moment, a counter, or not known."""
    error: float | None = None
    """Half-width, in `unit`, within which the true value lies; None: not known."""
    note: str = ""
    """Where the error comes from, or what else a reader must know."""


class Absent(msgspec.Struct, frozen=True, gc=False):
    """No value, and why, in the driver's own words."""

    why: str
    trouble: Trouble = ""
    """Its meaning for the whole card, if any."""


Field = Reading | Absent
Fields = dict[str, Field]


class CardReadings(msgspec.Struct, frozen=True):
    """All that is known of one card. A new one replaces the old one whole."""

    id: str
    t_ns: int
    """CLOCK_REALTIME ns of the last round."""
    fields: Mapping[str, Field]
    state: State = "ok"
    why: str = ""
    """Reason for a state that is not ok, in words."""
    sim: bool = False

    def number(self, name: str) -> float | None:
        """The value of a numeric field; None where there is none."""
        found = self.fields.get(name)
        if not isinstance(found, Reading) or isinstance(found.value, bool):
            return None
        return float(found.value) if isinstance(found.value, int | float) else None

    def why_not(self, name: str) -> str:
        """Why a field has no value; empty if it has one."""
        found = self.fields.get(name)
        if found is None:
            return "it is not read from this device"
        return found.why if isinstance(found, Absent) else ""


def plain(field: Field) -> dict[str, Any]:
    """As it crosses the mesh: `{"value", "unit", "t_ns", ...}` or `{"absent"}`."""
    if isinstance(field, Absent):
        return {"absent": field.why}
    made: dict[str, Any] = {"value": field.value, "unit": field.unit, "t_ns": field.t_ns}
    if field.window_ns:
        made["window_ns"] = field.window_ns
    if field.error is not None:
        made["error"] = field.error
    if field.note:
        made["note"] = field.note
    return made
