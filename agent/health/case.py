# SPDX-License-Identifier: Apache-2.0
"""A case: one trouble of one card, from its first signal until it is over.

Pure. It owns hysteresis. It counts signals within a window, and a trouble is over only after a
period without signals, the clean period. Each recent relapse doubles that period.
"""

from __future__ import annotations

from collections import deque

import msgspec

from stoker.agent.health.signals import Kind, Signal
from stoker.agent.health.table import BY_DRIVER, HOLDING, ORDER, Rule, S, rules
from stoker.agent.health.xids import Action

WINDOW_MAX = 1024
"""The most occurrences that one window counts; no rule needs more."""
DOUBLED_MAX = 5
"""The most times that the clean period doubles."""


class SavedCase(msgspec.Struct, array_like=True, frozen=True):
    """The part of a case that outlives the agent."""

    device: str
    kind: Kind
    number: int
    first_ns: int
    last_ns: int
    count: int
    text: str
    place: int
    """The index of the rule in force among the rules of the kind; -1 if none applies yet."""
    relapses: int = 0


class HealthCase:
    """One trouble of one card now. All times are CLOCK_BOOTTIME, in ns."""

    def __init__(self, signal: Signal, relapses: int = 0) -> None:
        self.kind, self.number, self.text = signal.kind, signal.number, signal.text
        self.first_ns = self.last_ns = signal.t_ns
        self.count = 0
        self.relapses = relapses
        """The number of times that the same trouble kept jobs away in the hour before this case."""
        self.place = -1
        """The index of the rule in force in `_rules`; -1 if none applies yet."""
        self.ended_ns = 0
        """The time at which attempts were last ended because of this trouble."""
        self._rules = rules(signal.kind, signal.number)
        self._times: deque[tuple[int, int]] = deque(maxlen=WINDOW_MAX)

    @property
    def rule(self) -> Rule:
        """The severest rule that has applied so far, or the mildest if none has."""
        return self._rules[max(self.place, 0)]

    @property
    def action(self) -> Action:
        return self.rule.action if self.place >= 0 else "ignore"

    def hear(self, signal: Signal) -> bool:
        """Count a signal of this trouble; True if a severer rule than before applies now."""
        self.count += signal.times
        self.last_ns = max(self.last_ns, signal.t_ns)
        self._times.append((signal.t_ns, signal.times))
        applying = [place for place, rule in enumerate(self._rules) if self._applies(rule)]
        worst = max(applying, key=lambda p: ORDER.index(self._rules[p].action), default=-1)
        if worst < 0 or (self.place >= 0 and self._order(worst) <= self._order(self.place)):
            return False
        self.place = worst
        return True

    def _order(self, place: int) -> int:
        return ORDER.index(self._rules[place].action)

    def _applies(self, rule: Rule) -> bool:
        if rule.after <= 1:
            return True
        since = self.last_ns - int(rule.within_s * S) if rule.within_s else 0
        return sum(count for t_ns, count in self._times if t_ns > since) >= rule.after

    def clean_ns(self) -> int:
        """Return the clean period: the time without signals, in ns, after which this is over."""
        again = min(self.relapses, DOUBLED_MAX) if self.action in HOLDING else 0
        return int(self.rule.clean_s * S) << again

    def is_over(self, now_ns: int, reset_ns: int) -> bool:
        """Return True if the trouble is over; `reset_ns` is the time of the card's last reset."""
        since = self.last_ns
        if self.action == "reset" and self.kind not in BY_DRIVER:
            if reset_ns <= self.last_ns:
                return False
            since = reset_ns
        return now_ns - since >= self.clean_ns()

    def words(self) -> str:
        """Return a description such as "Xid 79: GPU has fallen off the bus"."""
        if self.kind == "xid":  # an Xid outside the catalogue has its number in the text
            return f"Xid {self.number or self.text}: {self.rule.text}"
        return f"{self.rule.text} ({self.text})" if self.text else self.rule.text

    def saved(self, device: str) -> SavedCase:
        return SavedCase(
            device,
            self.kind,
            self.number,
            self.first_ns,
            self.last_ns,
            self.count,
            self.text,
            self.place,
            self.relapses,
        )

    @classmethod
    def restored(cls, saved: SavedCase) -> HealthCase:
        """Restore a case; the occurrences in its window are lost."""
        signal = Signal(saved.device, saved.kind, saved.first_ns, saved.number, saved.text)
        case = cls(signal, saved.relapses)
        case.last_ns, case.count = saved.last_ns, saved.count
        case.place = min(saved.place, len(case._rules) - 1)
        return case
