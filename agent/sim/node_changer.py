# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator who drains, evicts and removes nodes of a cluster while it works.

He moves the jobs off most nodes that he drains, ends drains at random moments, be it within the
grace, evicts a few, be they lost or not, removes others, mostly by force, and installs their hosts
anew. What he asks may be done late.
Owns that few nodes are missing at once, so that every job still fits, and none at the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.log import roster_change
from stoker.mesh.replica import events
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.server import administration
from stoker.mesh.sim.scheduler_process import (
    SchedulerAnswer,
    SchedulerProcess,
    SchedulerRequest,
    Surroundings,
    post,
)
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.mesh.wire.schema import NodeDrainRequest, NodeEvictRequest, NodeRemoveRequest

NAME = "administrator of nodes"
STEP_MS = (300, 2500)
"""The time between two of his requests."""
AGAIN_NS = SECOND
"""The time between two looks at the end whether a node is still drained or removed."""
MISSING_MAX = 2
"""The most nodes that are drained or removed when he takes another one out."""
MOVES, REMOVES, FORCES, EVICTS = 0.8, 0.35, 0.8, 0.5
"""The shares of his drains that move jobs, of his requests that call a node lost or remove it, of
those by force, and of these that evict it."""
GRACE_S = (None, 0.0, 0.3, 1.5, 4.0)
"""The graces that he gives; None: that of each job."""

Make = Callable[[Any, ReplicaState], events.Event]


class NodeChanger:
    """Changes nodes of these schedulers' cluster until a moment, and mends all from `finish` on."""

    def __init__(
        self,
        around: Surroundings,
        schedulers: list[SchedulerProcess],
        nodes: list[NodeProcess],
        until_ns: int,
    ) -> None:
        self.drains = 0
        """The requests to drain a node, or to end that, which changed something."""
        self.evictions = 0
        """The nodes that were given up on his word."""
        self.removals = 0
        """The hosts that were installed anew, since their node was removed."""
        self._around = around
        self._schedulers = schedulers
        self._nodes = nodes
        self._until_ns = until_ns
        self._chance: random.Random = around.chance
        self._asked = 0
        self._later()

    @property
    def is_over(self) -> bool:
        """True if no node is drained in the newest state of any scheduler, or removed."""
        return not self._newest().book.drained and not self._removed()

    def finish(self) -> None:
        """Mend what is drained or removed until nothing is: an earlier request may come late."""
        for node in sorted(self._newest().book.drained):
            self._drain(NodeDrainRequest(node=node, drain=False))
        self._install_removed()
        self._around.timeline.after(AGAIN_NS, lambda _: self.finish(), None)

    # --- what he asks -----------------------------------------------------------------------------

    def _later(self) -> None:
        wait = self._chance.randint(*STEP_MS) * MS
        if self._around.timeline.now + wait < self._until_ns:
            self._around.timeline.after(wait, self._step, None)

    def _step(self, _: None) -> None:
        """Take a node out or let one back in, as the newest state has them."""
        self._install_removed()
        book = self._newest().book
        drained, others = sorted(book.drained), sorted(book.nodes.keys() - book.drained.keys())
        missing = len(self._nodes) - len(others)
        if missing >= MISSING_MAX or (missing and self._chance.random() < 0.5):
            if drained:
                node = self._chance.choice(drained)
                self._drain(NodeDrainRequest(node=node, drain=False))
        elif self._chance.random() < REMOVES:
            force = self._chance.random() < FORCES
            node = self._chance.choice(others if force or not drained else drained)
            if force and self._chance.random() < EVICTS:
                self._evict(node, force=self._chance.random() < FORCES)
            else:
                self._remove(node, force)
        else:
            self._drain(self._drawn(self._chance.choice(others)))
        self._later()

    def _drawn(self, node: str) -> NodeDrainRequest:
        moves = self._chance.random() < MOVES
        grace_s = self._chance.choice(GRACE_S) if moves else None
        return NodeDrainRequest(node=node, move=moves, grace_s=grace_s)

    def _drain(self, request: NodeDrainRequest) -> None:
        does = "drains" if request.drain else "ends the drain of"
        self._around.story.tell("the {} {} {}", NAME, does, request.node)

        def make(token: Any, state: ReplicaState) -> events.Event:
            if request.node not in state.book.nodes:
                return events.Admin(token, (), ())
            return administration.node_drain(token, request, state, 0, NAME)

        self._post(make, self._told_of_drain)

    def _evict(self, node: str, *, force: bool) -> None:
        """Call a node lost, which comes back by itself if its host is there."""
        self._around.story.tell("the {} evicts {}{}", NAME, node, " by force" if force else "")
        request = NodeEvictRequest(node=node, force=force)

        def make(token: Any, state: ReplicaState) -> events.Event:
            return administration.node_evict(token, request, state, 0, NAME)

        self._post(make, self._told_of_eviction)

    def _remove(self, node: str, force: bool) -> None:
        self._around.story.tell("the {} removes {}{}", NAME, node, " by force" if force else "")
        request = NodeRemoveRequest(node=node, force=force)
        self._post(lambda token, state: administration.node_remove(token, request, state, 0), _hear)

    def _post(self, make: Make, told: Callable[[SchedulerAnswer], None]) -> None:
        """Send a request to every scheduler; the one that takes it looks at its own state."""
        self._asked += 1
        for each in self._schedulers:
            post(SchedulerRequest(NAME, self._asked, _at(make, each), told), [each])

    def _told_of_drain(self, answered: SchedulerAnswer) -> None:
        if isinstance(answered.value, AdminApplied):
            self.drains += answered.value.changed

    def _told_of_eviction(self, answered: SchedulerAnswer) -> None:
        if isinstance(answered.value, AdminApplied):
            self.evictions += answered.value.changed

    # --- what there is ----------------------------------------------------------------------------

    def _newest(self) -> ReplicaState:
        newest = max(self._schedulers, key=lambda each: each.replica.state.index)
        return newest.replica.state

    def _removed(self) -> list[NodeProcess]:
        """Return the nodes whose present instance was removed."""
        rows = {(row.node, row.instance) for row in self._newest().book.departures}
        return [node for node in self._nodes if (node.name, node.instance) in rows]

    def _install_removed(self) -> None:
        config = self._newest().config
        for node in self._removed():
            assert config is not None
            self.removals += 1
            node.install(roster_change.keys(config.schedulers))


def _at(make: Make, one: SchedulerProcess) -> Callable[[Any], events.Event]:
    return lambda token: make(token, one.replica.state)


def _hear(answered: SchedulerAnswer) -> None:
    """Do nothing: he looks at the state for what was removed."""
