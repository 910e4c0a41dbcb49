# SPDX-License-Identifier: Apache-2.0
"""Pings between simulated nodes: the shipped query is played, its UDP messages are modelled.

Owns what a host answers: one whose agent is stopped is silent, one whose agent is dead refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from stoker.mesh.replica import events
from stoker.mesh.sim.scheduler_process import SchedulerProcess, Surroundings
from stoker.mesh.sim.timeline import MS

if TYPE_CHECKING:
    from stoker.agent.sim.node_process import NodeProcess

TRIES = 2
WAIT_NS = 500 * MS


class Ping(NamedTuple):
    """One ping on its way; `answer` is called at the pinger."""

    pinger: str
    number: int
    answer: Callable[[int], None]


class PingModel:
    """The pings that one node sends; `hosts` are all nodes by name."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self.hosts: Mapping[str, NodeProcess] = {}
        self._around = around
        self._name = name
        self._numbers = 0
        self._open: dict[int, tuple[SchedulerProcess, str, int]] = {}

    def begin(self, scheduler: SchedulerProcess, target: str) -> None:
        """Ping a node for a scheduler."""
        self._send(scheduler, target, 1)

    def _send(self, scheduler: SchedulerProcess, target: str, tries: int) -> None:
        self._numbers += 1
        self._open[self._numbers] = (scheduler, target, tries)
        ping = Ping(self._name, self._numbers, self._answered)
        host = self.hosts[target]
        self._around.network.post(self._name, target, host.take_ping, ping)
        self._around.timeline.after(WAIT_NS, self._too_late, self._numbers)

    def _answered(self, number: int) -> None:
        if (found := self._open.pop(number, None)) is not None:
            scheduler, target, _ = found
            self._report(scheduler, target, answered=True)

    def _too_late(self, number: int) -> None:
        if (found := self._open.pop(number, None)) is None:
            return
        scheduler, target, tries = found
        if tries < TRIES:
            self._send(scheduler, target, tries + 1)
        else:
            self._report(scheduler, target, answered=False)

    def _report(self, scheduler: SchedulerProcess, target: str, *, answered: bool) -> None:
        event = events.PingReported(self._name, target, answered)
        self._around.network.post(self._name, scheduler.name, scheduler.take_event, event)
