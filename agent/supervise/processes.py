# SPDX-License-Identifier: Apache-2.0
"""The process tree of a node: when processes start, restart and stop. No process, no clock.

A process starts only after those that it needs were ready once; an ended process starts again
unless the tree is stopping; stopping goes in reverse order.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 5.0
FUTILE_FIRST_S = 2.0
FUTILE_MAX_S = 60.0
"""A process whose stored state keeps it from running waits for these times: each of its starts
ends alike until somebody acts."""
HEALTHY_S = 10.0
"""Seconds of readiness after which the count of failures starts again at one."""
SILENT_S = 30.0
"""Seconds without a beat after which a process that used to beat is ended and started again."""
RESTART_GAP_S = 10.0
"""The gap between restarts on request, unless a process has another one."""

FUTILE = "more and more rarely, until somebody does what its log file says; told once"


class ProcessSpec(msgspec.Struct, frozen=True):
    """One process of the tree. `after`: processes that must have been ready once before it."""

    name: str
    after: tuple[str, ...] = ()
    stop_s: float = 5.0
    """Seconds from SIGTERM to SIGKILL."""
    gap_s: float = RESTART_GAP_S
    """Seconds after a start in which a restart request is ignored."""
    optional: bool = False
    """True if the node serves without it; it is started again like the others."""


# Events: what happened.


class Adopted(msgspec.Struct, frozen=True):
    """These processes of an earlier supervisor run and were ready. They come in one event:
    otherwise the first ones would start processes that run already."""

    names: tuple[str, ...]


class Ready(msgspec.Struct, frozen=True):
    """The process reports that it serves."""

    name: str


class WatchdogBeat(msgspec.Struct, frozen=True):
    """The process reports that its loop runs (WATCHDOG=1); after the first beat it must go on."""

    name: str


class ProcessExited(msgspec.Struct, frozen=True):
    """The process has ended. `how` is for people: "exit code 1", "signal 9". It is `futile` to
    start it again before somebody has acted."""

    name: str
    how: str
    futile: bool = False


class RestartRequested(msgspec.Struct, frozen=True):
    """Somebody requests that this process is ended and started again."""

    name: str
    why: str


class StopRequested(msgspec.Struct, frozen=True):
    """Somebody requests that the whole tree ends."""


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


Event = Adopted | Ready | WatchdogBeat | ProcessExited | RestartRequested | StopRequested | Tick


# Effects: what to do.


class StartProcess(msgspec.Struct, frozen=True):
    name: str


class Terminate(msgspec.Struct, frozen=True):
    name: str


class Kill(msgspec.Struct, frozen=True):
    name: str


class TreeNote(msgspec.Struct, frozen=True):
    """One line for the log; `failures` counts this process's failures in a row."""

    name: str
    text: str
    failures: int = 0


class AllReady(msgspec.Struct, frozen=True):
    """Every process serves that the node needs; sent once."""


class AllStopped(msgspec.Struct, frozen=True):
    """Every process is gone and none will be started."""


Effect = StartProcess | Terminate | Kill | TreeNote | AllReady | AllStopped


class ProcessPhase(Enum):
    WAITING = "waiting"  # for the processes that it needs
    STARTING = "starting"  # runs, not ready yet
    READY = "ready"
    BACKOFF = "backoff"  # ended, starts again at `due`
    LEAVING = "leaving"  # got SIGTERM, gets SIGKILL at `due`
    STOPPED = "stopped"


class _Child(msgspec.Struct):
    spec: ProcessSpec
    phase: ProcessPhase = ProcessPhase.WAITING
    served: bool = False
    failures: int = 0
    futile: int = 0
    """The last ends in a row that were futile to try again."""
    since: float = 0.0
    due: float | None = None
    """The end of a wait, always set in BACKOFF and LEAVING, and in READY once the process beats."""

    @property
    def runs(self) -> bool:
        return self.phase in (ProcessPhase.STARTING, ProcessPhase.READY, ProcessPhase.LEAVING)


def backoff_s(failures: int, futile: int = 0) -> float:
    """Return the wait before start `failures + 1`: doubles from 0.05 s, at most 5 s. Behind so many
    `futile` ends in a row it doubles from 2 s, at most 60 s."""
    if futile:
        return float(min(FUTILE_MAX_S, FUTILE_FIRST_S * 2 ** min(futile - 1, 16)))
    return float(min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures - 1, 16)))


