# SPDX-License-Identifier: Apache-2.0
"""The health of a node's cards: signals in, findings out.

Pure: time comes in with signals and ticks. Invariants: a card gets jobs again only when all its
troubles that keep jobs away are over by their rules. A storm of signals of one kind makes few
findings, since repeats are only counted, but the first signal that fulfils a rule always makes one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

from stoker.agent.health.case import HealthCase, SavedCase
from stoker.agent.health.signals import Kind, Signal
from stoker.agent.health.table import HOLDING, ORDER, S
from stoker.agent.health.xids import LAST, Action

END_AGAIN_NS = 2 * S
"""The shortest time between two findings that end attempts for the same trouble."""
RELAPSE_NS = 3600 * S
"""The time for which a trouble that kept jobs away makes the same trouble later a relapse."""
RELAPSES_KEPT = 8
REASON_CHARS_MAX = 200
_HELP: dict[Action, str] = {
    "reset": "needs reset: ",
    "drain": "node drained: ",
    "cordon": "sick: ",
}
Key = tuple[Kind, int]


class Finding(NamedTuple):
    """A trouble began or got worse (`raised`), goes on (`again`), or is `over`.

    `ends` is True if the attempts on the card must be ended.
    """

    device: str
    what: Literal["raised", "again", "over"]
    action: Action
    kind: Kind
    number: int
    reason: str
    times: int
    ends: bool = False


class Standing(NamedTuple):
    """The severest trouble that a card has now."""

    action: Action
    reason: str
    since_ns: int


WELL = Standing("ignore", "", 0)


class Verdict:
    """The cases of all cards of one node."""

    def __init__(self, saved: Iterable[SavedCase] = (), now_ns: int = 0) -> None:
        """Begin with the cases that an earlier agent saved.

        Their clean periods begin anew at `now_ns`, since no agent watched the cards meanwhile.
        """
        self.counters: Counter[str] = Counter()
        self._cases: dict[str, dict[Key, HealthCase]] = {}
        self._resets: dict[str, int] = {}
        self._raised: dict[tuple[str, Key], deque[int]] = {}
        for each in saved:
            case = HealthCase.restored(each)
            case.last_ns = max(case.last_ns, now_ns)
            self._cases.setdefault(each.device, {})[each.kind, each.number] = case

    # --- what happens -----------------------------------------------------------------------------

    def hear(self, signal: Signal) -> list[Finding]:
        """Count one signal and return the findings that follow from it.

        The first occurrence of a new trouble is counted by itself, before the others of its signal.
        Otherwise a storm in one batch would apply only its severest rule, which may end no jobs,
        and the job that the first occurrence would end would go on.
        """
        self.counters["health_signals"] += signal.times
        if signal.kind == "reset_seen":
            self._resets[signal.device] = max(signal.t_ns, self._resets.get(signal.device, 0))
        if signal.kind == "xid" and not 0 < signal.number <= LAST:
            signal = signal._replace(number=0, text=str(signal.number))
        known = (signal.kind, signal.number) in self._cases.get(signal.device, {})
        if known or signal.times == 1:
            return self._hear(signal)
        others = signal._replace(times=signal.times - 1)
        return self._hear(signal._replace(times=1)) + self._hear(others)

    def _hear(self, signal: Signal) -> list[Finding]:
        key = (signal.kind, signal.number)
        cases = self._cases.setdefault(signal.device, {})
        case = cases.get(key)
        if case is None:
            case = cases[key] = HealthCase(signal, self._relapses(signal.device, key, signal.t_ns))
        if case.hear(signal):
            self._note_raise(signal.device, key, case, signal.t_ns)
            return [self._finding(signal.device, "raised", case, signal.t_ns)]
        if case.rule.ends and case.place >= 0 and signal.t_ns - case.ended_ns >= END_AGAIN_NS:
            return [self._finding(signal.device, "again", case, signal.t_ns)]
        self.counters["health_repeats"] += signal.times
        if signal.kind == "xid":
            self.counters["health_xids_repeated"] += signal.times
        return []

    @property
    def calm(self) -> bool:
        """True if there is no trouble that could be over."""
        return not any(self._cases.values())

    def tick(self, now_ns: int) -> list[Finding]:
        """Return the troubles that are over now."""
        found: list[Finding] = []
        for device, cases in self._cases.items():
            reset_ns = self._resets.get(device, 0)
            for key in [k for k, case in cases.items() if case.is_over(now_ns, reset_ns)]:
                case = cases.pop(key)
                if case.action != "ignore":
                    found.append(self._finding(device, "over", case, now_ns))
        return found

    def _relapses(self, device: str, key: Key, now_ns: int) -> int:
        raised = self._raised.get((device, key), ())
        return sum(1 for t_ns in raised if now_ns - t_ns < RELAPSE_NS)

    def _note_raise(self, device: str, key: Key, case: HealthCase, now_ns: int) -> None:
        if case.action in HOLDING:
            kept = self._raised.setdefault((device, key), deque(maxlen=RELAPSES_KEPT))
            kept.append(now_ns)

    @staticmethod
    def _finding(
        device: str, what: Literal["raised", "again", "over"], case: HealthCase, now_ns: int
    ) -> Finding:
        ends = case.rule.ends and what != "over"
        if ends:
            case.ended_ns = now_ns
        return Finding(
            device,
            what,
            case.action,
            case.kind,
            case.number,
            case.words()[:REASON_CHARS_MAX],
            case.count,
            ends,
        )

    # --- what holds -------------------------------------------------------------------------------

    def standing(self, device: str) -> Standing:
        """Return the severest trouble of a card, the oldest if several are as severe."""
        cases = [c for c in self._cases.get(device, {}).values() if c.action != "ignore"]
        if not cases:
            return WELL
        worst = max(cases, key=lambda c: (ORDER.index(c.action), -c.first_ns))
        return Standing(worst.action, worst.words()[:REASON_CHARS_MAX], worst.first_ns)

    def holds(self) -> dict[str, str]:
        """Return card -> the reason why it gets no jobs, for the cards that get none."""
        standing = {device: self.standing(device) for device in self._cases}
        return {
            device: _HELP[each.action] + each.reason
            for device, each in standing.items()
            if each.action in HOLDING
        }

    def warnings(self) -> dict[str, str]:
        """Return card -> a warning, for the cards in trouble that still get jobs."""
        standing = {device: self.standing(device) for device in self._cases}
        mild = {"warn", "restart"}
        return {device: each.reason for device, each in standing.items() if each.action in mild}

    def drain(self) -> str:
        """Return the reason why the node gets no jobs; empty if it gets some."""
        for device, cases in self._cases.items():
            for case in cases.values():
                if case.action == "drain":
                    return f"device {device}: {case.words()}"[:REASON_CHARS_MAX]
        return ""

    def saved(self) -> tuple[SavedCase, ...]:
        """Return the cases that keep jobs away, which must outlive the agent."""
        return tuple(
            case.saved(device)
            for device, cases in self._cases.items()
            for case in cases.values()
            if case.action in HOLDING
        )
