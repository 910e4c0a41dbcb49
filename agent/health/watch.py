# SPDX-License-Identifier: Apache-2.0
"""The health of this node's cards, as the agent keeps it: sources in, what follows carried out.

Relied on by the daemon; lives in its loop, calls no driver and waits for none. Looks at each card
twenty times a second, cheaply: in full when new readings are there, or while it is hot. Owns the
order: a card that gets no more jobs is reported before attempts on it are ended, so that none is
retried there.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from stoker.agent.devices.sampled import Sampled
from stoker.agent.devices.sampler import Samplers
from stoker.agent.health import journal, kmsg
from stoker.agent.health.case import Saved
from stoker.agent.health.examine import Examiner
from stoker.agent.health.kernel_log import Line, bus_of
from stoker.agent.health.nvml_events import Event, NvmlEvents
from stoker.agent.health.signals import Signal
from stoker.agent.health.verdict import Finding, Verdict
from stoker.agent.steps import Key
from stoker.probes.notices import Notice

LOOK_S = 0.05
NEAR_C = 8.0
"""So far below its slowdown temperature a card is looked at in full each time."""
SAME_NS = 2_000_000_000
"""An Xid that two sources tell within so long is one."""
TOLD_MAX = 4096
LOGGED_MAX = 64
"""Findings of one second that have a line each in the log; the others are counted."""

_log = structlog.get_logger("health")


class Says(Protocol):
    """Where the verdict goes."""

    def __call__(
        self, holds: Mapping[str, str], warnings: Mapping[str, str], drain: str
    ) -> None: ...


@dataclass(frozen=True)
class World:
    """What the watch is given by the daemon."""

    agent: Path
    boot_id: str
    samplers: Samplers
    addresses: Callable[[], Mapping[str, str]]
    """Device -> PCI address."""
    attempts: Callable[[str], tuple[Key, ...]]
    """Attempts that were granted a device."""
    says: Says
    end: Callable[[tuple[Key, ...], str], None]
    kernel_log: Path = kmsg.PATH


class Watch:
    """One node's health; `run` until cancelled."""

    def __init__(self, world: World, note: Callable[[Finding], None] | None = None) -> None:
        self._world = world
        self._note = note
        kept = journal.load(world.agent, world.boot_id)
        self.verdict = Verdict(kept.cases)
        self._saved = self.verdict.saved()
        self._examiners = {id: Examiner(id, energy) for id, energy in kept.energy_j.items()}
        self._rounds: dict[str, int] = {}
        self._told: dict[tuple[str, int], tuple[str, int]] = {}
        self._counted: Counter[str] = Counter()
        self._logged = (0, 0)
        self._loop = asyncio.get_running_loop()
        self._kernel_log = kmsg.KernelLog(self._line, world.kernel_log)
        self._events = NvmlEvents(self._from_thread)
        self._places: dict[str, str] = {}
        self._set_ns = 0

    @property
    def counters(self) -> Mapping[str, int]:
        """Signals, repeats, lines left out."""
        total = Counter(self._counted)
        for each in (self.verdict, self._kernel_log, self._events):
            total.update(each.counters)
        return total

    async def run(self) -> None:
        """For ever."""
        self._kernel_log.begin()
        if self._kernel_log.why:
            _log.warning("the kernel's log is not read", why=self._kernel_log.why)
        try:
            while True:
                self.look(now_ns())
                await asyncio.sleep(LOOK_S)
        finally:
            self.close()

    def close(self) -> None:
        """Listen no more."""
        self._kernel_log.close()
        self._events.close()

    # --- sources ----------------------------------------------------------------------------------

    def look(self, at_ns: int) -> None:
        """Everything that the samplers tell, and what time alone brings."""
        if at_ns - self._set_ns > 1_000_000_000:
            self._set_ns = at_ns
            self._new_cards()
        signals: list[Signal] = []
        for card in self._world.samplers.cards():
            sampled = self._world.samplers.get(card.id)
            if sampled is not None and not card.silent:
                signals += self._look_at(sampled, at_ns)
        self._take(signals, at_ns)

    def _look_at(self, sampled: Sampled, at_ns: int) -> list[Signal]:
        id = sampled.card.id
        examiner = self._examiners.get(id) or self._examiners.setdefault(id, Examiner(id))
        state, why = sampled.trouble()
        if state not in ("ok", "starting"):
            return examiner.trouble(state, why, at_ns)
        rounds = sampled.counters["rounds"]
        hot = examiner.eager or (examiner.warm and _is_hot(sampled, examiner.slowdown_c))
        if rounds == self._rounds.get(id) and not hot:
            return []
        self._rounds[id] = rounds
        return examiner.look(sampled.readings(), at_ns)

    def _new_cards(self) -> None:
        """Cards come and go with scans; addresses of those that are gone are kept."""
        self._events.set(self._world.samplers.cards())
        found = self._world.addresses()
        self._places |= {bus_of(address): id for id, address in found.items()}

    def _line(self, line: Line) -> None:
        """One line of the kernel's log."""
        device = self._places.get(line.bus)
        if device is None:
            self._counted["health_elsewhere"] += 1
            return
        self._hear("kernel log", Signal(device, line.kind, now_ns(), line.number, line.text))

    def notice(self, notice: Notice) -> None:
        """An Xid that the driver's tracepoint told; called in the loop."""
        device = self._places.get(bus_of(notice.pci or ""))
        if notice.xid is not None and device is not None:
            self._hear("tracepoint", Signal(device, "xid", now_ns(), notice.xid, notice.text))

    def _from_thread(self, events: list[Event]) -> None:
        self._loop.call_soon_threadsafe(self._heard, events)

    def _heard(self, events: Iterable[Event]) -> None:
        for each in events:
            signal = Signal(each.device, each.kind, now_ns(), each.number, times=each.times)
            self._hear("NVML", signal)

    def _hear(self, source: str, signal: Signal) -> None:
        if signal.kind == "xid":
            key = (signal.device, signal.number)
            first, told_ns = self._told.get(key, (source, 0))
            if first != source and signal.t_ns - told_ns < SAME_NS:
                self._counted["health_told_twice"] += signal.times
                return
            if len(self._told) > TOLD_MAX:
                self._told.clear()
            self._told[key] = (source, signal.t_ns)
        self._take([signal], signal.t_ns)

    # --- what follows -----------------------------------------------------------------------------

    def _take(self, signals: Iterable[Signal], at_ns: int) -> None:
        found = [finding for signal in signals for finding in self.verdict.hear(signal)]
        found += self.verdict.tick(at_ns)
        if found:
            self._follow(found, at_ns)

    def _follow(self, found: list[Finding], at_ns: int) -> None:
        self._say()
        for finding in found:
            self._write(finding, at_ns)
            if self._note is not None:
                self._note(finding)
            if finding.ends:
                keys = self._world.attempts(finding.device)
                if keys:
                    self._world.end(keys, f"device {finding.device}: {finding.reason}")
        saved = self.verdict.saved()
        if saved != self._saved:
            self._store(saved)

    def _say(self) -> None:
        verdict = self.verdict
        self._world.says(verdict.holds(), verdict.warnings(), verdict.drain())

    def _store(self, saved: tuple[Saved, ...]) -> None:
        seen = {each.device: self._examiners.get(each.device) for each in saved}
        energy = {id: e.energy_j for id, e in seen.items() if e is not None}
        kept = journal.Kept(saved, {id: j for id, j in energy.items() if j is not None})
        try:
            journal.store(self._world.agent, self._world.boot_id, kept)
        except OSError as error:  # a full disk: the next agent will not know, this one does
            self._counted["health_not_stored"] += 1
            _log.warning("what keeps jobs away was not stored", error=error.strerror)
            return
        self._saved = saved

    def _write(self, finding: Finding, at_ns: int) -> None:
        second = at_ns // 1_000_000_000
        lines = self._logged[1] + 1 if self._logged[0] == second else 1
        self._logged = (second, lines)
        if lines > LOGGED_MAX or finding.action == "ignore":
            self._counted["health_not_logged"] += 1
            return
        write = _log.info if finding.what == "over" else _log.warning
        write(
            f"device health: {finding.what}",
            device=finding.device,
            signal=finding.kind,
            number=finding.number,
            action=finding.action,
            reason=finding.reason,
            count=finding.times,
        )


def now_ns() -> int:
    """The clock of signals."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _is_hot(sampled: Sampled, slowdown_c: float | None) -> bool:
    if slowdown_c is None:
        return False
    since = time.time_ns() - 1_000_000_000
    newest = sampled.points("temperature_c", since)
    return bool(newest) and newest[-1][1] >= slowdown_c - NEAR_C
