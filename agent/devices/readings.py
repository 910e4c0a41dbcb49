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
"""State of a card by the driver's answers; health decides what follows from it."""

Trouble = Literal["", "lost", "refused", "mismatch", "missing"]


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One value, its time, and its error."""

    value: Any
    """A number, a text, a flag, or a list of objects (links, processes, partitions)."""
    unit: str = ""
    """W, J, C, B, B/s, Hz, s or ns; "1" for ratios and counts; empty for a value without a unit."""
    t_ns: int = 0
    """CLOCK_REALTIME ns at which it was read, or the driver's own stamp."""
    window_ns: int = 0
    """Duration before `t_ns` over which the value is a mean; 0 for a momentary value, a counter, or
    an unknown window."""
    error: float | None = None
    """Half-width, in `unit`, within which the true value lies; None: not known."""
    note: str = ""
    """Source of the error, or another remark for the reader."""


class Absent(msgspec.Struct, frozen=True, gc=False):
    """A missing value, with the reason in the driver's own words."""

    why: str
    trouble: Trouble = ""
    """State of the whole card that follows from this absence, if any."""


Field = Reading | Absent
Fields = dict[str, Field]


class CardReadings(msgspec.Struct, frozen=True):
    """All fields of one card at one time; never changed, only replaced by newer ones."""

    id: str
    t_ns: int
    """CLOCK_REALTIME ns of the last round."""
    fields: Mapping[str, Field]
    state: State = "ok"
    why: str = ""
    """Reason of a state that is not ok."""
    sim: bool = False

    def number(self, name: str) -> float | None:
        """The value of a numeric field; None if it is absent or no number."""
        found = self.fields.get(name)
        if not isinstance(found, Reading) or isinstance(found.value, bool):
            return None
        return float(found.value) if isinstance(found.value, int | float) else None

    def why_not(self, name: str) -> str:
        """Return why a field has no value; empty if it has one."""
        found = self.fields.get(name)
        if found is None:
            return "it is not read from this device"
        return found.why if isinstance(found, Absent) else ""


def plain(field: Field) -> dict[str, Any]:
    """JSON form of a field: `{"value", "unit", "t_ns", ...}` or `{"absent"}`."""
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
