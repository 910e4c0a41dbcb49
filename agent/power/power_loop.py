# SPDX-License-Identifier: Apache-2.0
"""The power loop on real cards: samples in, the plan's actions out to writers, ten times a second.

The loop is one thread that never waits for a driver: `survey.py` calls drivers by a deadline, and
each card has a writer with a thread of its own. Invariants: with `control = "observe"` nothing is
set. While anything is set, this thread renews the power lease, so that the watchdog restores the
cards if the thread ends.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from stoker.agent.power import status
from stoker.agent.power.gather import Gather
from stoker.agent.power.inputs import PowerInputs
from stoker.agent.power.original_settings import BEGIN_NS, OriginalSettings
from stoker.agent.power.plan.card import PowerCard, PowerSample
from stoker.agent.power.plan.controller import Controller
from stoker.agent.power.plan.model import UNKNOWN_MHZ
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.report import PowerReport, card_status
from stoker.agent.power.rules_file import RulesFile
from stoker.agent.power.survey import NodeSurvey
from stoker.agent.power.writers import GIVE_BACK_S, Writers
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

TICK_S: Final = 0.1
IDLE_S: Final = 1.0
LEASE_NS: Final = 5_000_000_000
CLUSTER_LOST_S: Final = 30.0
"""Cards are given back after this time without a scheduler."""

_log = structlog.get_logger("power")


class PowerLoop:
    """One node's loop; the daemon calls `start` and `stop`."""

    def __init__(self, inputs: PowerInputs, configured: PowerRules) -> None:
        self._inputs = inputs
        self._file = RulesFile(inputs.agent, configured)
        self._survey = NodeSurvey(inputs)
        self._originals = OriginalSettings(inputs)
        self._writers = Writers(self._originals)
        self._report = PowerReport(inputs.run)
        self._gather = Gather()
        self._controller: Controller | None = None
        self._why = "it has not begun"
        self._refused = ""
        self._seen_s = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="power", daemon=True)
        self.failures = 0

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def leave(self) -> None:
        """Begin to stop."""
        self._stop.set()

    def stop(self) -> None:
        """Give every card back its settings within GIVE_BACK_S; the watchdog restores the rest."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(GIVE_BACK_S + TICK_S)

    # --- the thread -------------------------------------------------------------------------------

    def _main(self) -> None:
        while not self._stop.is_set():
            try:
                pause = self._pass()
            except StokerError as error:
                self._end(error.message)
                pause = IDLE_S
            except Exception as error:  # cards are given back, and the loop begins again
                self.failures += 1
                _log.exception("the power loop failed", error=str(error))
                self._end(f"it failed: {error!r}")
                pause = 5 * IDLE_S
            if self._report.is_due():
                self._report.write(self._status())
            self._stop.wait(pause)
        self._end("the agent ends")

    def _pass(self) -> float:
        """One round; returns the seconds until the next."""
        changed = self._file.look()
        rules = self._file.rules
        self._mend()
        if not self._know_cards(rules):
            return TICK_S
        if obstacle := self._obstacle(rules):
            self._end(obstacle)
            return IDLE_S
        if self._controller is not None and changed:
            if self._writers.are_at_work != (rules.control == "on"):
                self._end("control was switched")
            else:
                self._follow(rules)
        if self._controller is None and not self._begin(rules):
            return IDLE_S
        self._tick()
        return TICK_S

    def _mend(self) -> None:
        """Notice a restore by the watchdog, and restore what is left on record."""
        lapsed = self._inputs.lease.power_restored or not self._originals.is_recorded()
        if self._writers.are_at_work and lapsed:
            self._end("what was found was restored from outside, as the power lease ran out")
        if not self._writers.are_at_work:
            self._originals.restore()

    def _know_cards(self, rules: PowerRules) -> bool:
        """True with an up-to-date survey of the cards."""
        if self._survey.done and self._survey.changed(rules):
            self._end("the node's cards changed")
            self._survey.done = False
        return self._survey.done or self._survey.take(rules)

    def _obstacle(self, rules: PowerRules) -> str:
        """The reason why nothing may be controlled now, or an empty string."""
        if self._originals.blocks(self._survey) and not self._writers.are_at_work:
            unrestored = self._originals.unrestored
            return f"what cards were set to before cannot be restored: {unrestored}"
        if not _wants_control(rules):
            return "no budget, cap or ceiling is set"
        if self._cluster_lost():
            return f"no scheduler for {CLUSTER_LOST_S:g} s: cards have what they had before"
        return ""

    def _cluster_lost(self) -> bool:
        if self._inputs.connected() and not self._inputs.lease.lapsed:
            self._seen_s = time.monotonic()
        return time.monotonic() - self._seen_s > CLUSTER_LOST_S

    # --- begin, follow, end -----------------------------------------------------------------------

    def _begin(self, rules: PowerRules) -> bool:
        if not self._survey.cards:
            self._originals.renew(0)
            self._why = "no device here has a power sensor or a power limit"
            return False
        self._originals.renew(BEGIN_NS)
        try:
            found = self._writers.prepare(self._survey)
        except StokerError:
            self._survey.done = False  # the card may be in trouble by now
            raise
        self._controller = Controller(
            self._survey.cards, self._applicable(rules), time.monotonic_ns()
        )
        if rules.control == "on" and self._writers.are_prepared:
            self._originals.keep(found)
            self._writers.start()
        else:
            self._originals.renew(0)
        self._why = ""
        cards = len(self._survey.cards)
        _log.info("power loop begins", control=rules.control, cards=cards)
        return True

    def _follow(self, rules: PowerRules) -> None:
        """Put new rules in force; if the cards cannot keep them, the old ones stay."""
        assert self._controller is not None
        try:
            self._controller.set_rules(self._applicable(rules))
        except StokerError as error:
            self._refused = f"new rules are refused, those before hold: {error.message}"
            _log.warning("rules refused", why=error.message)

    def _applicable(self, rules: PowerRules) -> PowerRules:
        applicable, gone = self._survey.applicable(rules)
        missing = f"bounds wait for devices that are not there: {', '.join(gone)}"
        self._refused = missing if gone else ""
        return applicable

    def _end(self, why: str) -> None:
        """Stop controlling and give the cards back."""
        if self._why != why and (self._controller is not None or self._writers.are_at_work):
            _log.info("power loop ends", why=why)
        self._why = why
        self._controller = None
        self._writers.give_back()

    # --- one tick ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        assert self._controller is not None
        now_ns = time.monotonic_ns()
        actions = self._controller.step(self._samples(now_ns), now_ns, self._inputs.holders())
        self._writers.record_clocks(actions)
        for action in actions:
            self._report.decided(action, done=self._writers.carry_out(action))
        self._report.unkept(self._controller, self._file.rules, done=self._writers.are_at_work)
        if self._writers.are_at_work:
            self._originals.renew(LEASE_NS)

    def _samples(self, now_ns: int) -> list[PowerSample]:
        """A sample of each card that can be read, and a mark for each that is lost."""
        readings = self._inputs.readings()
        samples: list[PowerSample] = []
        for card in self._survey.cards:
            found = readings.get(card.id)
            state = found.state if found else "missing"
            if state == "lost":
                samples.append(PowerSample(card.id, now_ns, gone=True))
            if found is None or card.id in self._survey.assumed or state not in ("ok", "starting"):
                continue
            limit_w, t_ns = self._writers.limit_of(card.id, now_ns)
            if found.number("power_w") is None and card.id in self._survey.declared:
                samples.append(self._declared_sample(card, limit_w, t_ns))
            else:
                samples.append(self._gather.reading(found, limit_w, t_ns))
        return samples

    def _declared_sample(self, card: PowerCard, limit_w: float | None, t_ns: int) -> PowerSample:
        """A device without a sensor is busy while jobs have it; unlimited, it draws all it may."""
        busy = 1.0 if self._inputs.holders().get(card.id) else 0.0
        return PowerSample(
            card.id,
            t_ns,
            limit_w=limit_w,
            power_w=None if card.power else self._survey.declared[card.id],
            clock_mhz=UNKNOWN_MHZ,
            busy=busy,
            memory_busy=0.0,
            traffic_bytes=busy * t_ns,
        )

    def _status(self) -> status.Status:
        controller, now_ns = self._controller, time.monotonic_ns()
        ledger = controller.ledger if controller else None
        simulated = {card.id for card in self._inputs.cards() if card.sim}
        unkept = "; ".join(controller.unkept.values() if controller else ())
        return status.Status(
            t_ns=time.time_ns(),
            control=self._file.rules.control,
            why=self._why or self._refused or self._file.refused or unkept,
            rules=self._file.rules,
            committed_w=ledger.committed_w(now_ns) if ledger else None,
            cards=tuple(
                card_status(
                    card,
                    self._gather.last.get(card.id),
                    self._writers.of(card.id),
                    ledger,
                    now_ns,
                    sim=card.id in simulated,
                )
                for card in self._survey.cards
            ),
            absent=dict(self._survey.absent),
            decisions=tuple(self._report.recent),
        )


def _wants_control(rules: PowerRules) -> bool:
    """True if the rules ask for anything."""
    return bool(
        rules.budget_w or rules.ceiling_c or rules.cards or rules.tenants or rules.control == "on"
    )
