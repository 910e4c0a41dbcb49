# SPDX-License-Identifier: Apache-2.0
"""A card that a thread in Python reads: from files, without a vendor's library.

A device without sensors is one too, whose thread never starts. Invariant: the thread publishes
whole rounds.
"""

from __future__ import annotations

from collections import deque
from math import inf

from stoker.agent.devices.card import PolledCard
from stoker.agent.devices.fields import FAST, FAST_HZ, KEPT, PERIOD_NS, SLOWED, TELLING, complete
from stoker.agent.devices.readings import Absent, Fields, Reading
from stoker.agent.devices.samplers.history import POINTS, History
from stoker.agent.devices.samplers.sampled import SECOND_NS, Sampled, energy_power

NOT_READ = "it is not read from this device"
TOO_EARLY = Absent("the counter was not read for a second yet")


class Polled(Sampled):
    """One card, its thread, and the newest readings."""

    period_ns = PERIOD_NS
    card: PolledCard

    def __init__(self, card: PolledCard, phase_ns: int = 0) -> None:
        super().__init__(card, phase_ns)
        self._active = card
        """The card that the thread reads; its next round begins with `card`."""
        self._history = {name: History() for name in KEPT}
        self._energy: deque[tuple[int, float]] = deque(maxlen=2 * FAST_HZ)
        self._woken = 0
        self._news: tuple[object, ...] = ()
        """Values of the last round whose change wakes the listener."""

    def newest(self) -> dict[str, float]:
        return {}

    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        return self._history[name].points(since_ns, most) if name in self._history else []

    @property
    def wakeups(self) -> int:
        return self._woken

    @property
    def settled(self) -> bool:
        return bool(self.card.silent) or self.counters["rounds"] > FAST_HZ

    def _doing(self) -> tuple[str, int]:
        return self._active.calls.doing, self._active.calls.since_ns

    def _changed(self) -> bool:
        return False

    def _decode(self) -> None:
        """Does nothing, since each round publishes its readings."""

    def _end(self) -> None:
        """Does nothing, since no other thread reads the card."""

    def round(self, number: int = 0) -> None:
        """Read the fast fields and one part of the slow ones; the first round reads all of them."""
        card = self._active = self.card
        fresh = self._known is not card
        if fresh:
            self._slow = complete(card.once(), card.unread)
        steps = card.steps()
        if fresh:
            for step in steps:
                self._slow.update(step())
        elif number % FAST_HZ < len(steps):
            self._slow.update(steps[number % FAST_HZ]())
        self._known = card
        fast = card.fast()
        self._derive_power(fast)
        for name in KEPT:
            found = fast.get(name)
            if isinstance(found, Reading):
                self._history[name].add(found.t_ns, found.value)
        self._publish(fast)

    def _after_round(self) -> None:
        """Wake the listener for the reasons of a thread in C (card_reader.h), and once a second."""
        wakeup = self._wakeup
        if wakeup is None:
            return
        fields = self._readings.fields
        words = fields.get("throttle")
        news = (
            *[name for name in FAST if isinstance(fields.get(name), Absent)],
            *(SLOWED.intersection(words.value) if isinstance(words, Reading) else ()),
            *[getattr(fields.get(name), "value", None) for name in TELLING],
        )
        changed, self._news = news != self._news, news
        levels = self._levels.items()
        values = ((self._readings.number(name), level) for name, level in levels)
        hot = any((-inf if value is None else value) >= level for value, level in values)
        if changed or hot or self.counters["rounds"] % FAST_HZ == 0:
            self._woken += 1
            wakeup.wake()

    def _derive_power(self, fast: Fields) -> None:
        """Derive power from the energy counter, which misses nothing between two rounds."""
        found, past = fast.get("energy_j"), self._energy
        if not isinstance(found, Reading):
            fast["energy_power_w"] = found if found is not None else Absent(NOT_READ)
            return
        if past and found.value < past[-1][1]:
            past.clear()  # the driver was loaded again
        if not past or found.t_ns > past[-1][0]:
            past.append((found.t_ns, found.value))
        while len(past) > 1 and found.t_ns - past[1][0] >= SECOND_NS:
            past.popleft()
        passed_ns, grown = past[-1][0] - past[0][0], past[-1][1] - past[0][1]
        if passed_ns < SECOND_NS * 9 // 10:
            fast["energy_power_w"] = TOO_EARLY
            return
        watts = grown * SECOND_NS / passed_ns
        fast["energy_power_w"] = energy_power(watts, past[-1][0], passed_ns, found.error)
