# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator who drains nodes of a cluster while it works, and lets them back in.

He moves the jobs off most of them with some grace, ends drains at random moments, be it within the
grace, and may be heard late. Owns that few nodes are drained at once, so that every job still fits,
and that none is at the end.
"""

from __future__ import annotations

import random
from typing import Any

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
from stoker.mesh.wire.schema import NodeDrainRequest

NAME = "drainer"
ASK_MS = (300, 2500)
"""The time between two of his requests."""
AGAIN_NS = SECOND
"""The time between two requests to end what is still drained at the end."""
DRAINED_MAX = 2
"""The most nodes that he knows to be drained when he drains another one."""
MOVES = 0.8
"""The share of his drains that move jobs."""
GRACE_S = (None, 0.0, 0.3, 1.5, 4.0)
"""The graces that he gives; None: that of each job."""


class Drainer:
    """Drains nodes of these schedulers' cluster until a moment, and none after `finish`."""

    def __init__(
        self, around: Surroundings, schedulers: list[SchedulerProcess], until_ns: int
    ) -> None:
        self.drains = 0
        """The requests of which he was told that they changed something."""
        self._around = around
        self._schedulers = schedulers
        self._until_ns = until_ns
        self._chance: random.Random = around.chance
        self._asked = 0
        self._later(None)

    @property
    def is_over(self) -> bool:
        """True if no node is drained in the newest state that any scheduler has."""
        return not self._newest().book.drained

    def finish(self) -> None:
        """End what is drained until nothing is: a request of before may still be done."""
        for node in sorted(self._newest().book.drained):
            self._request(NodeDrainRequest(node=node, drain=False))
        self._around.timeline.after(AGAIN_NS, lambda _: self.finish(), None)

    def _later(self, _: None) -> None:
        wait = self._chance.randint(*ASK_MS) * MS
        if self._around.timeline.now + wait < self._until_ns:
            self._around.timeline.after(wait, self._step, None)

    def _step(self, _: None) -> None:
        """Drain a node or let one back in, as the newest state has them."""
        book = self._newest().book
        drained, others = sorted(book.drained), sorted(book.nodes.keys() - book.drained.keys())
        if drained and (len(drained) >= DRAINED_MAX or self._chance.random() < 0.5):
            self._request(NodeDrainRequest(node=self._chance.choice(drained), drain=False))
        elif others:
            self._request(self._drawn(self._chance.choice(others)))
        self._later(None)

    def _drawn(self, node: str) -> NodeDrainRequest:
        moves = self._chance.random() < MOVES
        grace_s = self._chance.choice(GRACE_S) if moves else None
        return NodeDrainRequest(node=node, move=moves, grace_s=grace_s)

    def _newest(self) -> ReplicaState:
        newest = max(self._schedulers, key=lambda each: each.replica.state.index)
        return newest.replica.state

    def _request(self, request: NodeDrainRequest) -> None:
        self._asked += 1
        self._around.story.tell(
            "{} {} {}", NAME, "drains" if request.drain else "lets back in", request.node
        )
        for each in self._schedulers:  # the one that takes it looks at its own state
            post(SchedulerRequest(NAME, self._asked, _maker(request, each), self._told), [each])

    def _told(self, answered: SchedulerAnswer) -> None:
        if isinstance(answered.value, AdminApplied):
            self.drains += answered.value.changed


def _maker(request: NodeDrainRequest, at: SchedulerProcess) -> Any:
    """Return what makes the request's event; it asks nothing where its node is unknown."""

    def make(token: Any) -> events.Admin:
        state = at.replica.state
        if request.node not in state.book.nodes:
            return events.Admin(token, (), ())
        return administration.node_drain(token, request, state, 0, NAME)

    return make
