# SPDX-License-Identifier: Apache-2.0
"""The health watch: it takes signals from all sources and carries out what the verdict finds.

The threads that read cards wake it when a card has new readings. The kernel's log, the tracepoint
and NVML's events call it. A card whose driver hangs wakes nobody, so each second it looks at every
card, and again when the call that is then under way counts as hung. Invariant: a verdict is
reported before attempts on the card are ended, so that none of them is started there again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.devices.readings import State
from stoker.agent.devices.samplers.sampled import Sampled
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.agent.devices.samplers.wakeup import Wakeup
from stoker.agent.health import journal, kmsg
from stoker.agent.health.case import SavedCase
from stoker.agent.health.examine import Examiner
from stoker.agent.health.kernel_log import KernelLogLine, bus_of
from stoker.agent.health.log_place import LogPlace
from stoker.agent.health.nvml_events import NvmlEvent, NvmlEvents
from stoker.agent.health.signals import Kind, Signal
from stoker.agent.health.sources import NVML, Source, kernel_log, sentence
from stoker.agent.health.verdict import Finding, Verdict
from stoker.native.structured_log import structlog
from stoker.probes.host.notices import Notice
from stoker.scheduler.nouns import NodeReport, TaskKey

CALM_S = 1.0
"""The period at which all cards are examined while nothing is wrong with any."""
LOOK_S = 0.25
"""That period while something is wrong, so that its end is noticed as soon."""
GLANCE_NS = 900_000_000
"""The period at which the power sensor of a card without new readings is examined."""
SAME_NS = 2_000_000_000
"""An Xid that two sources report within this time counts once."""
TOLD_MAX = 4096
"""The most (card, Xid) pairs for which the source that reports them is remembered."""
LOGGED_MAX = 64
"""The most lines that the watch writes to the agent's log file in a second."""
TALLY_S = 2.0
"""The shortest time between two lines that count the Xids without a line of their own."""
UNCOMMITTED_MAX = 64
"""The most reports for which the watch waits until they are in the cluster's log."""

_log = structlog.get_logger("health")


