# SPDX-License-Identifier: Apache-2.0
"""The power loop's decisions: readings in, actions out; no clock, no device, no file.

Each tick takes in the readings, applies the limits that heat demands, and divides the budget. It
lowers limits at once. It raises limits only as far as the ledger has room, and the ledger gets room
only when the lowered limits were read back.

Invariants: no action makes the confirmed limits, the writes under way and the draw that cannot be
capped add up to more than the budget. No action leaves a device's own range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.allocation import PowerShare, Want, allocate
from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.plan.guard import Guard
from stoker.agent.power.plan.ledger import Ledger
from stoker.agent.power.plan.model import CardModel
from stoker.agent.power.plan.rules import PowerRules, check, floor_w, roof_w, tenants_caps

AGAIN_NS: Final = 2_000_000_000
"""Period of dividing the budget anew while nothing is urgent."""
HURRY_NS: Final = 100_000_000
"""The shortest time between two divisions."""
DEAD_W: Final = 8.0
"""Smallest fall of a limit that is written, unless heat or another card needs it."""
HOLD: Final = 0.04
"""A new division is dropped if no share changes by more than this: its limit as a part of the
card's highest, or its clock as a part of the new clock."""
DEAD_HEAT_W: Final = 2.0
DEAD_MHZ: Final = 20.0
RISE_W_PER_S: Final = 1500.0
"""Fastest rise of a limit; limits fall at once, since that keeps the budget."""


class _Slot:
    """State of one card that takes limits."""

    def __init__(self, card: PowerCard, ceiling_c: float) -> None:
        assert card.power is not None
        self.card = card
        self.model = CardModel(card)
        self.guard = Guard(ceiling_c, card.power.max_w)
        self.reading: PowerSample | None = None
        self.share: PowerShare | None = None
        self.clock_mhz = card.clocks.max_mhz if card.clocks else 0.0
        """The highest clock that the card was last set to, in MHz."""
        self.changed_ns = 0
        self.power_w = card.power.default_w
        self.bound_w = card.power.max_w
        """The highest limit that the rules allow the card and its tenants, by the last division."""


