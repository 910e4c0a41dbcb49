# SPDX-License-Identifier: Apache-2.0
"""One alert as it is kept, listed and told: which rule, which series, since when, why.

Invariant: whoever is told of a change gets the value and the reason with it; times are
CLOCK_REALTIME in ns.
"""

from __future__ import annotations

from typing import Literal

import msgspec

AlertState = Literal["firing", "resolved"]
Change = Literal["firing", "resolved", "acknowledged"]
_OF_CARD = frozenset({"hw.id", "hw.type", "hw.name", "hw.vendor"})
"""Attributes of a card that its id stands for."""
Series = tuple[tuple[str, str | bool | int | float], ...]
"""The attributes of a series, sorted by name."""


class Acknowledgement(msgspec.Struct, frozen=True):
    """That somebody has seen an alert."""

    by: str
    at_ns: int
    why: str = ""


class Alert(msgspec.Struct, frozen=True):
    """One alert from its firing on."""

    id: int
    rule: str
    metric: str
    series: Series
    state: AlertState
    value: float
    """The value at the last change."""
    reason: str
    """A sentence: the value, the threshold and for how long."""
    fired_ns: int
    resolved_ns: int = 0
    acknowledged: Acknowledgement | None = None
    text: str = ""
    """The advice of the rule."""

    @property
    def simulated(self) -> bool:
        """True if it is about a simulated card."""
        return "SIM" in str(dict(self.series).get("hw.name", ""))

    @property
    def said(self) -> str:
        """The series in words: what distinguishes it, and SIM if its card is simulated."""
        found = dict(self.series)
        plain = [f"{name}={value}" for name, value in self.series if name not in _OF_CARD]
        card = [str(found["hw.id"])] if "hw.id" in found else []
        simulated = ["SIM"] if self.simulated else []
        return " ".join([*card, *simulated, *plain]) or "this node"


class AlertEvent(msgspec.Struct, frozen=True):
    """A change of an alert, as sinks tell it."""

    node: str
    t_ns: int
    change: Change
    alert: Alert
    dropped: int = 0
    """Changes that this sink could not tell before this one."""