class Says(Protocol):
    """The function that puts a verdict into the node's report."""

    def __call__(
        self, holds: Mapping[str, str], warnings: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        """Return the new report, or None if the verdict does not change the report."""


class HealthInputs(msgspec.Struct, frozen=True):
    """The parts of the daemon that the watch uses."""

    agent: Path
    boot_id: str
    samplers: Samplers
    addresses: Callable[[], Mapping[str, str]]
    """Device -> PCI address."""
    attempts: Callable[[str], tuple[TaskKey, ...]]
    """Device -> the attempts that were granted it."""
    says: Says
    end: Callable[[tuple[TaskKey, ...], str], None]
    """Ends attempts, for a reason."""
    kernel_log: Path = kmsg.PATH
    troubled: Callable[[], None] = lambda: None
    """Called when the trouble of some card begins or ends."""


class HealthWatch:
    """One node's health; `run` until cancelled."""

    def __init__(self, world: HealthInputs) -> None:
        self._world = world
        kept = journal.load(world.agent, world.boot_id)
        self.verdict = Verdict(kept.cases, now_ns())
        self._saved = self.verdict.saved()
        self._examiners = {id: Examiner(id, energy) for id, energy in kept.energy_j.items()}
        for each in kept.cases:
            if each.kind == "silent":
                self._examiner(each.device).was_read()
        self._wakeups: dict[str, int] = {}
        self._read_ns: dict[str, int] = {}
        """Card -> the time of its newest reading or event, CLOCK_BOOTTIME."""
        self._glanced_ns: dict[str, int] = {}
        self._told: dict[tuple[str, int], tuple[str, int]] = {}
        """(card, Xid) -> the source that reported it last, and when."""
        self.xids: dict[str, tuple[int, int]] = {}
        """Device -> its last Xid and the number of them since the agent started."""
        self._counted: Counter[str] = Counter()
        self._logged = (0, 0)
        """(a second, the lines that were logged in it)."""
        self._tallied = (0, 0)
        """(repeated Xids by the last line that counted them, the time of that line)."""
        self._uncommitted: deque[tuple[NodeReport, int]] = deque()
        """(report, time of its decision, or 0 if no verdict caused it), the oldest first."""
        self._loop = asyncio.get_running_loop()
        place = LogPlace(world.agent, world.boot_id)
        self._kernel_log = kmsg.KernelLog(self._line, world.kernel_log, place)
        self._events = NvmlEvents(self._from_thread)
        self._unread = self._kernel_log.why
        self._wakeup: Wakeup | None = None
        self._news = asyncio.Event()
        self._places: dict[str, str] = {}
        """PCI address without the function -> card; cards that are gone keep their entry."""
        self._found: Mapping[str, str] = {}
        """The cards and addresses of the newest scan."""
        self._set_ns = 0
        self._troubled: dict[str, State] = {}
        """Card -> its state, of those that do not answer as they should."""

    @property
    def counters(self) -> Mapping[str, int]:
        """The counts of the watch, the verdict and the sources together."""
        total = Counter(self._counted)
        for each in (self.verdict, self._kernel_log, self._events):
            total.update(each.counters)
        return total

    def sources(self, tracepoint: Source) -> str:
        """Return the sources of Xids as a sentence; empty on a node without NVIDIA cards."""
        if not any(isinstance(card, NvidiaCard) for card in self._world.samplers.cards()):
            return ""
        told = (tracepoint, kernel_log(self._world.kernel_log), Source(NVML, self._events.why))
        return sentence(told)

    async def run(self) -> None:
        """Run until cancelled."""
        self._kernel_log.begin()
        self._wakeup = Wakeup()
        self._loop.add_reader(self._wakeup.descriptor, self._woken)
        self._world.samplers.listen(self._wakeup)
        due = 0.0
        try:
            while True:
                late = self._loop.time() >= due
                self.look(now_ns(), every=late)
                due = self._loop.time() + self._rest_s() if late else due
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await self._news.wait()
                self._news.clear()
        finally:
            self.close()

    def _rest_s(self) -> float:
        """Return how long every card may go without a look: no longer than until a call that is
        under way counts as hung, since one that begins later will hang later."""
        eager = any(examiner.eager for examiner in self._examiners.values())
        if eager or self._troubled or not self.verdict.calm:
            return LOOK_S
        waiting = [each.hangs_in_s() for each in self._world.samplers.every()]
        return max(0.0, min([CALM_S, *(left_s for left_s in waiting if left_s is not None)]))

    def _woken(self) -> None:
        if self._wakeup is not None and self._wakeup.take():
            self._news.set()

    def close(self) -> None:
        """Stop listening."""
        self._kernel_log.close()
        self._events.close()
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            self._world.samplers.listen(None)
            self._loop.remove_reader(wakeup.descriptor)
            wakeup.close()

    # --- sources ----------------------------------------------------------------------------------

    def look(self, at_ns: int, *, every: bool = True) -> None:
        """Examine the cards with new readings, or `every` card, and carry out the findings."""
        if at_ns - self._set_ns > 1_000_000_000:
            self._set_ns = at_ns
            self._new_cards()
        signals: list[Signal] = []
        for card in self._world.samplers.cards():
            sampled = self._world.samplers.get(card.id)
            if sampled is not None and not card.silent:
                signals += self._look_at(sampled, at_ns, every)
        self._take(signals, at_ns)
        self._tally(at_ns)

    def _look_at(self, sampled: Sampled, at_ns: int, every: bool) -> list[Signal]:
        id = sampled.card.id
        wakeups = sampled.wakeups
        news = wakeups != self._wakeups.get(id)
        if not news and not every:
            return []
        self._wakeups[id] = wakeups
        examiner = self._examiner(id)
        state, why = sampled.trouble()
        self._note(id, state)
        if state not in ("ok", "starting"):
            self._read_ns[id] = at_ns if state == "hung" else _boottime_ns(sampled.readings().t_ns)
            return examiner.trouble(state, why, at_ns)
        if not news and not examiner.eager:
            return self._glance(sampled, examiner, at_ns)
        found = sampled.readings()
        self._read_ns[id] = _boottime_ns(found.t_ns)
        levels = examiner.levels
        signals = examiner.look(found, at_ns)
        if examiner.levels != levels and self._wakeup is not None:
            sampled.listen(self._wakeup, examiner.levels)
        return signals

    def _note(self, id: str, state: State) -> None:
        """Tell that the trouble of a card has begun, is another one or is over."""
        before = self._troubled.pop(id, "")
        if state not in ("ok", "starting"):
            self._troubled[id] = state
        if before != self._troubled.get(id, ""):
            self._world.troubled()

    def _examiner(self, id: str) -> Examiner:
        return self._examiners.get(id) or self._examiners.setdefault(id, Examiner(id))

    def _glance(self, sampled: Sampled, examiner: Examiner, at_ns: int) -> list[Signal]:
        """Examine the power sensor of a card without new readings, about once a second."""
        if at_ns - self._glanced_ns.get(examiner.id, 0) < GLANCE_NS:
            return []
        self._glanced_ns[examiner.id] = at_ns
        return examiner.glance(sampled.newest(), at_ns)

    def _new_cards(self) -> None:
        """Take in the cards and addresses of the newest scan, and warn of an unreadable log."""
        self._events.set(self._world.samplers.cards())
        why = self._kernel_log.why
        if why and why != self._unread:
            self._unread = why
            _log.warning("the kernel's log is not read", why=why)
        present = {card.id for card in self._world.samplers.cards()}
        self._troubled = {id: each for id, each in self._troubled.items() if id in present}
        found = self._world.addresses()
        if found != self._found:
            self._found = found
            self._places |= {bus_of(address): id for id, address in found.items()}

    def _line(self, line: KernelLogLine) -> None:
        """Take in one line of the kernel's log."""
        device = self._places.get(line.bus)
        if device is None:
            self._counted["health_elsewhere"] += 1
            return
        self._hear("kernel log", Signal(device, line.kind, now_ns(), line.number, line.text))

    def notice(self, notice: Notice) -> None:
        """Take in an Xid from the driver's tracepoint; called in the agent's loop."""
        device = self._places.get(bus_of(notice.pci or ""))
        if notice.xid is None or device is None:
            return
        age_ns = max(0, time.monotonic_ns() - notice.t_ns)
        if age_ns > SAME_NS and not self._kernel_log.why:
            # The probe's ring is not read while nothing is traced: the kernel's log was earlier.
            self._counted["health_told_twice"] += 1
            return
        at_ns = now_ns() - age_ns
        self._hear("tracepoint", Signal(device, "xid", at_ns, notice.xid, notice.text))

    def accuse(self, device: str, text: str, *, cordon: bool) -> None:
        """Take in that a rank on a card kept others waiting; called in the agent's loop."""
        kind: Kind = "rank_cordon" if cordon else "rank_late"
        self._take([Signal(device, kind, now_ns(), text=text)], now_ns())

    def _from_thread(self, events: list[NvmlEvent]) -> None:
        self._loop.call_soon_threadsafe(self._heard, events)

    def _heard(self, events: Iterable[NvmlEvent]) -> None:
        for each in events:
            signal = Signal(each.device, each.kind, now_ns(), each.number, times=each.times)
            self._hear("NVML", signal)

    def _hear(self, source: str, signal: Signal) -> None:
        self._read_ns[signal.device] = signal.t_ns
        if signal.kind == "xid":
            key = (signal.device, signal.number)
            first, told_ns = self._told.get(key, (source, 0))
            if first != source and signal.t_ns - told_ns < SAME_NS:
                self._counted["health_told_twice"] += signal.times
                return
            if len(self._told) > TOLD_MAX:
                self._told.clear()
            self._told[key] = (source, signal.t_ns)
            count = self.xids.get(signal.device, (0, 0))[1]
            self.xids[signal.device] = signal.number, count + signal.times
        self._take([signal], signal.t_ns)

    # --- what follows -----------------------------------------------------------------------------

    def _take(self, signals: Iterable[Signal], at_ns: int) -> None:
        found = [finding for signal in signals for finding in self.verdict.hear(signal)]
        found += self.verdict.tick(at_ns)
        if found:
            self._follow(found)

    def _follow(self, found: list[Finding]) -> None:
        decided_ns = now_ns()
        reported = self._say(decided_ns)
        for finding in found:
            keys = self._world.attempts(finding.device) if finding.ends else ()
            if finding.what != "again" or keys:
                self._write(finding, decided_ns, reported)
            if keys:
                self._world.end(keys, f"device {finding.device}: {finding.reason}")
        saved = self.verdict.saved()
        if saved != self._saved:
            self._store(saved)

    def _say(self, decided_ns: int) -> bool:
        """Report the verdict and return True if it changed."""
        verdict = self.verdict
        report = self._world.says(verdict.holds(), verdict.warnings(), verdict.drain())
        if report is not None:
            self.reported(report, decided_ns)
        return report is not None

    def reported(self, report: NodeReport, decided_ns: int = 0) -> None:
        """Note a report that is on its way to the cluster's log.

        `decided_ns` is the time of the verdict that caused it, 0 if something else did.
        """
        if decided_ns or self._uncommitted:
            if len(self._uncommitted) >= UNCOMMITTED_MAX:
                self._counted["health_commits_untold"] += 1
                self._uncommitted.popleft()
            self._uncommitted.append((report, decided_ns))

    def committed(self, report: NodeReport) -> None:
        """Log how long a report took to reach the cluster's log, where placements heed it."""
        place = next((i for i, (r, _) in enumerate(self._uncommitted) if _is_of(report, r)), -1)
        times = [at_ns for _, at_ns in list(self._uncommitted)[: place + 1] if at_ns]
        for _ in range(place + 1):
            self._uncommitted.popleft()
        done_ns = now_ns()
        if times and self._may_write(done_ns):
            after_ms = round((done_ns - times[0]) / 1e6, 1)
            _log.info(
                "device health: committed",
                decided_ns=times[-1],
                committed_ns=done_ns,
                after_ms=after_ms,
            )

    def _store(self, saved: tuple[SavedCase, ...]) -> None:
        seen = {each.device: self._examiners.get(each.device) for each in saved}
        energy = {id: e.energy_j for id, e in seen.items() if e is not None}
        kept = journal.Kept(saved, {id: j for id, j in energy.items() if j is not None})
        try:
            journal.store(self._world.agent, self._world.boot_id, kept)
        except OSError as error:  # the disk is full: this agent goes on by what it has in memory
            self._counted["health_not_stored"] += 1
            _log.warning("what keeps jobs away was not stored", error=error.strerror)
            return
        self._saved = saved

    def _tally(self, at_ns: int) -> None:
        """Log the number of Xids without a line of their own, at most every TALLY_S seconds."""
        count, told_ns = self._tallied
        if at_ns - told_ns < TALLY_S * 1e9:
            return
        now = self.verdict.counters["health_xids_repeated"]
        if now > count:
            self._tallied = now, at_ns
            _log.warning("device health: Xids without a line each", count=now - count)

    def _may_write(self, at_ns: int) -> bool:
        """Return True if this second has room for one more log line."""
        second = at_ns // 1_000_000_000
        lines = self._logged[1] + 1 if self._logged[0] == second else 1
        self._logged = (second, lines)
        return lines <= LOGGED_MAX

    def _write(self, finding: Finding, decided_ns: int, reported: bool) -> None:
        if finding.action == "ignore" or not self._may_write(decided_ns):
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
            read_ns=min(self._read_ns.get(finding.device, decided_ns), decided_ns),
            decided_ns=decided_ns,
            reported=reported,
        )


def _is_of(told: NodeReport, report: NodeReport) -> bool:
    """Return True if this is the report as the node told it, which adds what it has settled."""
    return msgspec.structs.replace(told, settled=report.settled) == report


def now_ns() -> int:
    """Return the time by the clock of signals, CLOCK_BOOTTIME, in ns."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _boottime_ns(realtime_ns: int) -> int:
    """Convert a recent CLOCK_REALTIME to the clock of signals, CLOCK_BOOTTIME, in ns."""
    return now_ns() - max(0, time.time_ns() - realtime_ns)