class Controller:
    """One node's loop; `step` once a tick."""

    def __init__(self, cards: Sequence[PowerCard], rules: PowerRules, now_ns: int) -> None:
        check(rules, cards)
        self.cards = tuple(cards)
        self.rules = rules
        self.ledger = Ledger(cards, now_ns)
        self._slots = {
            card.id: _Slot(card, rules.ceiling_c or card.ceiling_c)
            for card in cards
            if card.power is not None
        }
        self._divided_ns = -AGAIN_NS
        self._stepped_ns = now_ns
        self._hurry = True
        self.actions = 0
        self.heat_bound = 0
        """Ticks in which heat held a card below its share."""
        self.unkept: dict[str, str] = {}
        """Tenants whose cap cannot be kept, as of the last division, and why."""

    def set_rules(self, rules: PowerRules) -> None:
        """New rules from the next step on; BadRequest or NotFound leaves the old ones."""
        check(rules, self.cards)
        self.rules = rules
        self._hurry = True
        for slot in self._slots.values():
            slot.guard.aim(rules.ceiling_c or slot.card.ceiling_c)

    def step(
        self,
        readings: Sequence[PowerSample],
        now_ns: int,
        holders: Mapping[str, frozenset[str]] | None = None,
    ) -> list[PowerAction]:
        """Actions to take now. `holders`: card -> users whose jobs have it."""
        for reading in readings:
            self._take_in(reading, now_ns)
        caps = self._heat_caps(now_ns)
        due = now_ns - self._divided_ns
        if due >= AGAIN_NS or (self._hurry and due >= HURRY_NS):
            self._divide(now_ns, caps, holders or {})
            self._divided_ns, self._hurry = now_ns, False
        actions = self._limits(now_ns, caps) + self._clocks(now_ns)
        self._stepped_ns = now_ns
        return actions

    # --- what is known ----------------------------------------------------------------------------

    def _take_in(self, reading: PowerSample, now_ns: int) -> None:
        self._hurry |= reading.gone != self.ledger.is_gone(reading.card)
        self.ledger.read(reading)
        slot = self._slots.get(reading.card)
        if slot is None:
            return
        if slot.model.read(reading):
            slot.changed_ns = now_ns
            self._hurry = True
        slot.reading = reading
        if reading.power_w is not None:
            slot.power_w = reading.power_w
        slot.guard.read(now_ns, slot.power_w, reading.temperature_c)

    def _heat_caps(self, now_ns: int) -> dict[str, float]:
        """Card -> the most watts that its temperature allows, for cards limited by heat."""
        caps = {}
        for id, slot in self._slots.items():
            allowed = slot.guard.allowed_w(now_ns)
            if allowed < roof_w(slot.card, self.rules):
                caps[id] = allowed
        return caps

    # --- division ---------------------------------------------------------------------------------

    def _divide(
        self, now_ns: int, caps: Mapping[str, float], holders: Mapping[str, frozenset[str]]
    ) -> None:
        lost = self.ledger.lost(now_ns)
        self.unkept = {}
        present = {id: slot for id, slot in self._slots.items() if id not in lost}
        for id in lost:  # at its floor, whose writing is tried again until the card obeys
            slot, floor = self._slots[id], floor_w(self._slots[id].card, self.rules)
            slot.share = PowerShare(slot.model.max_mhz, floor, floor, False)
        if not present:
            return
        roofs = {
            id: min(roof_w(slot.card, self.rules), caps.get(id, float("inf")))
            for id, slot in present.items()
        }
        floors = {id: floor_w(slot.card, self.rules) for id, slot in present.items()}
        for slot in present.values():
            slot.bound_w = roof_w(slot.card, self.rules)
        self._bound_tenants(roofs, floors, holders)
        wants = {
            id: Want(slot.model.menu(), floors[id], max(floors[id], roofs[id]))
            for id, slot in present.items()
        }
        budget = self.rules.budget_w - self.ledger.uncapped_w(now_ns)
        budget -= sum(self.ledger.counted_w(id, now_ns) for id in lost)
        if not self.rules.budget_w:
            budget = sum(want.roof_w for want in wants.values())
        budget = max(budget, sum(floors.values()))
        shares = allocate(wants, budget, self.rules.give_up)
        if self._differ(shares, wants, budget):
            for id, share in shares.items():
                self._slots[id].share = share

    def _differ(
        self, shares: Mapping[str, PowerShare], wants: Mapping[str, Want], budget_w: float
    ) -> bool:
        """True if a new division differs from the one in force by more than readings' noise."""
        total = 0.0
        for id, share in shares.items():
            old = self._slots[id].share
            if old is None or old.held != share.held or old.limit_w > wants[id].roof_w + 0.5:
                return True
            far = abs(old.limit_w - share.limit_w) / self._slots[id].guard.most_w
            if max(far, abs(old.clock_mhz / share.clock_mhz - 1)) > HOLD:
                return True
            total += old.limit_w
        return total > budget_w + 0.5

    def _bound_tenants(
        self,
        roofs: dict[str, float],
        floors: Mapping[str, float],
        holders: Mapping[str, frozenset[str]],
    ) -> None:
        """Lower the roofs of a tenant's cards to its cap, each by the same part above its floor."""
        for tenant, watts in tenants_caps(self.rules, holders):
            mine = [id for id, users in holders.items() if tenant in users and id in roofs]
            least = sum(floors[id] for id in mine)
            spare = watts - least
            if spare < -0.5:
                self.unkept[tenant] = (
                    f"the cap of tenant {tenant} is {watts:g} W: the lowest limits of the"
                    f" {len(mine)} devices that it holds are {least:g} W, which they stay at"
                )
            over = sum(roofs[id] - floors[id] for id in mine)
            part = min(1.0, max(0.0, spare / over)) if over > 0 else 0.0
            for id in mine if part < 1.0 else ():
                roofs[id] = floors[id] + part * (roofs[id] - floors[id])
                self._slots[id].bound_w = roofs[id]

    # --- actions ----------------------------------------------------------------------------------

    def _limits(self, now_ns: int, caps: Mapping[str, float]) -> list[PowerAction]:
        wanted = {id: self._wanted(slot, caps) for id, slot in self._slots.items() if slot.share}
        now = {id: self.ledger.confirmed_w(id) for id in wanted}
        falls = {id: watts for id, watts in wanted.items() if watts < now[id] - 0.5}
        rises = {id: watts for id, watts in wanted.items() if watts > now[id] + 0.5}
        made = [
            self._limit(id, watts, now_ns, caps)
            for id, watts in falls.items()
            if not self._same(id, watts, now[id], caps, rises)
        ]
        return made + self._rise(rises, now_ns, caps)

    def _wanted(self, slot: _Slot, caps: Mapping[str, float]) -> float:
        """Limit of a card: heat overrides its share, down to the device's lowest limit."""
        assert slot.share is not None and slot.card.power is not None
        id = slot.card.id
        watts = slot.share.limit_w
        if id in caps and caps[id] < watts:
            watts = caps[id]
            self.heat_bound += 1
        return min(max(watts, slot.card.power.min_w), slot.card.power.max_w)

    def _same(
        self,
        id: str,
        watts: float,
        now_w: float,
        caps: Mapping[str, float],
        rises: Mapping[str, float],
    ) -> bool:
        """True if a fall is too small to write, and neither budget, heat, caps nor another card
        needs it, or if an earlier write is still under way."""
        if self.ledger.is_pending(id):
            return True
        over = self.rules.budget_w and self.ledger.committed_w(self._stepped_ns) > (
            self.rules.budget_w + 0.5
        )
        needed = any(
            self._slots[other].share is not None
            and target - self.ledger.confirmed_w(other) > DEAD_W
            for other, target in rises.items()
        )
        hot = id in caps and now_w - watts >= DEAD_HEAT_W
        above = now_w > self._slots[id].bound_w + 0.5
        return now_w - watts < DEAD_W and not (over or needed or hot or above)

    def _rise(
        self, rises: Mapping[str, float], now_ns: int, caps: Mapping[str, float]
    ) -> list[PowerAction]:
        """Raise limits as far as there is room, first for the cards with the greatest need."""
        made: list[PowerAction] = []
        budget = self.rules.budget_w or float("inf")
        room = budget - self.ledger.committed_w(now_ns)
        slew = RISE_W_PER_S * (now_ns - self._stepped_ns) * 1e-9
        order = sorted(rises, key=lambda id: -self._need(id))
        for id in order:
            counted, confirmed = self.ledger.counted_w(id, now_ns), self.ledger.confirmed_w(id)
            if self.ledger.is_pending(id):
                continue
            step = confirmed + max(slew, DEAD_W)
            if rises[id] - step < DEAD_W:  # a later rise by the rest would be too small to write
                step = rises[id]
            watts = min(step, counted + room)
            if watts - confirmed < DEAD_W:
                continue
            room -= max(0.0, watts - counted)
            made.append(self._limit(id, watts, now_ns, caps))
        return made

    def _need(self, id: str) -> float:
        """Watts that the card lacks for its allocation."""
        share = self._slots[id].share
        assert share is not None
        return share.power_w - self.ledger.confirmed_w(id)

    def _limit(self, id: str, watts: float, now_ns: int, caps: Mapping[str, float]) -> PowerAction:
        self.ledger.wrote(id, watts, now_ns)
        return self._action(id, "limit", watts, self._reason(id, watts, caps))

    def _reason(self, id: str, watts: float, caps: Mapping[str, float]) -> str:
        slot = self._slots[id]
        confirmed = self.ledger.confirmed_w(id)
        if id in caps and watts <= caps[id] + 0.5:
            heat = slot.guard.estimate_c or 0.0
            return f"heat: die at {heat:.1f} C, aim {slot.guard.aim_c:.1f} C"
        assert slot.share is not None
        budget = f"of {self.rules.budget_w:g} W" if self.rules.budget_w else "without a budget"
        does = "gives way to" if watts < confirmed else "has more use for power than"
        return f"{does} other cards {budget}: needs {slot.share.power_w:.0f} W"

    def _clocks(self, now_ns: int) -> list[PowerAction]:
        return [
            made
            for id, slot in self._slots.items()
            if slot.share is not None and slot.card.clocks is not None
            for made in self._clock(id, slot, now_ns)
        ]

    def _clock(self, id: str, slot: _Slot, now_ns: int) -> list[PowerAction]:
        assert slot.share is not None and slot.card.clocks is not None
        clocks = slot.card.clocks
        target = slot.share.clock_mhz if slot.share.held else clocks.max_mhz
        steps = round((clocks.max_mhz - target) / clocks.step_mhz)
        target = max(clocks.max_mhz - steps * clocks.step_mhz, clocks.min_mhz)
        if abs(target - slot.clock_mhz) < DEAD_MHZ and target < clocks.max_mhz:
            return []
        if target == slot.clock_mhz:
            return []
        slot.clock_mhz = target
        why = (
            f"above {target:.0f} MHz a watt more gets too little done"
            if target < clocks.max_mhz
            else "its work goes with the clock"
        )
        return [self._action(id, "clocks", target, why)]

    def _action(self, id: str, what: str, value: float, reason: str) -> PowerAction:
        self.actions += 1
        kind = "limit" if what == "limit" else "clocks"
        return PowerAction(id, kind, value, reason, self.actions, self._slots[id].reading)  # type: ignore[arg-type]
