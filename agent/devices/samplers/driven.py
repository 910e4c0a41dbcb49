# SPDX-License-Identifier: Apache-2.0
"""A card that a thread in C reads through its vendor's table (native/devices/card_reader.h).

A thread in Python reads seldom changing fields through the vendor's binding. Invariant: the newest
record is decoded on demand, which calls no driver.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from stoker.agent.devices.card import DrivenCard
from stoker.agent.devices.fields import NEWEST, PERIOD_NS, complete
from stoker.agent.devices.readings import Fields, Reading, State
from stoker.agent.devices.record import PLACES, RecordCopy
from stoker.agent.devices.samplers.history import POINTS
from stoker.agent.devices.samplers.sampled import Sampled, energy_power
from stoker.agent.devices.samplers.wakeup import Wakeup
from stoker.native import _devices
from stoker.native._devices import CardReader

SELDOM_NS = 5_000_000_000
"""Period of the thread in Python, which reads seldom changing fields."""
TOGETHER = 250
"""Divisor of the phases of threads in C: when they are due close together one interrupt wakes
several of them, and interrupts cost more than their calls."""
QUIET = 30
"""Seconds after which a card without changes wakes the listener all the same."""
_NEWEST = tuple((name, PLACES[name]) for name in NEWEST if name in PLACES)
"""The places of these fields in a record; one that is in none does not change."""


class Driven(Sampled):
    """One card, its thread in C, its thread in Python, and the newest readings of both."""

    period_ns = SELDOM_NS
    card: DrivenCard

    def __init__(self, card: DrivenCard, phase_ns: int = 0) -> None:
        super().__init__(card, phase_ns)
        self._active = card
        """The card that the thread in Python reads; its next round begins with `card`."""
        self._reader: CardReader | None = None
        self._of = card
        """The card that the reader reads."""
        self._names = _devices.calls(card.table)
        self._begun = 0
        """Number of readers started so far."""
        self._decoding = threading.Lock()
        self._decoded = 0
        """Number of the reader's round that was decoded last."""
        self._codes = -1
        """Number of code changes up to that round."""
        self._told = True
        """True if the newest readings contain all of `_slow`."""
        self._read: Fields = {}
        """Fields of the record that was decoded last."""

    # --- for any thread ---------------------------------------------------------------------------

    def newest(self) -> dict[str, float]:
        if self.trouble()[0] != "ok":
            return {}
        reader = self._reader
        values = reader.latest() if reader is not None else []
        if not values:
            return {}
        return {name: v for name, place in _NEWEST if (v := values[place]) is not None}

    def trouble(self) -> tuple[State, str]:
        """State and reason, as in `readings`; a card that answers costs one look at its reader."""
        reader = self._reader
        if reader is not None and reader.calm(self._codes) and not self._active.calls.doing:
            return self._readings.state, self._readings.why
        return super().trouble()

    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        reader = self._reader
        if reader is None or name not in PLACES:
            return []
        return reader.points(PLACES[name], since_ns, most)

    def listen(self, wakeup: Wakeup | None, levels: Mapping[str, float] | None = None) -> None:
        with self._decoding:
            before = self._wakeup
            super().listen(wakeup, levels)
            if wakeup is not None or before is not None:
                self._watch()

    @property
    def wakeups(self) -> int:
        reader = self._reader
        return self._begun + (reader.wakeups() if reader is not None else 0)

    @property
    def settled(self) -> bool:
        reader = self._reader
        rounds = 0 if reader is None else reader.state()[2]
        return self.counters["rounds"] > 0 and rounds > _devices.SLOW

    def counts(self) -> Counter[str]:
        found = super().counts()
        reader = self._reader
        if reader is not None:
            _, _, rounds, late, missed, calls, _ = reader.state()
            found += Counter(rounds=rounds, late=late, missed=missed, calls=calls)
        return found

    def _changed(self) -> bool:
        reader = self._reader
        return reader is not None and reader.state()[6] != self._codes

    def _doing(self) -> tuple[str, int]:
        calls, reader = self._active.calls, self._reader
        found = [(calls.since_ns, calls.doing)] if calls.doing else []
        if reader is not None:
            doing, since_ns, *_ = reader.state()
            found += [(since_ns, self._names[doing])] if doing >= 0 else []
        since_ns, name = min(found, default=(0, ""))
        return name, since_ns

    # --- the thread in Python ---------------------------------------------------------------------

    def round(self, number: int = 0) -> None:
        """Read the seldom changing fields; the first round also starts the thread in C."""
        card = self._active = self.card
        fresh = self._known is not card
        if fresh:
            known = complete(card.once(), card.unread)
            with self._decoding:
                self._slow = known
        self._begin(card, fresh=fresh)
        rest = card.rest()
        with self._decoding:
            self._slow.update(rest)
        self._known, self._told = card, False
        self.trouble()  # only a changed state is decoded here; readers decode the rest on demand

    def _begin(self, card: DrivenCard, *, fresh: bool) -> None:
        """Start a reader of this card; an existing one reads its unchanging parts anew."""
        if self._reader is not None and self._of is card:
            if fresh:
                self._reader.renew()
            return
        self._end()
        phase_ns = self._phase_ns // TOGETHER
        handle = card.address_of_handle()
        made = card.calls.make("open", CardReader, card.table, handle, PERIOD_NS, phase_ns)
        with self._decoding:
            self._reader, self._of = made, card
            self._decoded, self._codes = 0, -1
            self._begun += 1
            if self._wakeup is not None:
                self._watch()

    def _end(self) -> None:
        with self._decoding:
            before, self._reader = self._reader, None
        if before is not None:
            before.stop()

    def _watch(self) -> None:
        """Tell the reader at which values it must wake the listener."""
        levels = [(PLACES[name], level) for name, level in self._levels.items() if name in PLACES]
        if self._reader is not None:
            descriptor = -1 if self._wakeup is None else self._wakeup.descriptor
            self._reader.watch(descriptor, levels, QUIET)

    def _after_round(self) -> None:
        """Does nothing, since a round in Python brings no news."""

    def _decode(self) -> None:
        with self._decoding:
            reader, card = self._reader, self._of
            if reader is None:
                return
            codes, found = reader.state()[6], RecordCopy(*reader.snapshot())
            told, self._told = self._told, True
            if not found.rounds or (found.rounds == self._decoded and told):
                return
            if found.rounds != self._decoded:
                self._read = card.read(found, lambda name, most: self.points(name, most=most))
                _bound_power(self._read)
                self._codes, self._decoded = codes, found.rounds
            self._publish(self._read, t_ns=found.t_ns)


def _bound_power(fields: Fields) -> None:
    """Add its error to the power that the thread in C derived from the energy counter."""
    power, energy = fields.get("energy_power_w"), fields.get("energy_j")
    if isinstance(power, Reading) and isinstance(energy, Reading):
        made = energy_power(power.value, power.t_ns, power.window_ns, energy.error)
        fields["energy_power_w"] = made
