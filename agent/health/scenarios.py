# SPDX-License-Identifier: Apache-2.0
"""Scenarios: faults that are played on simulated cards (SIM), and the action that must follow.

Data alone. The cards are those of the profile `mixed`: 0 and 1 are H200, 2 and 3 L40S, 4 and 5
MI300X, 6 and 7 Max 1550. Invariant: the faults of one wave, which are played together, are on
different cards. All cards are healed between two waves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.agent.health.signals import NODE, RESET, Kind
from stoker.agent.health.table import rules
from stoker.agent.health.xids import Action

PROFILE = "mixed"
FAST: frozenset[Kind] = frozenset(
    {
        "xid",
        "lost",
        "refused",
        "mismatch",
        "missing",
        "hot",
        "near_shutdown",
        "memory_hot",
        "slowdown",
        "brake",
    }
)
"""Signals from events or from readings taken ten times a second; the other signals come from
readings taken once a second."""
FAST_MS, SLOW_MS, HUNG_MS, STUCK_MS = 100.0, 1000.0, 2000.0, 4000.0
"""The time within which a fault must be decided on: after a signal of FAST, after another signal,
for a call that does not return, and for a power sensor that repeats one value."""


class Scenario(NamedTuple):
    """One fault and the signal that it must cause; `at` is the index of the rule that applies."""

    name: str
    wave: int
    card: int
    fault: str
    expect: Kind
    number: int = 0
    at: int = 0
    value: int = 0
    events: int = 0
    call: str = ""
    spread_s: float = 0.0
    """The seconds over which `events` are spread evenly; 0 for all at once."""
    load: tuple[float, float, float] | None = None
    """The load of the card from the fault on; a stuck sensor or a brake shows only under load."""

    @property
    def action(self) -> Action:
        """The action that the table of rules has for the fault."""
        return rules(self.expect, self.number)[self.at].action

    @property
    def shows_s(self) -> float:
        """The seconds from the first event until there are as many events as the rule wants."""
        wanted = rules(self.expect, self.number)[self.at].after
        return self.spread_s * wanted / self.events if wanted > 1 and self.events else 0.0

    @property
    def period_ms(self) -> float:
        """The time within which the agent must decide on the fault, in ms."""
        slow = {"hung": HUNG_MS, "stuck_sensor": STUCK_MS}.get(self.expect, SLOW_MS)
        return FAST_MS if self.expect in FAST else slow

    def told(self) -> dict[str, Any]:
        """Name, fault and expectation, for reports."""
        return {
            "name": self.name,
            "card": self.card,
            "fault": self.fault,
            "signal": self.expect,
            "expected": self.action,
        }


_LOAD = (1.0, 0.6, 0.2)


def _xid(wave: int, card: int, number: int, count: int = 0, at: int = 0) -> Scenario:
    known = 0 if number > 900 else number
    name = f"Xid {number}" + (f", {count} times" if count else "")
    spread = 1.0 if count else 0.0
    return Scenario(
        name,
        wave,
        card,
        "xid",
        "xid",
        known,
        at,
        value=number,
        events=count,
        spread_s=spread,
    )


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("fallen off the bus", 1, 0, "lost", "lost"),
    _xid(1, 1, 31),
    _xid(1, 2, 48),
    _xid(1, 3, 79),
    Scenario("fallen off the bus, AMD", 1, 4, "lost", "lost"),
    Scenario("memory error, AMD", 1, 5, "ecc", "ecc_uncorrected", value=1),
    Scenario("fallen off the bus, Intel", 1, 6, "lost", "lost"),
    Scenario("memory error, Intel", 1, 7, "ecc", "ecc_uncorrected", value=1),
    _xid(2, 0, 63),
    _xid(2, 1, 74),
    _xid(2, 2, 62),
    _xid(2, 3, 95),
    Scenario("link down, AMD", 2, 4, "link", "link_down", value=1),
    Scenario("memory retired, AMD", 2, 5, "pages", "page_retired"),
    Scenario("refused, Intel", 2, 6, "permission", "refused"),
    Scenario("power brake, Intel", 2, 7, "brake", "brake", load=_LOAD),
    _xid(3, 0, 94),
    _xid(3, 1, 149),
    _xid(3, 2, 119),
    _xid(3, 3, 13),
    Scenario(
        "many corrected errors, AMD", 3, 4, "ecc", "ecc_corrected", at=1, events=200, spread_s=0.5
    ),
    Scenario("refused, AMD", 3, 5, "permission", "refused"),
    Scenario("link down", 4, 0, "link", "link_down", value=2),
    Scenario("link errors", 4, 1, "link", "link_errors", at=1, value=3, events=50, spread_s=0.5),
    Scenario("refused", 4, 2, "permission", "refused"),
    Scenario("memory error", 4, 3, "ecc", "ecc_uncorrected", value=1),
    Scenario("a call that hangs, AMD", 4, 4, "hang", "hung", call="amdsmi_get_gpu_metrics"),
    Scenario("a call that hangs, Intel", 4, 7, "hang", "hung", call="zesPowerGetEnergyCounter"),
    Scenario("reset asked for", 5, 0, "recovery", "recovery", RESET, value=1),
    Scenario("restart of the node asked for", 5, 1, "recovery", "recovery", NODE, value=2),
    Scenario("power brake", 5, 2, "brake", "brake", load=_LOAD),
    Scenario("memory not remapped", 5, 3, "pages", "remap_failed", value=1),
    _xid(6, 0, 999),
    Scenario("a call that hangs", 6, 1, "hang", "hung", call="nvmlDeviceGetUtilizationRates"),
    Scenario(
        "near its shutdown temperature", 6, 2, "heat", "near_shutdown", value=900_000, load=_LOAD
    ),
    Scenario("a stuck power sensor", 6, 3, "stuck", "stuck_sensor", load=_LOAD),
    _xid(7, 1, 31, 10_000, 1),
    _xid(8, 2, 92),
    Scenario("driver and library differ", 8, 0, "reload", "mismatch"),
)
"""All scenarios, in the order of their waves."""
WAVES = max(scenario.wave for scenario in SCENARIOS)
