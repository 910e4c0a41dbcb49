# SPDX-License-Identifier: Apache-2.0
"""A card that a thread in C reads through its vendor's table (native/devices/card_reader.h).

A thread in Python asks for what seldom changes, through the vendor's binding. The newest record is
decoded when somebody wants it, which calls no driver.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from math import isnan

from stoker.agent.devices.bell import Bell
from stoker.agent.devices.card import Card
from stoker.agent.devices.fields import complete
from stoker.agent.devices.history import POINTS
from stoker.agent.devices.plan import PERIOD_NS
from stoker.agent.devices.readings import Fields, Reading
from stoker.agent.devices.record import PLACES, Snapshot
from stoker.agent.devices.sampled import HUNG_NS, QUIET, SECOND_NS, TOGETHER, Sampled
from stoker.native import _devices
from stoker.native._devices import CardReader


class Driven(Sampled):
    """One card, its thread in C and its thread in Python, and what they have read."""

    def __init__(self, card: Card, phase_ns: int = 0) -> None:
        super().__init__(card, phase_ns)
        self._c: CardReader | None = None
        self._names = _devices.calls(card.table)
        self._read: Fields = {}
        """The newest record, as fields."""

    # --- for whoever reads ------------------------------------------------------------------------

    def newest(self) -> dict[str, float]:
        """Numbers of the last round; nothing for a card in trouble."""
        if self.trouble()[0] != "ok":
            return {}
        reader = self._c
        values = reader.latest() if reader is not None else []
        return {name: v for name, v in zip(PLACES, values, strict=False) if not isnan(v)}

    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        reader = self._c
        if reader is None or name not in PLACES:
            return []
        return reader.points(PLACES[name], since_ns, most)

    def listen(self, bell: Bell | None, levels: Mapping[str, float] | None = None) -> None:
        with self._decoding:
            before, self._bell = self._bell, bell
            self._levels = self._levels if levels is None else dict(levels)
            if bell is not None or before is not None:
                self._guard()

    @property
    def rings(self) -> int:
        reader = self._c
        return self._rung + (reader.wakeups() if reader is not None else 0)

    @property
    def settled(self) -> bool:
        reader = self._c
        rounds = 0 if reader is None else reader.state()[2]
        return self.counters["rounds"] > 0 and rounds > _devices.SLOW

    def counts(self) -> Counter[str]:
        found = Counter(self.counters)
        found["calls"] += self._active.calls.made
        if self._c is not None:
            _, _, rounds, late, missed, calls, _ = self._c.state()
            found += Counter(rounds=rounds, late=late, missed=missed, calls=calls)
        return found

    def _changed(self) -> bool:
        reader = self._c
        return reader is not None and reader.state()[6] != self._codes

    def _hung(self) -> str:
        now, calls, reader = time.monotonic_ns(), self._active.calls, self._c
        name, since_ns = calls.doing, calls.since_ns
        if (not name or now - since_ns < HUNG_NS) and reader is not None:
            doing, since_ns, *_ = reader.state()
            name = self._names[doing] if doing >= 0 else ""
        if not name or now - since_ns < HUNG_NS:
            return ""
        return f"hung call {name}: no answer for {(now - since_ns) / SECOND_NS:.1f} s"

    # --- the thread in Python ---------------------------------------------------------------------

    def round(self, number: int = 0) -> None:
        """What seldom changes; the thread in C is begun with the first round."""
        card = self._active = self.card
        fresh = self._known is not card
        if fresh:
            known = complete(card.once(), card.lacks)
            with self._decoding:
                self._slow = known
        self._begin(card, fresh=fresh)
        rest = card.rest()
        with self._decoding:
            self._slow.update(rest)
        self._known, self._told = card, False
        self.trouble()  # whoever wants more decodes it

    def _begin(self, card: Card, *, fresh: bool) -> None:
        """A reader of this card; one that is there looks again for what does not change."""
        if self._c is not None and self._planner is card:
            if fresh:
                self._c.renew()
            return
        self._end()
        phase_ns = self._phase_ns // TOGETHER
        handle = card.address_of_handle()
        made = card.calls.make("open", CardReader, card.table, handle, PERIOD_NS, phase_ns)
        with self._decoding:
            self._c, self._planner = made, card
            self._decoded, self._codes = 0, -1
            self._rung += 1
            if self._bell is not None:
                self._guard()

    def _end(self) -> None:
        with self._decoding:
            before, self._c = self._c, None
        if before is not None:
            before.stop()

    def _guard(self) -> None:
        levels = [(PLACES[name], level) for name, level in self._levels.items() if name in PLACES]
        if self._c is not None:
            self._c.watch(-1 if self._bell is None else self._bell.descriptor, levels, QUIET)

    def _ring(self) -> None:
        """What a round in Python reads is no news."""

    def _decode(self) -> None:
        with self._decoding:
            reader, card = self._c, self._planner
            if reader is None:
                return
            codes, found = reader.state()[6], Snapshot(*reader.snapshot())
            told, self._told = self._told, True
            if not found.rounds or (found.rounds == self._decoded and told):
                return
            if found.rounds != self._decoded:
                self._read = card.read(found, lambda name, most: self.points(name, most=most))
                _bound_power(self._read)
                self._codes, self._decoded = codes, found.rounds
            self._publish(self._read, t_ns=found.t_ns)

    def _keep(self, fast: Fields) -> None:
        """The thread in C keeps the history."""


def _bound_power(fields: Fields) -> None:
    """The error of power that is derived from the energy counter, whose steps come in twice."""
    power, energy = fields.get("energy_power_w"), fields.get("energy_j")
    if not isinstance(power, Reading) or not isinstance(energy, Reading):
        return
    error = 2 * (energy.error or 0.0) * SECOND_NS / power.window_ns
    note = "the counter's steps" if error else ""
    fields["energy_power_w"] = Reading(
        power.value, "W", power.t_ns, power.window_ns, error or None, note
    )
