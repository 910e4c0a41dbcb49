# SPDX-License-Identifier: Apache-2.0
"""One card, what reads it, and what was read.

Relied on by the sampler. A card whose vendor gives a plan is read ten times a second by a thread in
C (native/devices/reader.h); a thread in Python asks for what the plan does not have: all that is
read once a second, or, where the plan is whole, what seldom changes. Any other card is read by the
Python thread alone. What the C thread has is decoded when somebody wants it. Owns that a reader
never calls a driver, so that it never waits for one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from math import isnan

from stoker.agent.devices.bell import Bell
from stoker.agent.devices.card import Card
from stoker.agent.devices.fields import FAST, FAST_HZ, KEPT, SLOWED, TELLING, complete
from stoker.agent.devices.history import POINTS, History
from stoker.agent.devices.plan import LAG, PERIOD_NS, SLOW, Plan, Snapshot
from stoker.agent.devices.readings import Absent, CardReadings, Fields, Reading, State
from stoker.native._devices import GUARDS, Reader

SECOND_NS = 1_000_000_000
NEAR = 12
"""What is read once a second is read so many times closer together than the cards' phases are."""
REST_NS = 5_000_000_000
"""What a whole plan does not have is asked for so often."""
TOGETHER = 250
"""The same for threads in C: one wake-up of a core does for several, and costs more than calls."""
QUIET = 5
"""Seconds until everything of a card is news although nothing of it is."""
HUNG_NS = 1_500_000_000
"""A call that takes longer is said to hang; looked at four times a second, that is within 2 s."""
NOT_YET = "its first round is not over"
NOT_READ = "it is not read from this device"
TROUBLED = ("hung", "lost", "refused", "mismatch", "missing")
TOO_EARLY = Absent("the counter was not read for a second yet")


