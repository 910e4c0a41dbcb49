# SPDX-License-Identifier: Apache-2.0
"""One card that is read, and what was read of it.

A card with a vendor's table is read by a thread in C (`driven.py`), any other by a thread in Python
(`polled.py`). Invariant: whoever reads calls no driver, so that it never waits for one.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping

from stoker.agent.devices.card import Card
from stoker.agent.devices.fields import FAST, PERIOD_NS, complete
from stoker.agent.devices.readings import Absent, CardReadings, Fields, State
from stoker.agent.devices.samplers.history import POINTS
from stoker.agent.devices.samplers.wakeup import Wakeup

SECOND_NS = 1_000_000_000
HUNG_NS = 1_500_000_000
"""A call that takes longer is said to hang; looked at four times a second, that is within 2 s."""
NOT_YET = "its first round is not over"
TROUBLED = ("hung", "lost", "refused", "mismatch", "missing")


class Sampled(ABC):
    """One card, its threads, and what they have read."""

    period_ns: int
    """From one round of the thread in Python to the next."""

    def __init__(self, card: Card, phase_ns: int = 0) -> None:
        self.card = card
        self.counters: Counter[str] = Counter()
        self._slow: Fields = {}
        """Fields that do not change, and those read less often than ten times a second."""
        self._known: Card | None = None
        """The card whose unchanging fields are in `_slow`."""
        fields = complete({}, card.silent or NOT_YET)
        self._readings = CardReadings(card.id, 0, fields, "starting", NOT_YET, card.sim)
        self._phase_ns = phase_ns
        self._wakeup: Wakeup | None = None
        self._levels: dict[str, float] = {}
        self._stop = threading.Event()
        self._anew = threading.Event()
        """The thread is not to wait until its next round is due."""
        self._thread = threading.Thread(target=self._run, name=f"card {card.id}", daemon=True)

    def start(self) -> None:
        """Begin; a card that answers nothing gets no thread."""
        card = self.card
        if card.silent:
            fields = complete(card.once(), card.silent)
            self._readings = CardReadings(card.id, time.time_ns(), fields, "ok", "", card.sim)
        else:
            self._thread.start()

    def stop(self) -> None:
        """End soon; a thread that hangs is left behind."""
        self._stop.set()
        self._anew.set()
        self.listen(None)

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    # --- for whoever reads ------------------------------------------------------------------------

    def readings(self) -> CardReadings:
        """The newest there are, or that the card hangs."""
        hung = self._hung()
        if not hung:
            self._decode()
        latest = self._readings
        if not hung:
            return latest
        return CardReadings(latest.id, latest.t_ns, latest.fields, "hung", hung, latest.sim)

    def trouble(self) -> tuple[State, str]:
        """State and reason, as `readings` has them; cheaper where nothing changed."""
        hung = self._hung()
        if hung:
            return "hung", hung
        if self._changed():
            self._decode()
        return self._readings.state, self._readings.why

    @abstractmethod
    def newest(self) -> dict[str, float]:
        """Numbers of the last round, as far as a thread in C keeps them; nothing for a card in
        trouble."""

    @abstractmethod
    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        """The past minute of a field: (CLOCK_REALTIME ns, value), the oldest first."""

    def listen(self, wakeup: Wakeup | None, levels: Mapping[str, float] | None = None) -> None:
        """Wake when a call answers otherwise than before, when a field is at its level or above,
        when errors or a reason that tells of a fault changed, and now and then."""
        self._wakeup = wakeup
        self._levels = self._levels if levels is None else dict(levels)

    @property
    @abstractmethod
    def wakeups(self) -> int:
        """A number that changes when there is news."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """True if every field was read at least once, or will not be."""

    def counts(self) -> Counter[str]:
        """Rounds, late ones, missed ones, failures and driver calls."""
        found = Counter(self.counters)
        found["calls"] += self.card.calls.made
        return found

    def _hung(self) -> str:
        """Why the card is said to hang, or an empty string."""
        name, since_ns = self._doing()
        passed = time.monotonic_ns() - since_ns
        if not name or passed < HUNG_NS:
            return ""
        return f"hung call {name}: no answer for {passed / SECOND_NS:.1f} s"

    @abstractmethod
    def _doing(self) -> tuple[str, int]:
        """The call that a thread has been inside of for the longest, and since when."""

    @abstractmethod
    def _changed(self) -> bool:
        """True if a call's code differs from the one that was decoded."""

    @abstractmethod
    def _decode(self) -> None:
        """Make readings of what was read since they were made; calls no driver."""

    # --- the thread in Python ---------------------------------------------------------------------

    def _run(self) -> None:
        due = begun = time.monotonic_ns() + self._phase_ns
        while not self._pause(due, begun):
            begun = time.monotonic_ns()
            if begun - due > PERIOD_NS // 2:
                self.counters["late"] += 1
            try:
                self.round(self.counters["rounds"])
            except Exception as error:  # a driver's binding may raise anything: the others go on
                self.counters["failed"] += 1
                self._publish({}, failed=f"{self.card.calls.doing or 'reading'}: {error!r}")
            self.counters["rounds"] += 1
            self._after_round()
            due = self._next(due)
        self._end()

    def _pause(self, due: int, begun: int) -> bool:
        """Wait until a round is due, or for a second after the last one where something is to be
        asked anew. True: it is over."""
        self._anew.wait(max(0, due - time.monotonic_ns()) / SECOND_NS)
        self._anew.clear()
        left = min(due, begun + SECOND_NS) - time.monotonic_ns()
        return self._stop.wait(left / SECOND_NS) if left > 0 else self._stop.is_set()

    def _next(self, due: int) -> int:
        """When the next round is due; missed rounds are not made up for."""
        due += self.period_ns
        behind = time.monotonic_ns() - due
        if behind > self.period_ns:
            self.counters["missed"] += behind // self.period_ns
            due += behind // self.period_ns * self.period_ns
        return due

    @abstractmethod
    def round(self, number: int = 0) -> None:
        """One round of the thread in Python."""

    @abstractmethod
    def _after_round(self) -> None:
        """Wake whoever listens, if the round brought news."""

    @abstractmethod
    def _end(self) -> None:
        """Nothing reads the card any more."""

    def _publish(self, fast: Fields, *, failed: str = "", t_ns: int = 0) -> None:
        fields = dict(self._slow) or complete({}, failed)
        fields.update(fast)
        if failed:
            fields.update(dict.fromkeys(FAST, Absent(failed)))
        state, why = _state(fast) if not failed else ("missing", failed)
        if state != "ok" or self._readings.state in TROUBLED:
            # A card that comes back may be another one, or have another driver, and its static
            # fields may have been read just before it came back.
            self._known = None
            self._anew.set()
        card = self.card
        self._readings = CardReadings(card.id, t_ns or time.time_ns(), fields, state, why, card.sim)


def _state(fields: Fields) -> tuple[State, str]:
    """The card's state by the answers of one fast round."""
    asked = [found for name in FAST if (found := fields.get(name)) is not None]
    absent = [each for each in asked if isinstance(each, Absent)]
    for each in absent:
        if each.trouble == "lost":
            return "lost", each.why
    if len(absent) == len(asked):
        for each in absent:
            if each.trouble:
                return each.trouble, each.why
    return "ok", ""
