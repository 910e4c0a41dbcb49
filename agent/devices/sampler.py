# SPDX-License-Identifier: Apache-2.0
"""One thread for each card: fast fields ten times a second, the others once, in turns.

Relied on by the agent, power control and health, who read snapshots and histories and never call a
driver. Owns that a card whose driver hangs or is slow delays nobody else: a thread shares nothing
with another one, and whoever looks sees which call it is inside of.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from stoker.agent.devices.card import Card
from stoker.agent.devices.fields import FAST, FAST_HZ, KEPT, SPECS, complete
from stoker.agent.devices.history import History
from stoker.agent.devices.readings import Absent, CardReadings, Fields, Reading, State
from stoker.scheduler.nouns import DeviceSample

PERIOD_NS = 1_000_000_000 // FAST_HZ
HUNG_NS = 1_500_000_000
"""A call that takes longer is said to hang; looked at four times a second, that is within 2 s."""
ENERGY_WINDOW_NS = 1_000_000_000
LATE_NS = PERIOD_NS // 2
"""A round that begins so much after its time is late."""
STOP_S = 0.3
NOT_YET = "its first round is not over"
NOT_READ = "it is not read from this device"
POWERS = ("power_w", "power_average_w", "energy_power_w")
"""Where an observation takes its power from, the first that there is."""


class Sampled:
    """One card, its thread, and what the thread has read."""

    def __init__(self, card: Card, phase_ns: int = 0) -> None:
        self.card = card
        self.history = {name: History() for name in KEPT}
        self.counters: Counter[str] = Counter()
        fields = complete({}, card.silent or NOT_YET)
        self._readings = CardReadings(card.id, 0, fields, "starting", NOT_YET, card.sim)
        self._phase_ns = phase_ns
        self._energy: deque[tuple[int, float]] = deque(maxlen=2 * FAST_HZ)
        self._slow: Fields = {}
        self._known: Card | None = None
        """The card whose unchanging fields are in `_slow`."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"card {card.id}", daemon=True)

    def start(self) -> None:
        """Begin; a card that answers nothing gets no thread."""
        if self.card.silent:
            fields = complete(self.card.once(), self.card.silent)
            self._readings = CardReadings(
                self.card.id, time.time_ns(), fields, "ok", "", self.card.sim
            )
        else:
            self._thread.start()

    def stop(self) -> None:
        """End soon; a thread that hangs is left behind."""
        self._stop.set()

    def join(self, seconds: float) -> None:
        if self._thread.is_alive():
            self._thread.join(seconds)

    def readings(self, now_ns: int | None = None) -> CardReadings:
        """The newest snapshot, or that the card hangs; `now_ns` is CLOCK_MONOTONIC."""
        calls = self.card.calls
        name = calls.doing
        hung_ns = calls.hung_for_ns(now_ns or time.monotonic_ns())
        latest = self._readings
        if not name or hung_ns < HUNG_NS:
            return latest
        why = f"hung call {name}: no answer for {hung_ns / 1e9:.0f} s"
        return CardReadings(latest.id, latest.t_ns, latest.fields, "hung", why, latest.sim)

    @property
    def settled(self) -> bool:
        """Whether every field was asked for at least once, or will not be."""
        return bool(self.card.silent) or self.counters["rounds"] > FAST_HZ

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        due = time.monotonic_ns() + self._phase_ns
        while not self._stop.is_set():
            now = time.monotonic_ns()
            if now < due:
                time.sleep((due - now) / 1e9)
                now = time.monotonic_ns()
            if now - due > LATE_NS:
                self.counters["late"] += 1
            try:
                self.round(self.counters["rounds"])
            except Exception as error:  # a driver's binding may raise anything: the others go on
                self.counters["failed"] += 1
                self._publish({}, f"{self.card.calls.doing or 'reading'}: {error!r}")
            self.counters["rounds"] += 1
            due += PERIOD_NS
            behind = time.monotonic_ns() - due
            if behind > PERIOD_NS:  # what was missed is not made up for
                self.counters["missed"] += behind // PERIOD_NS
                due += behind // PERIOD_NS * PERIOD_NS

    def round(self, number: int = 0) -> None:
        """One fast round, and that part of the slow fields whose turn it is."""
        card = self.card
        if self._known is not card:
            self._slow = complete(card.once(), NOT_READ)
            self._known = card
            for step in card.steps():
                self._slow.update(step())
        fast = card.fast()
        self._derive(fast)
        steps = card.steps()
        if number % FAST_HZ < len(steps):
            self._slow.update(steps[number % FAST_HZ]())
        if number % FAST_HZ == FAST_HZ - 1:
            self._drain()
        self._publish(fast)

    def _publish(self, fast: Fields, failed: str = "") -> None:
        fields = dict(self._slow) or complete({}, failed)
        fields.update(fast)
        if failed:
            fields.update(dict.fromkeys(FAST, Absent(failed)))
        for name in KEPT:
            found = fast.get(name)
            if isinstance(found, Reading):
                self.history[name].add(found.t_ns, found.value)
        state, why = _state(fast) if not failed else ("missing", failed)
        if state != "ok":
            self._known = None  # what comes back may be another card, or another driver
        self._readings = CardReadings(
            self.card.id, time.time_ns(), fields, state, why, self.card.sim
        )

    def _derive(self, fast: Fields) -> None:
        """Power from the energy counter, which integrates everything that the sensor sees."""
        found = fast.get("energy_j")
        if not isinstance(found, Reading):
            absent = found if isinstance(found, Absent) else Absent(NOT_READ)
            fast.setdefault("energy_power_w", absent)
            return
        past = self._energy
        if past and found.value < past[-1][1]:
            past.clear()  # the driver was loaded again
        if not past or found.t_ns > past[-1][0]:
            past.append((found.t_ns, found.value))
        while len(past) > 1 and found.t_ns - past[1][0] >= ENERGY_WINDOW_NS:
            past.popleft()
        passed_ns = found.t_ns - past[0][0]
        if passed_ns < ENERGY_WINDOW_NS:
            fast["energy_power_w"] = Absent("the counter was not read for a second yet")
            return
        watts = (found.value - past[0][1]) * 1e9 / passed_ns
        error = (found.error or 0.0) * 2e9 / passed_ns
        note = "the counter's steps" if error else ""
        fast["energy_power_w"] = Reading(watts, "W", found.t_ns, passed_ns, error or None, note)

    def _drain(self) -> None:
        kept = self.history["power_samples_w"]
        last = kept.last_ns
        for t_ns, watts in self.card.drain():
            if t_ns > last:
                kept.add(t_ns, watts)
                last = t_ns


