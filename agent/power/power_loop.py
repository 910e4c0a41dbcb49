# SPDX-License-Identifier: Apache-2.0
"""The power loop on real cards: reads what the samplers have, decides, has writers carry it out.

One thread, which calls no driver: while it begins it has drivers called by a deadline
(`driver_calls.py`); each card that can be set has a writer (`card_writer.py`) with a thread of its
own. Invariants: nothing is
set before a record of what was found is on disk; with `control = "observe"` nothing is set at all;
while anything is set the power lease is renewed, so that whatever ends this thread, somebody
restores.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import structlog

from stoker.agent.devices.card import Card as DeviceCard
from stoker.agent.devices.readings import Absent, CardReadings
from stoker.agent.power import status
from stoker.agent.power.gather import CEILING_C, Gather, describe
from stoker.agent.power.plan.action import PowerAction
from stoker.agent.power.plan.card import PowerCard, PowerRange, PowerSample
from stoker.agent.power.plan.controller import Controller
from stoker.agent.power.plan.model import IDLE_BUSY, UNKNOWN_MHZ
from stoker.agent.power.plan.rules import PowerRules
from stoker.agent.power.rules_file import RulesFile
from stoker.agent.power.setters import record
from stoker.agent.power.setters.card_setters import CardSetter, setter_of
from stoker.agent.power.setters.card_writer import CardWriter
from stoker.agent.power.setters.cpu_limit_v2 import CpuLimitV2
from stoker.agent.power.setters.driver_calls import DriverCalls
from stoker.agent.power.setters.launch_limit import LaunchLimit
from stoker.agent.state.lease import Lease
from stoker.native.errors import Refused, StokerError, Unavailable

TICK_S: Final = 0.1
IDLE_S: Final = 1.0
LEASE_NS: Final = 5_000_000_000
BEGIN_NS: Final = 30_000_000_000
"""While it begins, drivers may take longer."""
CLUSTER_LOST_S: Final = 30.0
"""Without a scheduler for so long, cards are given back."""
STATUS_S: Final = 1.0
RESTORE_AGAIN_S: Final = 5.0
GIVE_BACK_S: Final = 0.35
RECENT: Final = 20
LET_GO: Final = "clocks"
"""A setting without a value to give back: it goes on record only when it is changed."""

_log = structlog.get_logger("power")


@dataclass(frozen=True)
class PowerInputs:
    """What the shell is given by the daemon."""

    agent: Path
    run: Path
    boot_id: str
    cards: Callable[[], tuple[DeviceCard, ...]]
    readings: Callable[[], Mapping[str, CardReadings]]
    holders: Callable[[], Mapping[str, frozenset[str]]]
    connected: Callable[[], bool]
    lease: Lease
    hold: Callable[[str, float], CardSetter | Absent] = lambda _id, _watts: Absent("not held")
    """What holds the jobs of a device without a limit, of which the rules say what it draws."""


class PowerLoop:
    """One node's loop; `start` and `stop` from the daemon."""

    def __init__(self, world: PowerInputs, configured: PowerRules) -> None:
        self._world = world
        self._file = RulesFile(world.agent, configured)
        self._record = record.path(world.agent)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="power", daemon=True)
        self._writers: dict[str, CardWriter] = {}
        self._absent: dict[str, str] = {}
        self._setters: dict[str, CardSetter | Absent] = {}
        self._driver_calls = DriverCalls()
        self._clocks: dict[str, list[record.RecordedSetting]] = {}
        """What joins it before clocks of a card are held for the first time."""
        self._unkept: dict[str, str] = {}
        """Caps of tenants that cannot be kept, as they were last said."""
        self._surveyed = False
        self._defaults: dict[str, float] = {}
        """Default limits of all cards that ever said theirs."""
        self._assumed: dict[str, float] = {}
        self._declared: dict[str, float] = {}
        """Cards in trouble, and the power they count with: nobody asks their drivers."""
        self._found: list[record.RecordedSetting] = []
        """What is on record for the writers that are at work."""
        self._noting = threading.Lock()
        """Held while the record is written: a writer may note more, in its own thread."""
        self._owed: list[record.RecordedSetting] = []
        """What such cards are still to be given back."""
        self._unrestored = ""
        """What could not be restored, in stoker-restore's words."""
        self._blocked: bool | None = None
        """Whether that keeps everything as it is; None: to be found out."""
        self._restored_s = float("-inf")
        self._cards: list[PowerCard] = []
        self._controller: Controller | None = None
        self._gather = Gather()
        self._shadow: dict[str, float] = {}
        self._recent: deque[status.DecidedAction] = deque(maxlen=RECENT)
        self._why = "it has not begun"
        self._refused = ""
        self._said_s = 0.0
        self._seen_s = time.monotonic()
        self.failures = 0

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def leave(self) -> None:
        """Begin to stop."""
        self._stop.set()

    def stop(self) -> None:
        """Give every card back what it had, within GIVE_BACK_S; who does not manage in time is
        restored by the watchdog."""
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
            except Exception as error:  # whatever it was, cards are given back and it is tried anew
                self.failures += 1
                _log.exception("the power loop failed", error=str(error))
                self._end(f"it failed: {error!r}")
                pause = 5 * IDLE_S
            self._say()
            self._stop.wait(pause)
        self._end("the agent ends")

    def _pass(self) -> float:
        changed = self._file.look()
        rules = self._file.rules
        if self._on and (self._world.lease.power_restored or not self._record.exists()):
            self._end("what was found was restored from outside, as the power lease ran out")
        if not self._on:
            self._restore()
        if self._surveyed and self._cards_changed():
            self._end("the node's cards changed")
            self._surveyed = False
        if not self._surveyed and not self._survey():
            return TICK_S
        if self._blocked is None:
            self._blocked = bool(self._unrestored) and not self._owed_to_others()
        if self._blocked and not self._on:
            self._end(f"what cards were set to before cannot be restored: {self._unrestored}")
            return IDLE_S
        if not _wanted(rules):
            self._end("no budget, cap or ceiling is set")
            return IDLE_S
        if self._cluster_lost():
            self._end(f"no scheduler for {CLUSTER_LOST_S:g} s: cards have what they had before")
            return IDLE_S
        if self._controller is not None and changed:
            if self._on != (rules.control == "on"):
                self._end("control was switched")
            else:
                self._follow(rules)
        if self._controller is None and not self._begin(rules):
            return IDLE_S
        self._tick()
        return TICK_S

    def _follow(self, rules: PowerRules) -> None:
        """New rules, or, where these cards cannot keep them, those before."""
        assert self._controller is not None
        try:
            self._controller.set_rules(self._of_present(rules))
        except StokerError as error:
            self._refused = f"new rules are refused, those before hold: {error.message}"
            _log.warning("rules refused", why=error.message)

    @property
    def _on(self) -> bool:
        return bool(self._writers)

    def _cluster_lost(self) -> bool:
        if self._world.connected() and not self._world.lease.lapsed:
            self._seen_s = time.monotonic()
        return time.monotonic() - self._seen_s > CLUSTER_LOST_S

    def _cards_changed(self) -> bool:
        if self._declared != self._file.rules.declared:
            return True
        present = {card.id for card in self._world.cards()}
        if present != {card.id for card in self._cards} | set(self._absent):
            return True
        readings = self._world.readings() if self._assumed else {}
        return any(
            readings[id].state == "ok" and not self._driver_calls.hangs(id)
            for id in self._assumed
            if id in readings
        )

    def _survey(self) -> bool:
        """Which cards there are and what they take; False while their first round is not over."""
        readings = self._world.readings()
        present = self._world.cards()
        if any(readings[card.id].state == "starting" for card in present if card.id in readings):
            return False
        troubled = {id: each.why for id, each in readings.items() if each.state != "ok"}
        sound = [card for card in present if card.id not in troubled]
        looked = self._driver_calls.each(
            {card.id: partial(_look, card, readings.get(card.id)) for card in sound}
        )
        troubled |= {id: each.why for id, each in looked.items() if isinstance(each, Absent)}
        self._setters = {id: Absent(why) for id, why in troubled.items()}
        self._cards, self._absent, self._assumed = [], {}, {}
        self._declared = dict(self._file.rules.declared)
        for id, answer in looked.items():
            if isinstance(answer, Absent):
                continue
            self._setters[id], card, why = answer
            if (card is None or card.power is None) and id in self._declared:
                card = self._held(id, self._declared[id], card.ceiling_c if card else CEILING_C)
            if card is None:
                self._absent[id] = why
            else:
                self._cards.append(card)
        self._defaults |= {card.id: card.power.default_w for card in self._cards if card.power}
        highest = max((card.power.default_w for card in self._cards if card.power), default=0.0)
        for id in troubled:
            found = readings.get(id)
            watts = found.number("power_limit_default_w") if found else None
            self._assumed[id] = watts or self._defaults.get(id) or highest
            self._cards.append(PowerCard(id, None, None, CEILING_C, most_w=self._assumed[id]))
        self._surveyed = True
        return True

    def _held(self, id: str, draws_w: float, ceiling_c: float) -> PowerCard:
        """A device that takes no limit, of which the rules say what it draws: its jobs are held, or
        it counts."""
        hold = self._world.hold(id, draws_w)
        range = hold if isinstance(hold, Absent) else hold.limits()
        self._setters[id] = hold
        power = None if isinstance(range, Absent) else range
        if power is not None and not isinstance(hold, Absent):
            hold.set_power_limit(power.max_w)  # lets go whom an earlier agent held
        return PowerCard(
            id, power, None, ceiling_c, idle_w=0.1 * draws_w, memory_w=0.0, most_w=draws_w
        )

    def _of_present(self, rules: PowerRules) -> PowerRules:
        """Without bounds of cards that are not there, or in trouble: nobody can set those, and that
        is no reason to let the budget go."""
        here = {card.id for card in self._cards} - set(self._assumed)
        gone = [id for id in rules.cards if id not in here]
        self._refused = f"bounds wait for devices that are not there: {', '.join(gone)}"
        if not gone:
            self._refused = ""
            return rules
        cards = {id: rule for id, rule in rules.cards.items() if id in here}
        return msgspec.structs.replace(rules, cards=cards)

    # --- begin and end ----------------------------------------------------------------------------

    def _restore(self) -> None:
        """What an earlier agent, or this one, left; whatever the rules are now."""
        if not self._record.exists():
            self._unrestored, self._owed, self._blocked = "", [], False
            return
        if self._unrestored and time.monotonic() - self._restored_s < RESTORE_AGAIN_S:
            return
        self._renew(BEGIN_NS)
        self._unrestored = record.restore(self._record)
        self._renew(0)
        self._owed, self._blocked, self._restored_s = [], None, time.monotonic()

    def _owed_to_others(self) -> bool:
        """Whether only cards that do not answer could not be restored: it stays on record for them,
        and the others are within the budget meanwhile."""
        failed = record.unrestored(self._unrestored)
        kept = record.load(self._record) if failed else None
        if kept is None:
            return False
        mine: set[str] = set()
        asked = {
            id: each.found for id, each in self._setters.items() if not isinstance(each, Absent)
        }
        for settings in self._driver_calls.each(asked).values():
            mine |= set() if isinstance(settings, Absent) else {each.id for each in settings}
        if failed & mine:
            return False
        self._owed = [each for each in kept[1] if each.id in failed]
        return True

    def _begin(self, rules: PowerRules) -> bool:
        self._renew(BEGIN_NS)
        found: list[record.RecordedSetting] = []
        limits: dict[str, float] = {}
        writers: dict[str, CardWriter] = {}
        takes = {card.id: card for card in self._cards if card.power is not None}
        asked = {
            id: each
            for id, each in self._setters.items()
            if id in takes and not isinstance(each, Absent)
        }
        answers = self._driver_calls.each(
            {id: partial(_set_to, each) for id, each in asked.items()}
        )
        self._clocks = {}
        for id, answer in answers.items():
            if isinstance(answer, Absent):
                self._surveyed = False  # it may be in trouble by now
                raise Unavailable(f"{id}: what it is set to cannot be read: {answer.why}")
            limits[id], settings = answer
            self._clocks[id] = [each for each in settings if each.what == LET_GO]
            found += [each for each in settings if each.what != LET_GO]
            writers[id] = CardWriter(id, asked[id], takes[id].clocks)
            if isinstance(hold := asked[id], CpuLimitV2):
                hold.note = self._note
        if not self._cards:
            self._renew(0)
            self._why = "no device here has a power sensor or a power limit"
            return False
        here = self._of_present(rules)
        self._controller = Controller(self._cards, here, time.monotonic_ns())
        self._shadow = dict(limits)
        if rules.control == "on" and writers:
            record.store(self._record, self._world.boot_id, [*found, *self._owed])
            self._found = found
            for id, writer in writers.items():
                writer.start(limits[id])
            self._writers = writers
        else:
            self._renew(0)
        self._why = ""
        _log.info("power loop begins", control=rules.control, cards=len(self._cards))
        return True

    def _note(self, found: Sequence[record.RecordedSetting]) -> None:
        """More of what is about to be set, from any thread; Refused where the disk does not take
        it. Groups of jobs that are over are left out."""
        with self._noting:
            kept = [
                each for each in self._found if each.what != "cpu_max" or Path(each.id).exists()
            ]
            record.store(self._record, self._world.boot_id, [*kept, *found, *self._owed])
            self._found = [*kept, *found]

    def _end(self, why: str) -> None:
        """Give back; the record goes when all of it was confirmed."""
        if self._why != why and (self._controller is not None or self._writers):
            _log.info("power loop ends", why=why)
        self._why = why
        self._controller = None
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.give_back()
        deadline = time.monotonic() + GIVE_BACK_S
        slow = [
            id
            for id, writer in writers.items()
            if not writer.given_back.wait(max(0.0, deadline - time.monotonic()))
        ]
        if slow:
            _log.warning("cards were not given back in time", cards=slow)
            self._restored_s = float("-inf")  # before anything is set or recorded again
        elif writers:
            self._forget()
            self._renew(0)

    def _forget(self) -> None:
        """All was given back, but for what cards in trouble are owed. What cannot be forgotten is
        restored once more, which changes nothing."""
        self._restored_s = float("-inf")
        try:
            if self._owed:
                record.store(self._record, self._world.boot_id, self._owed)
            else:
                self._record.unlink(missing_ok=True)
        except (StokerError, OSError) as error:
            _log.warning("the record of what cards were set to stays", why=str(error))

    def _renew(self, for_ns: int) -> None:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._world.lease.renew_power(now + for_ns if for_ns else 0)

    # --- one tick ---------------------------------------------------------------------------------

    def _tick(self) -> None:
        assert self._controller is not None
        now_ns = time.monotonic_ns()
        snapshot = self._world.readings()
        readings: list[PowerSample] = []
        for card in self._cards:
            state = snapshot[card.id].state if card.id in snapshot else "missing"
            if state == "lost":
                readings.append(PowerSample(card.id, now_ns, gone=True))
            if card.id in self._assumed or state not in ("ok", "starting"):
                continue
            limit_w, t_ns = self._limit_of(card, now_ns)
            if snapshot[card.id].number("power_w") is None and card.id in self._declared:
                readings.append(self._declared_reading(card, limit_w, t_ns))
                continue
            readings.append(self._gather.reading(snapshot[card.id], limit_w, t_ns))
        actions = self._controller.step(readings, now_ns, self._world.holders())
        self._record_clocks(actions)
        for action in actions:
            self._carry_out(action)
        self._say_unkept()
        if self._on:
            self._renew(LEASE_NS)

    def _declared_reading(self, card: PowerCard, limit_w: float | None, t_ns: int) -> PowerSample:
        """It works while jobs hold it; what no limit holds is drawn whole."""
        busy = 1.0 if self._world.holders().get(card.id) else 0.0
        watts = None if card.power else self._declared[card.id]
        return PowerSample(
            card.id,
            t_ns,
            limit_w=limit_w,
            power_w=watts,
            clock_mhz=UNKNOWN_MHZ,
            busy=busy,
            memory_busy=0.0,
            traffic_bytes=busy * t_ns,
        )

    def _limit_of(self, card: PowerCard, now_ns: int) -> tuple[float | None, int]:
        """As read back by its hand; where nothing is set, as it would be."""
        writer = self._writers.get(card.id)
        if writer is None:
            return self._shadow.get(card.id), now_ns
        return (
            (writer.back.limit_w, writer.back.t_ns) if writer.back is not None else (None, now_ns)
        )

    def _record_clocks(self, actions: list[PowerAction]) -> None:
        """Of cards whose clocks are about to be held for the first time: an end that is not orderly
        lets clocks go only where stoker held any, for somebody else may have."""
        first = {
            each.card for each in actions if each.what == "clocks" and each.card in self._writers
        }
        more = [entry for id in first for entry in self._clocks.get(id, ())]
        if not more:
            return
        try:
            self._note(more)
        except Refused as error:
            _log.warning("clocks are not held", why=error.message)
            return
        for id in first:
            self._clocks[id] = []

    def _carry_out(self, action: PowerAction) -> None:
        writer = self._writers.get(action.card)
        if action.what == "clocks" and self._clocks.get(action.card):
            writer = None  # not on record, so not done
        if writer is not None and action.what == "limit":
            writer.want_limit(action.value)
        elif writer is not None:
            writer.want_clock(action.value)
        elif action.what == "limit":
            self._shadow[action.card] = action.value
        self._decided(status.decided(action, time.time_ns(), done=writer is not None))

    def _decided(self, decided: status.DecidedAction) -> None:
        self._recent.append(decided)
        _log.info("power decision", **decided.fields())

    def _say_unkept(self) -> None:
        """Each cap of a tenant that cannot be kept, when it becomes one."""
        assert self._controller is not None
        unkept, said = self._controller.unkept, self._unkept
        for tenant in unkept.keys() - said.keys():
            watts = self._file.rules.tenants.get(tenant, 0.0)
            number, now_ns = self._controller.actions, time.time_ns()
            self._decided(
                status.DecidedAction(now_ns, number, tenant, "cap", watts, unkept[tenant], self._on)
            )
        self._unkept = dict(unkept)

    # --- what is said -----------------------------------------------------------------------------

    def _say(self) -> None:
        if time.monotonic() - self._said_s < STATUS_S:
            return
        self._said_s = time.monotonic()
        controller, now_ns = self._controller, time.monotonic_ns()
        simulated = {id for id, card in self._world.readings().items() if card.sim}
        status.write(
            self._world.run,
            status.Status(
                t_ns=time.time_ns(),
                control=self._file.rules.control,
                why=self._why
                or self._refused
                or self._file.refused
                or "; ".join(controller.unkept.values() if controller else ()),
                rules=self._file.rules,
                committed_w=controller.ledger.committed_w(now_ns) if controller else None,
                cards=tuple(self._card(card, card.id in simulated, now_ns) for card in self._cards),
                absent=dict(self._absent),
                decisions=tuple(self._recent),
            ),
        )

    def _card(self, card: PowerCard, sim: bool, now_ns: int) -> status.CardStatus:
        writer = self._writers.get(card.id)
        reading = self._gather.last.get(card.id)
        controller = self._controller
        ledger = controller.ledger if controller else None
        gone = ledger is not None and ledger.is_gone(card.id)
        return status.CardStatus(
            id=card.id,
            limit_w=ledger.confirmed_w(card.id) if ledger and card.power and not gone else None,
            holds_w=ledger.counted_w(card.id, now_ns) if ledger else None,
            gone=gone,
            idle=not gone and _rests(reading),
            range=tuple(card.power or PowerRange(0, 0, 0)),
            power_w=reading.power_w if reading and not gone else None,
            temperature_c=reading.temperature_c if reading and not gone else None,
            ceiling_c=card.ceiling_c,
            refused=(writer.refused or writer.unread) if writer else "",
            sim=sim,
            note=writer.setter.said if writer and isinstance(writer.setter, LaunchLimit) else "",
        )


def _look(
    card: DeviceCard, readings: CardReadings | None
) -> tuple[CardSetter | Absent, PowerCard | None, str]:
    """What can be set of a card, and what the loop is told of it or why it takes no part."""
    setter = setter_of(card)
    return setter, *describe(card.id, setter, readings)


def _rests(reading: PowerSample | None) -> bool:
    return reading is not None and reading.busy is not None and reading.busy < IDLE_BUSY


def _set_to(setter: CardSetter) -> tuple[float, list[record.RecordedSetting]] | Absent:
    """A card's limit, and all that may be changed of it."""
    limit = setter.power_limit_w()
    if isinstance(limit, Absent):
        return limit
    settings = setter.found()
    return settings if isinstance(settings, Absent) else (limit, settings)


def _wanted(rules: PowerRules) -> bool:
    """Whether there is anything to keep."""
    return bool(
        rules.budget_w or rules.ceiling_c or rules.cards or rules.tenants or rules.control == "on"
    )
