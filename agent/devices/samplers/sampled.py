# SPDX-License-Identifier: Apache-2.0
"""One card with its threads and its newest readings.

A thread in C reads a card that has a vendor's table (`driven.py`), a thread in Python any other
card (`polled.py`). Invariant: taking readings calls no driver, so that it never waits for one.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping

from stoker.agent.devices.card import Card
from stoker.agent.devices.fields import FAST, PERIOD_NS, complete
from stoker.agent.devices.readings import Absent, CardReadings, Fields, Reading, State
from stoker.agent.devices.samplers.history import POINTS
from stoker.agent.devices.samplers.wakeup import Wakeup

SECOND_NS = 1_000_000_000
HUNG_NS = 1_500_000_000
"""Duration after which a call counts as hung. Health looks at that moment, so that it reports the
call within 2 s."""
NOT_YET = "its first round is not over"
TROUBLED = ("hung", "lost", "refused", "mismatch", "missing")


class Sampled(ABC):
    """One card, its threads, and the newest readings."""

    period_ns: int
    """Period of the rounds of the thread in Python."""

    def __init__(self, card: Card, phase_ns: int = 0) -> None:
        self.card = card
        self.counters: Counter[str] = Counter()
        self._slow: Fields = {}
        """Fields that do not change or are read less often than ten times a second."""
        self._known: Card | None = None
        """The card whose unchanging fields `_slow` has; None if they must be read anew."""
        fields = complete({}, card.silent or NOT_YET)
        self._readings = CardReadings(card.id, 0, fields, "starting", NOT_YET, card.sim)
        self._phase_ns = phase_ns
        self._wakeup: Wakeup | None = None
        self._levels: dict[str, float] = {}
        self._stop = threading.Event()
        self._anew = threading.Event()
        """Set when the thread should not wait until its next round is due."""
        self._thread = threading.Thread(target=self._run, name=f"card {card.id}", daemon=True)

    def start(self) -> None:
        """Start the thread; a card without sensors gets its fixed readings and no thread."""
        card = self.card
        if card.silent:
            fields = complete(card.once(), card.silent)
            self._readings = CardReadings(card.id, time.time_ns(), fields, "ok", "", card.sim)
        else:
            self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; one that hangs in a call is abandoned."""
        self._stop.set()
        self._anew.set()
        self.listen(None)

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    # --- for any thread ---------------------------------------------------------------------------

    def readings(self) -> CardReadings:
        """The newest readings; their state is `hung` while a call hangs."""
        hung = self._hung()
        if not hung:
            self._decode()
        latest = self._readings
        if not hung:
            return latest
        return CardReadings(latest.id, latest.t_ns, latest.fields, "hung", hung, latest.sim)

    def trouble(self) -> tuple[State, str]:
        """State and reason, as in `readings`, but decoded only if a call's code changed."""
        hung = self._hung()
        if hung:
            return "hung", hung
        if self._changed():
            self._decode()
        return self._readings.state, self._readings.why

    @abstractmethod
    def newest(self) -> dict[str, float]:
        """Numbers of the fields NEWEST that a thread in C read last; empty for one in trouble."""

    def fixed(self, name: str) -> float | None:
        """A number that does not change, as it was read last; None if there is none."""
        found = self._slow.get(name)
        value = found.value if isinstance(found, Reading) else None
        return float(value) if isinstance(value, int | float) else None

    @abstractmethod
    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        """Points of a field in the past minute: (CLOCK_REALTIME ns, value), the oldest first."""

    def listen(self, wakeup: Wakeup | None, levels: Mapping[str, float] | None = None) -> None:
        """Wake this listener from now on when there is news of the card; None: wake none.

        News are a call with another code, a field at its level, a changed counter of errors, and a
        changed throttle reason that means a fault. The listener is also woken every few seconds.
        """
        self._wakeup = wakeup
        self._levels = self._levels if levels is None else dict(levels)

    @property
    @abstractmethod
    def wakeups(self) -> int:
        """Number of wakeups so far, by which a listener knows which card has news."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """True if every field that this card has was read at least once."""

    def counts(self) -> Counter[str]:
        """Counts of rounds, late rounds, missed rounds, failures and driver calls."""
        found = Counter(self.counters)
        found["calls"] += self.card.calls.made
        return found

    def hangs_in_s(self) -> float | None:
        """Seconds until the call that is under way counts as hung; None if there is none."""
        name, since_ns = self._doing()
        return (since_ns + HUNG_NS - time.monotonic_ns()) / SECOND_NS if name else None

    def _hung(self) -> str:
        """The call that hangs and since when, as a sentence; empty if none hangs."""
        name, since_ns = self._doing()
        passed = time.monotonic_ns() - since_ns
        if not name or passed < HUNG_NS:
            return ""
        return f"hung call {name}: no answer for {passed / SECOND_NS:.1f} s"

    @abstractmethod
    def _doing(self) -> tuple[str, int]:
        """The oldest call that a thread is in, and its start in CLOCK_MONOTONIC ns."""

    @abstractmethod
    def _changed(self) -> bool:
        """True if a call's code changed after the last decoded round."""

    @abstractmethod
    def _decode(self) -> None:
        """Publish readings of the newest round if it is not published; calls no driver."""

    # --- the thread in Python ---------------------------------------------------------------------

    def _run(self) -> None:
        due = begun = time.monotonic_ns() + self._phase_ns
        while not self._pause(due, begun):
            begun = time.monotonic_ns()
            if begun - due > PERIOD_NS // 2:
                self.counters["late"] += 1
            try:
                self.round(self.counters["rounds"])
            except Exception as error:  # a binding may raise anything, and the thread must go on
                self.counters["failed"] += 1
                self._publish({}, failed=f"{self.card.calls.doing or 'reading'}: {error!r}")
            self.counters["rounds"] += 1
            self._after_round()
            due = self._next(due)
        self._end()

    def _pause(self, due: int, begun: int) -> bool:
        """Wait until a round is due; if `_anew` is set, only until a second after the last round.
        True if the thread must end."""
        self._anew.wait(max(0, due - time.monotonic_ns()) / SECOND_NS)
        self._anew.clear()
        left = min(due, begun + SECOND_NS) - time.monotonic_ns()
        return self._stop.wait(left / SECOND_NS) if left > 0 else self._stop.is_set()

    def _next(self, due: int) -> int:
        """Time of the next round; missed rounds are counted and skipped."""
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
        """Wake the listener if the round brought news."""

    @abstractmethod
    def _end(self) -> None:
        """Stop any other thread that reads the card; called when this thread ends."""

    def _publish(self, fast: Fields, *, failed: str = "", t_ns: int = 0) -> None:
        fields = dict(self._slow) or complete({}, failed)
        fields.update(fast)
        if failed:
            fields.update(dict.fromkeys(FAST, Absent(failed)))
        state, why = _state(fast) if not failed else ("missing", failed)
        if state != "ok" or self._readings.state in TROUBLED:
            # A card that comes back may be another card or have another driver, so its unchanging
            # fields are read anew.
            self._known = None
            self._anew.set()
        card = self.card
        self._readings = CardReadings(card.id, t_ns or time.time_ns(), fields, state, why, card.sim)


def _state(fields: Fields) -> tuple[State, str]:
    """State of a card by the absences of one fast round."""
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


def energy_power(watts: float, t_ns: int, window_ns: int, step_j: float | None) -> Reading:
    """Power by an energy counter over a window; both of its ends may be off by one step."""
    error = 2 * (step_j or 0.0) * SECOND_NS / window_ns
    note = "the counter's steps" if error else ""
    return Reading(watts, "W", t_ns, window_ns, error or None, note)
