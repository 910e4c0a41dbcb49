# SPDX-License-Identifier: Apache-2.0
"""The calls about one Intel GPU as data: recorded as they are made once, then made in C.

Relied on by `intel_card.py`. Owns that the card whose calls are answered by a plan is never the one
that calls the driver: it is a second one for the same GPU, and the decoder of that plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.agent.devices.card import Points
from stoker.agent.devices.plan import SLOW, Address, Snapshot, address
from stoker.agent.devices.readings import Fields
from stoker.agent.devices.recorded import Recorded

if TYPE_CHECKING:
    from stoker.agent.devices.intel_card import IntelCard


class IntelPlan:
    """Of `card`, which nobody else uses; `domains` are the handles that it was made with."""

    def __init__(self, binding: Any, card: IntelCard, domains: tuple[Any, ...]) -> None:
        self.card = card
        card.calls.for_good = True
        self.domains = domains

        def at(name: str) -> Address:
            try:
                return address(binding.getFunctionPointerList(name))
            except AttributeError:
                return None

        self._at = at
        self.recorded = self._empty()

    def _empty(self) -> Recorded:
        made = Recorded(self._at)
        made.plan.decoder = self
        return made

    def begin(self) -> None:
        """Make each call once; blocks as the driver does. Twice if there are some that it does not
        support: those are left out then."""
        self.card.ready()
        self._record()
        if self.card.calls.refuses:
            self.recorded = self._empty()
            self._record()
        self.card.tapped(self.recorded.plan)

    def _record(self) -> None:
        self.card.calls.record = self.recorded.record
        self.card.fast()
        self.recorded.every = SLOW
        for step in self.card.steps():
            step()
        self.card.calls.record = None

    @property
    def whole(self) -> bool:
        """Whether everything has its place in the plan."""
        return not self.recorded.full

    @property
    def stale(self) -> bool:
        return bool(self.recorded.lacks)

    def seen(self, points: Points) -> None:
        self.card.seen(points)

    def decode(self, found: Snapshot) -> Fields:
        self.card.answer(self.recorded.answers(found), found.t_ns)
        return self.card.fast()

    def decode_slow(self, found: Snapshot) -> Fields:
        self.card.answer(self.recorded.answers(found), found.slow_ns)
        made: Fields = {}
        for step in self.card.steps():
            made.update(step())
        return made
