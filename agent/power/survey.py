# SPDX-License-Identifier: Apache-2.0
"""The node's cards as the power plan takes them, surveyed at the start and when cards change.

Invariant: the driver of a card in trouble is not called; such a card counts with the power that it
may draw, and nothing of it is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from stoker.agent.devices.card import Card as DeviceCard
from stoker.agent.devices.readings import Absent, CardReadings
from stoker.agent.power.gather import CEILING_C, describe
from stoker.agent.power.inputs import PowerInputs
from stoker.agent.power.plan.card import PowerCard
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.setters.card_setters import CardSetter, setter_of
from stoker.agent.power.setters.driver_calls import DriverCalls


class NodeSurvey:
    """The cards of one node, with a setter for each or the reason why it has none."""

    def __init__(self, inputs: PowerInputs) -> None:
        self._inputs = inputs
        self._defaults: dict[str, float] = {}
        """Default limits of all cards that ever reported one."""
        self.driver_calls = DriverCalls()
        self.done = False
        """False until a survey succeeds, and again when it is found to be out of date."""
        self.cards: list[PowerCard] = []
        self.absent: dict[str, str] = {}
        """Cards that take no part -> the reason."""
        self.setters: dict[str, CardSetter | Absent] = {}
        self.assumed: dict[str, float] = {}
        """Cards in trouble -> the watts that they count with."""
        self.declared: dict[str, float] = {}
        """Devices without a power sensor -> the watts that the rules declare for them."""

    def changed(self, rules: PowerRules) -> bool:
        """True if cards came, went or recovered, or the rules declare other devices."""
        if self.declared != rules.declared:
            return True
        present = {card.id for card in self._inputs.cards()}
        if present != {card.id for card in self.cards} | set(self.absent):
            return True
        readings = self._inputs.readings() if self.assumed else {}
        return any(
            readings[id].state == "ok" and not self.driver_calls.hangs(id)
            for id in self.assumed
            if id in readings
        )

    def take(self, rules: PowerRules) -> bool:
        """Survey the cards; False while the first round of reading one is not over."""
        readings = self._inputs.readings()
        present = self._inputs.cards()
        if any(readings[card.id].state == "starting" for card in present if card.id in readings):
            return False
        troubled = {id: each.why for id, each in readings.items() if each.state != "ok"}
        sound = [card for card in present if card.id not in troubled]
        looked = self.driver_calls.each(
            {card.id: partial(_look, card, readings.get(card.id)) for card in sound}
        )
        troubled |= {id: each.why for id, each in looked.items() if isinstance(each, Absent)}
        self.setters = {id: Absent(why) for id, why in troubled.items()}
        self.cards, self.absent, self.assumed = [], {}, {}
        self.declared = dict(rules.declared)
        for id, answer in looked.items():
            if not isinstance(answer, Absent):
                self._add(id, *answer)
        self._defaults |= {card.id: card.power.default_w for card in self.cards if card.power}
        self._assume(troubled, readings)
        self.done = True
        return True

    def applicable(self, rules: PowerRules) -> tuple[PowerRules, list[str]]:
        """The rules without bounds on cards that are missing or in trouble, and those cards' ids.

        The other cards can keep their budget although these cannot be set.
        """
        here = {card.id for card in self.cards} - set(self.assumed)
        gone = [id for id in rules.cards if id not in here]
        if not gone:
            return rules, gone
        cards = {id: rule for id, rule in rules.cards.items() if id in here}
        return msgspec.structs.replace(rules, cards=cards), gone

    def _add(self, id: str, setter: CardSetter | Absent, card: PowerCard | None, why: str) -> None:
        self.setters[id] = setter
        if (card is None or card.power is None) and id in self.declared:
            card = self._declared(id, self.declared[id], card.ceiling_c if card else CEILING_C)
        if card is None:
            self.absent[id] = why
        else:
            self.cards.append(card)

    def _declared(self, id: str, draws_w: float, ceiling_c: float) -> PowerCard:
        """Describe a device that takes no limit and whose draw the rules declare.

        Its jobs are limited if they can be; otherwise the device counts with its declared draw.
        """
        setter = self.setters[id] = self._inputs.job_limit(id, draws_w)
        range = setter if isinstance(setter, Absent) else setter.limits()
        power = None if isinstance(range, Absent) else range
        if power is not None and not isinstance(setter, Absent):
            setter.set_power_limit(power.max_w)  # an earlier agent may have limited these jobs
        return PowerCard(
            id, power, None, ceiling_c, idle_w=0.1 * draws_w, memory_w=0.0, most_w=draws_w
        )

    def _assume(self, troubled: dict[str, str], readings: Mapping[str, CardReadings]) -> None:
        """Count each card in trouble with its default limit, or the highest of the node's."""
        highest = max((card.power.default_w for card in self.cards if card.power), default=0.0)
        for id in troubled:
            found = readings.get(id)
            watts = found.number("power_limit_default_w") if found else None
            self.assumed[id] = watts or self._defaults.get(id) or highest
            self.cards.append(PowerCard(id, None, None, CEILING_C, most_w=self.assumed[id]))


def _look(
    card: DeviceCard, readings: CardReadings | None
) -> tuple[CardSetter | Absent, PowerCard | None, str]:
    """The setter of a card, and its description for the plan or why it takes no part."""
    setter = setter_of(card)
    return setter, *describe(card.id, setter, readings)
