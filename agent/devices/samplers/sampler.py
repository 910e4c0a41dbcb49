# SPDX-License-Identifier: Apache-2.0
"""The threads of all cards of a node, with their phases spread over the period.

Invariant: a card whose driver hangs or is slow delays no other card, since no two cards share a
thread or a lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from stoker.agent.devices.card import Card, DrivenCard, PolledCard
from stoker.agent.devices.fields import PERIOD_NS
from stoker.agent.devices.readings import CardReadings, State
from stoker.agent.devices.samplers.device_samples import DeviceSamples
from stoker.agent.devices.samplers.driven import Driven
from stoker.agent.devices.samplers.polled import Polled
from stoker.agent.devices.samplers.sampled import Sampled
from stoker.agent.devices.samplers.wakeup import Wakeup
from stoker.scheduler.nouns import DeviceSample

STOP_S = 0.3


class Samplers:
    """The threads of all cards of a node."""

    def __init__(self) -> None:
        self._sampled: dict[str, Sampled] = {}
        self._samples = DeviceSamples()
        self._wakeup: Wakeup | None = None

    def set(self, cards: Iterable[Card]) -> None:
        """Read these cards from now on: start threads of new cards, and end those of others."""
        wanted = {card.id: card for card in cards}
        for id in [id for id in self._sampled if id not in wanted]:
            self._sampled.pop(id).stop()
        fresh = [card for id, card in wanted.items() if not self._take_over(id, card)]
        for place, card in enumerate(fresh):
            made = sampled_of(card, PERIOD_NS * place // len(fresh))
            self._sampled[card.id] = made
            made.listen(self._wakeup)
            made.start()

    def _take_over(self, id: str, card: Card) -> bool:
        """Give the card to the thread that reads this id; False if a new one is needed."""
        there = self._sampled.get(id)
        if there is None:
            return False
        if bool(there.card.silent) != bool(card.silent):
            there.stop()
            return False
        there.card = card
        if card.silent:
            there.start()
        return True

    def listen(self, wakeup: Wakeup | None) -> None:
        """Wake this listener from now on; None: wake none, and the one before may be closed."""
        self._wakeup = wakeup
        for each in list(self._sampled.values()):
            each.listen(wakeup)

    def close(self) -> None:
        """End all threads; those that hang are abandoned."""
        for each in self._sampled.values():
            each.stop()
        end = time.monotonic() + STOP_S
        for each in self._sampled.values():
            each.join(max(0.0, end - time.monotonic()))

    def get(self, id: str) -> Sampled | None:
        return self._sampled.get(id)

    def every(self) -> tuple[Sampled, ...]:
        """Return everything that is known of each card that is read."""
        return tuple(self._sampled.values())

    def cards(self) -> tuple[Card, ...]:
        """The cards that are read."""
        return tuple(each.card for each in self._sampled.values())

    def readings(self) -> dict[str, CardReadings]:
        """Readings of every card, by id."""
        return {id: each.readings() for id, each in self._sampled.items()}

    def samples(self, ids: Iterable[str]) -> tuple[DeviceSample, ...]:
        """Samples of these cards for an Observation, if they are read; cheaper than `readings`."""
        return tuple(self._samples.newest(self._sampled[id]) for id in ids if id in self._sampled)

    def troubles(self) -> dict[str, tuple[State, str]]:
        """Id -> state and reason of cards that do not answer as they should."""
        found = {id: each.trouble() for id, each in self._sampled.items()}
        return {id: said for id, said in found.items() if said[0] not in ("ok", "starting")}

    @property
    def settled(self) -> bool:
        """True if every card has read all its fields, or hangs."""
        return all(each.settled or each.trouble()[0] == "hung" for each in self._sampled.values())

    def counters(self) -> Mapping[str, int]:
        """Counts of rounds, late rounds, missed rounds, failures and driver calls of all cards."""
        total: Counter[str] = Counter()
        for each in self._sampled.values():
            total.update(each.counts())
        return {f"devices_{name}": count for name, count in total.items()}


def sampled_of(card: Card, phase_ns: int = 0) -> Sampled:
    """The object with the threads that a card of this kind needs."""
    if isinstance(card, DrivenCard):
        return Driven(card, phase_ns)
    assert isinstance(card, PolledCard)
    return Polled(card, phase_ns)