class ProcessTree(msgspec.Struct):
    """The processes of one node and their phases.

    `step(event, now_s)` is the only way to change it; `now_s` must never go back.
    """

    children: dict[str, _Child] = msgspec.field(default_factory=dict)
    stopping: bool = False
    announced: bool = False

    @classmethod
    def of(cls, specs: Iterable[ProcessSpec]) -> ProcessTree:
        """Make a tree of `specs` in start order: every `after` must name an earlier one."""
        tree = cls()
        for spec in specs:
            assert all(name in tree.children for name in spec.after), f"{spec.name} comes too early"
            tree.children[spec.name] = _Child(spec)
        return tree

    def phase(self, name: str) -> ProcessPhase:
        return self.children[name].phase

    def failures(self, name: str) -> int:
        return self.children[name].failures

    def is_futile(self, name: str) -> bool:
        """Return True if a process said at its last end that starts are in vain; told once."""
        return self.children[name].futile > 0

    def deadline(self) -> float | None:
        """Return when the next Tick is due, on the clock of `step`; None if only events matter."""
        return min((c.due for c in self.children.values() if c.due is not None), default=None)

    def step(self, event: Event, now_s: float) -> list[Effect]:
        """Process one event and return its effects."""
        effects: list[Effect] = []
        match event:
            case Adopted(names):
                for name in names:
                    self._ready(self.children[name], now_s)
            case Ready(name):
                if self.children[name].phase is ProcessPhase.STARTING:
                    self._ready(self.children[name], now_s)
            case WatchdogBeat(name):
                if self.children[name].phase is ProcessPhase.READY:
                    self.children[name].due = now_s + SILENT_S
            case ProcessExited(name, how, futile):
                effects += self._exited(self.children[name], how, now_s, futile=futile)
            case RestartRequested(name, why):
                effects += self._restart(self.children[name], why, now_s)
            case StopRequested():
                self.stopping = True
            case Tick():
                pass
        effects += self._stop_next(now_s) if self.stopping else self._start_due(now_s)
        effects += self._hang_due(now_s) + self._kill_due(now_s)
        return effects + self._announce()

    def _ready(self, child: _Child, now_s: float) -> None:
        child.phase, child.served, child.since, child.due = ProcessPhase.READY, True, now_s, None

    def _exited(self, child: _Child, how: str, now_s: float, *, futile: bool) -> list[Effect]:
        if self.stopping:
            child.phase, child.due = ProcessPhase.STOPPED, None
            return [TreeNote(child.spec.name, f"ended: {how}")]
        if child.phase is ProcessPhase.LEAVING:  # this end was requested: no failure, no wait
            child.phase, child.due = ProcessPhase.WAITING, None
            return [TreeNote(child.spec.name, f"ended for a restart: {how}")]
        if child.phase is ProcessPhase.READY and now_s - child.since >= HEALTHY_S:
            child.failures = 0
            child.futile *= now_s - child.since < FUTILE_MAX_S
        child.failures += 1
        child.futile = child.futile + 1 if futile else 0
        wait = backoff_s(child.failures, child.futile)
        child.phase, child.due = ProcessPhase.BACKOFF, now_s + wait
        if child.futile > 1:
            return []
        when = FUTILE if futile else f"in {wait:g} s"
        return [TreeNote(child.spec.name, f"ended: {how}; starts {when}", child.failures)]

    def _restart(self, child: _Child, why: str, now_s: float) -> list[Effect]:
        if self.stopping or child.phase is not ProcessPhase.READY:
            return []
        if now_s - child.since < child.spec.gap_s:
            return []
        child.phase, child.due = ProcessPhase.LEAVING, now_s + child.spec.stop_s
        return [TreeNote(child.spec.name, f"restart: {why}"), Terminate(child.spec.name)]

    def _start_due(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        for child in self.children.values():
            backoff_over = (
                child.phase is ProcessPhase.BACKOFF and child.due is not None and child.due <= now_s
            )
            if not backoff_over and child.phase is not ProcessPhase.WAITING:
                continue
            if all(self.children[name].served for name in child.spec.after):
                child.phase, child.since, child.due = ProcessPhase.STARTING, now_s, None
                effects.append(StartProcess(child.spec.name))
        return effects

    def _stop_next(self, now_s: float) -> list[Effect]:
        for child in reversed(self.children.values()):
            if child.phase is ProcessPhase.LEAVING:
                return []
            if child.runs:
                child.phase, child.due = ProcessPhase.LEAVING, now_s + child.spec.stop_s
                return [Terminate(child.spec.name)]
            child.phase, child.due = ProcessPhase.STOPPED, None
        return []

    def _hang_due(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        for child in self.children.values() if not self.stopping else ():
            if child.phase is ProcessPhase.READY and child.due is not None and child.due <= now_s:
                child.phase, child.due = ProcessPhase.LEAVING, now_s + child.spec.stop_s
                name = child.spec.name
                effects += [TreeNote(name, f"silent for {SILENT_S:g} s; ended"), Terminate(name)]
        return effects

    def _kill_due(self, now_s: float) -> list[Effect]:
        effects: list[Effect] = []
        for child in self.children.values():
            if child.phase is ProcessPhase.LEAVING and child.due is not None and child.due <= now_s:
                child.due = now_s + child.spec.stop_s  # killed again if it survives
                effects += [
                    TreeNote(child.spec.name, "does not end; killed"),
                    Kill(child.spec.name),
                ]
        return effects

    def _announce(self) -> list[Effect]:
        if self.stopping:
            phases = {child.phase for child in self.children.values()}
            return [AllStopped()] if phases <= {ProcessPhase.STOPPED} else []
        needed = {child.phase for child in self.children.values() if not child.spec.optional}
        if self.announced or needed != {ProcessPhase.READY}:
            return []
        self.announced = True
        return [AllReady()]
