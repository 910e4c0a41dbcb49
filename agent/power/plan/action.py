# SPDX-License-Identifier: Apache-2.0
"""An action of the power loop on one card, with its reason and the readings behind it.

Invariant: an action is within the device's own range, whatever the rules say.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stoker.agent.power.plan.card import PowerSample


class PowerAction(msgspec.Struct, frozen=True):
    """Set this card's limit, or hold its clocks down; exactly one of the two."""

    card: str
    what: Literal["limit", "clocks"]
    value: float
    """A power limit in watts, or the highest clock in MHz."""
    reason: str
    number: int
    """Counts every action of a controller, from 1."""
    rests_on: PowerSample | None
    """The card's newest readings when it was decided."""

    def __str__(self) -> str:
        unit = "W" if self.what == "limit" else "MHz"
        return f"{self.card} {self.what} {self.value:.0f} {unit}: {self.reason}"