def _state(fast: Fields) -> tuple[State, str]:
    """What the answers to one fast round say of the card."""
    absent = [each for each in fast.values() if isinstance(each, Absent)]
    for each in absent:
        if each.trouble == "lost":
            return "lost", each.why
    if len(absent) == len(fast):
        for each in absent:
            if each.trouble:
                return each.trouble, each.why
    return "ok", ""


class Samplers:
    """The threads of all cards of a node."""

    def __init__(self) -> None:
        self._sampled: dict[str, Sampled] = {}

    def set(self, cards: Iterable[Card]) -> None:
        """These are the cards now: new ones get a thread, those that are gone lose theirs."""
        wanted = {card.id: card for card in cards}
        for id in [id for id in self._sampled if id not in wanted]:
            self._sampled.pop(id).stop()
        fresh = [card for id, card in wanted.items() if not self._take_over(id, card)]
        for place, card in enumerate(fresh):
            made = Sampled(card, PERIOD_NS * place // len(fresh))
            self._sampled[card.id] = made
            made.start()

    def _take_over(self, id: str, card: Card) -> bool:
        """Let a thread that is there go on with what a new scan found."""
        there = self._sampled.get(id)
        if there is None or bool(there.card.silent) != bool(card.silent):
            if there is not None:
                there.stop()
            return False
        if not there.card.calls.doing or card.silent:
            there.card = card
            if card.silent:
                there.start()
        return True

    def close(self) -> None:
        """End all threads; those that hang are left behind."""
        for each in self._sampled.values():
            each.stop()
        for each in self._sampled.values():
            each.join(STOP_S)

    def get(self, id: str) -> Sampled | None:
        return self._sampled.get(id)

    def readings(self) -> dict[str, CardReadings]:
        """Of every card, by id."""
        now = time.monotonic_ns()
        return {id: each.readings(now) for id, each in self._sampled.items()}

    def troubles(self) -> dict[str, tuple[State, str]]:
        """Id -> state and reason of cards that do not answer as they should."""
        found = self.readings()
        return {
            id: (each.state, each.why)
            for id, each in found.items()
            if each.state not in ("ok", "starting")
        }

    @property
    def settled(self) -> bool:
        return all(
            each.settled or each.readings().state == "hung" for each in self._sampled.values()
        )

    def counters(self) -> Mapping[str, int]:
        """Rounds, late ones, missed ones, failures and driver calls of all cards."""
        total: Counter[str] = Counter()
        for each in self._sampled.values():
            total.update(each.counters)
            total["calls"] += each.card.calls.made
        return {f"devices_{name}": count for name, count in total.items()}


def sample(readings: CardReadings) -> DeviceSample:
    """What an Observation says of a card."""
    hung = readings.state == "hung"
    absent = {}
    busy, heat = readings.number("busy_ratio"), readings.number("temperature_c")
    power = next((w for name in POWERS if (w := readings.number(name)) is not None), None)
    if busy is None or hung:
        busy, absent["busy_ratio"] = None, _why(readings, "busy_ratio")
    if power is None or hung:
        power, absent["power_w"] = None, _why(readings, "power_w")
    if heat is None or hung:
        heat, absent["temperature_c"] = None, _why(readings, "temperature_c")
    return DeviceSample(readings.id, busy, power, heat, absent)


def _why(readings: CardReadings, name: str) -> str:
    assert name in SPECS
    return readings.why if readings.state == "hung" else readings.why_not(name)
