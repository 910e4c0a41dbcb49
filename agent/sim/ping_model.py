# SPDX-License-Identifier: Apache-2.0
"""Pings between simulated nodes: the shipped query is played, its UDP messages are modelled.

Owns what a host answers: one whose agent is stopped is silent, one whose agent is dead refuses;
and when gossip holds a host as failed, in the model after it has answered nothing for a while.
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
FAILED_NS = 6_000 * MS
"""A member that answers nobody's probes for about so long is failed in the gossip."""


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
        self._unanswered_ns: dict[str, int] = {}
        """The simulated time since which each other node has answered no ping of this one."""

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
            self._unanswered_ns.pop(target, None)
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
        now_ns = self._around.timeline.now
        first_ns = now_ns if answered else self._unanswered_ns.setdefault(target, now_ns)
        failed = now_ns - first_ns >= FAILED_NS
        event = events.PingReported(self._name, target, answered, failed=failed)
        self._around.network.post(self._name, scheduler.name, scheduler.take_event, event)