class Sampled:
    """One card, its threads, and what they have read."""

    def __init__(self, card: Card, phase_ns: int = 0) -> None:
        self.card = card
        self.counters: Counter[str] = Counter()
        self._active = card
        """What the thread is reading just now; it takes up `card` with its next round."""
        self._history = {name: History() for name in KEPT}
        fields = complete({}, card.silent or NOT_YET)
        self._readings = CardReadings(card.id, 0, fields, "starting", NOT_YET, card.sim)
        self._phase_ns = phase_ns
        self._energy: deque[tuple[int, float]] = deque(maxlen=2 * FAST_HZ)
        self._slow: Fields = {}
        self._known: Card | None = None
        """The card whose unchanging fields are in `_slow`."""
        self._plan: Plan | None = None
        self._planner = card
        """Whose plan that is: it alone can decode what the reader has."""
        self._reader: Reader | None = None
        self._decoded = 0
        """Rounds of the reader that the newest readings are of."""
        self._fast: Fields = {}
        """What those rounds told."""
        self._told = True
        """Whether the newest readings have all of `_slow`."""
        self._codes = -1
        """Changes of codes that they know of."""
        self._turn = -1
        """Which second's slow answers are in `_slow`."""
        self._decoding = threading.Lock()
        self._bell: Bell | None = None
        self._levels: dict[str, float] = {}
        self._rung = 0
        self._news: tuple[object, ...] = ()
        """What a thread in Python read last, of all that is news when it changes."""
        self._stop = threading.Event()
        self._anew = threading.Event()
        """Its thread is not to wait until it is due."""
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

    def newest(self) -> dict[str, float]:
        """Values of the last round, as far as a plan keeps them; nothing for a card in trouble."""
        if self.trouble()[0] != "ok":
            return {}
        with self._decoding:
            plan, reader = self._plan, self._reader
            values = reader.latest()[1] if reader is not None else []
        if plan is None or not values:
            return {}
        return {name: v for name, at in plan.names.items() if not isnan(v := values[at])}

    def _changed(self) -> bool:
        """Whether a call's code is another than when it was decoded."""
        with self._decoding:
            reader = self._reader
            return reader is not None and reader.state()[6] != self._codes

    def points(self, name: str, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        """The past minute of a field: (CLOCK_REALTIME ns, value), the oldest first."""
        plan, reader = self._plan, self._reader
        if plan is not None and reader is not None and name in plan.names:
            return reader.points(plan.names[name], since_ns, most)
        return self._history[name].points(since_ns, most) if name in self._history else []

    def listen(self, bell: Bell | None, levels: Mapping[str, float] | None = None) -> None:
        """Ring when a call answers otherwise than before, when a field is at its level or above,
        when what a plan calls news has changed, and when everything was read anew."""
        with self._decoding:
            before, self._bell = self._bell, bell
            self._levels = self._levels if levels is None else dict(levels)
            if bell is not None or before is not None:
                self._guard()

    @property
    def rings(self) -> int:
        """Changes when there is news."""
        reader = self._reader
        return self._rung + (reader.rings() if reader is not None else 0)

    @property
    def settled(self) -> bool:
        """Whether every field was asked for at least once, or will not be."""
        rounds, reader = self.counters["rounds"], self._reader
        if self._active.whole:
            return rounds > 0 and reader is not None and reader.state()[2] > SLOW
        return bool(self.card.silent) or rounds > (1 if self._plan is not None else FAST_HZ)

    def counts(self) -> Counter[str]:
        """Rounds, late ones, missed ones, failures and driver calls."""
        found = Counter(self.counters)
        found["calls"] += sum(calls.made for calls in self._active.all_calls)
        reader = self._reader
        if reader is not None:
            _, _, rounds, late, missed, calls, _ = reader.state()
            found += Counter(rounds=rounds, late=late, missed=missed, calls=calls)
        return found

    def _hung(self) -> str:
        """Why it is said to hang, or an empty string."""
        now = time.monotonic_ns()
        for calls in self._active.all_calls:
            name = calls.doing
            if name and (passed := now - calls.since_ns) >= HUNG_NS:
                return f"hung call {name}: no answer for {passed / SECOND_NS:.1f} s"
        plan, reader = self._plan, self._reader
        if plan is None or reader is None:
            return ""
        doing, since_ns, *_ = reader.state()
        if doing < 0 or now - since_ns < HUNG_NS:
            return ""
        return f"hung call {plan.calls[doing]}: no answer for {(now - since_ns) / SECOND_NS:.1f} s"

    # --- the thread -------------------------------------------------------------------------------

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
                self._publish({}, failed=f"{self._active.calls.doing or 'reading'}: {error!r}")
            self.counters["rounds"] += 1
            self._ring()
            due = self._next(due)
        self._end()

    def _end(self) -> None:
        """Nothing reads the card any more."""
        if self._reader is not None:
            self._reader.stop()

    def _pause(self, due: int, begun: int) -> bool:
        """Until it is due, or a second after the last round where something is to be asked anew.
        True: it is over."""
        self._anew.wait(max(0, due - time.monotonic_ns()) / SECOND_NS)
        self._anew.clear()
        left = min(due, begun + SECOND_NS) - time.monotonic_ns()
        return self._stop.wait(left / SECOND_NS) if left > 0 else self._stop.is_set()

    def _next(self, due: int) -> int:
        """When the next round is due; what was missed is not made up for."""
        if self._active.whole:
            return time.monotonic_ns() + REST_NS
        period = SECOND_NS if self._plan is not None else PERIOD_NS
        if period == SECOND_NS and self.counters["rounds"] == 1:
            # Soon after one another, so that each finds warm caches: half the time in all.
            due = due // SECOND_NS * SECOND_NS + self._phase_ns // NEAR
        due += period
        behind = time.monotonic_ns() - due
        if behind > period:
            self.counters["missed"] += behind // period
            due += behind // period * period
        return due

    def round(self, number: int = 0) -> None:
        """What is read once a second, or that part of it whose turn it is, and the fast fields."""
        card = self._active = self.card
        fresh = self._known is not card
        if fresh:
            known = complete(card.once(), card.lacks)
            with self._decoding:
                self._slow, self._turn = known, -1
        self._begin_plan(card)
        if card.whole:
            self._slow.update(card.rest())
            self._known, self._told = card, False
            self.trouble()  # whoever wants more decodes it
            return
        steps = card.steps()
        if fresh or self._plan is not None:
            for step in steps:
                self._slow.update(step())
        elif number % FAST_HZ < len(steps):
            self._slow.update(steps[number % FAST_HZ]())
        self._known = card
        if self._plan is not None or number % FAST_HZ == FAST_HZ - 1:
            self._drain(card)
        if self._plan is not None:
            self._told = False
            self.trouble()  # a card in trouble is begun anew
            return
        fast = card.fast()
        self._derive(fast)
        self._publish(fast)

    def _begin_plan(self, card: Card) -> None:
        """A reader of its own for a card that has a plan; it goes on if it has one already."""
        plan = card.plan()
        if plan is self._plan and (plan is not None or self._planner is card):
            return
        with self._decoding:
            before, self._reader, self._plan = self._reader, None, plan
            self._planner = card if plan is None else plan.decoder or card
            self._decoded, self._codes, self._turn = 0, -1, -1
        if before is not None:
            before.stop()
        if plan is not None:
            self._rung += 1
            phase_ns = self._phase_ns // TOGETHER
            slow = SLOW if card.whole else 0
            made = Reader(plan.steps, plan.taps, plan.memory, PERIOD_NS, phase_ns, slow)
            with self._decoding:
                self._reader = made
                if self._bell is not None:
                    self._guard()

    def _guard(self) -> None:
        """Tell the reader what is news."""
        plan, reader, bell = self._plan, self._reader, self._bell
        if plan is None or reader is None:
            return
        taps = [(plan.names[n], level) for n, level in self._levels.items() if n in plan.names]
        bits = plan.bits[: GUARDS - len(taps)]
        rest = QUIET if plan.telling and len(bits) == len(plan.bits) else 1
        reader.watch(-1 if bell is None else bell.descriptor, taps, bits, rest)

    def _ring(self) -> None:
        """After a round in Python: a second's readings are news, and what a reader would ring for
        where there is none."""
        bell = self._bell
        if bell is None:
            return
        number, found = self.counters["rounds"], self._readings
        words = found.fields.get("throttle")
        news = (
            *[n for n in FAST if isinstance(found.fields.get(n), Absent)],
            *(SLOWED.intersection(words.value) if isinstance(words, Reading) else ()),
            *[getattr(found.fields.get(n), "value", None) for n in TELLING],
        )
        changed, self._news = news != self._news, news
        levels = self._levels.items()
        hot = any((value := found.number(n)) is not None and value >= most for n, most in levels)
        if changed or hot or self._plan is not None or number % FAST_HZ == 0:
            self._rung += 1
            bell.ring()

    def _decode(self) -> None:
        """Make readings of what the reader has, if that is newer; calls no driver."""
        if self._reader is None:
            return
        with self._decoding:
            reader, card = self._reader, self._planner
            if reader is None or self._plan is None:
                return
            codes, found = reader.state()[6], Snapshot(*reader.snapshot())
            told, self._told = self._told, True
            if not found.rounds or found.rounds == self._decoded:
                if found.rounds and not told:  # fast fields say what grew since: not twice
                    self._publish(self._fast, t_ns=found.t_ns)
                return
            card.seen(lambda name, most: self.points(name, most=most))
            fast = card.decode(found)
            self._energy_power(fast, self.points("energy_j", most=LAG + 1))
            if card.whole and found.turn != self._turn:
                self._slow.update(card.decode_slow(found))
                self._turn = found.turn
            if card.stale:
                self._anew.set()
            self._codes, self._decoded, self._fast = codes, found.rounds, fast
            self._publish(fast, t_ns=found.t_ns)

    def _publish(self, fast: Fields, *, failed: str = "", t_ns: int = 0) -> None:
        fields = dict(self._slow) or complete({}, failed)
        fields.update(fast)
        if failed:
            fields.update(dict.fromkeys(FAST, Absent(failed)))
        self._keep(fast)
        state, why = _state(fast) if not failed else ("missing", failed)
        if state != "ok" or self._readings.state in TROUBLED:
            # What comes back may be another card, or another driver; and what does not change may
            # have been asked for just before it came back.
            self._known = None
            if self._active.whole:
                self._anew.set()
        card = self.card
        self._readings = CardReadings(card.id, t_ns or time.time_ns(), fields, state, why, card.sim)

    def _keep(self, fast: Fields) -> None:
        """Add to the history what a reader in C does not keep."""
        for name in KEPT if self._plan is None else ():
            found = fast.get(name)
            if isinstance(found, Reading):
                self._history[name].add(found.t_ns, found.value)

    def _derive(self, fast: Fields) -> None:
        """Power from the energy counter, which integrates everything that the sensor sees."""
        found, past = fast.get("energy_j"), self._energy
        if isinstance(found, Reading):
            if past and found.value < past[-1][1]:
                past.clear()  # the driver was loaded again
            if not past or found.t_ns > past[-1][0]:
                past.append((found.t_ns, found.value))
            while len(past) > 1 and found.t_ns - past[1][0] >= SECOND_NS:
                past.popleft()
        self._energy_power(fast, list(past))

    def _energy_power(self, fast: Fields, points: list[tuple[int, float]]) -> None:
        found = fast.get("energy_j")
        if not isinstance(found, Reading):
            fast["energy_power_w"] = found if found is not None else Absent(NOT_READ)
            return
        passed_ns = points[-1][0] - points[0][0] if points else 0
        grown = points[-1][1] - points[0][1] if points else 0.0
        if passed_ns < SECOND_NS * 9 // 10 or grown < 0:
            fast["energy_power_w"] = TOO_EARLY
            return
        error = 2 * (found.error or 0.0) * SECOND_NS / passed_ns
        note = "the counter's steps" if error else ""
        watts = grown * SECOND_NS / passed_ns
        fast["energy_power_w"] = Reading(watts, "W", points[-1][0], passed_ns, error or None, note)

    def _drain(self, card: Card) -> None:
        kept = self._history["power_samples_w"]
        last = kept.last_ns
        for t_ns, watts in card.drain():
            if t_ns > last:
                kept.add(t_ns, watts)
                last = t_ns


def _state(fast: Fields) -> tuple[State, str]:
    """What the answers to one fast round say of the card."""
    asked = [found for name in FAST if (found := fast.get(name)) is not None]
    absent = [each for each in asked if isinstance(each, Absent)]
    for each in absent:
        if each.trouble == "lost":
            return "lost", each.why
    if len(absent) == len(asked):
        for each in absent:
            if each.trouble:
                return each.trouble, each.why
    return "ok", ""
