# SPDX-License-Identifier: Apache-2.0
"""The requests and samples of nodes, as a leading replica takes them.

Without I/O. Owns the rule that a node whose fate is open gets no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.requests.choices import Choices
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.gang_ranks import GangRanks
from stoker.mesh.replica.watch.known_verdicts import KnownVerdicts
from stoker.mesh.replica.watch.node_signals import ReplicaSignals
from stoker.mesh.replica.watch.node_watch import NodeWatch
from stoker.mesh.replica.works.outcome_work import OutcomeWork
from stoker.native.errors import Unavailable
from stoker.scheduler.hints import ModelPower
from stoker.scheduler.nouns import Observation
from stoker.scheduler.reasons import Reason


class NodeRequests:
    """The nodes of one replica."""

    def __init__(
        self,
        state: ReplicaState,
        leadership: Leadership,
        appends: AppendPipeline,
        watch: NodeWatch,
        *,
        outbox: Outbox,
        watts: Mapping[str, ModelPower],
    ) -> None:
        self.observations: dict[str, tuple[Observation, int]] = {}
        """The newest observation of each node, and when it came (CLOCK_BOOTTIME)."""
        self.greeted: dict[str, int] = {}
        """The moment of the last hello of each node (CLOCK_BOOTTIME)."""
        self._state = state
        self._leadership = leadership
        self._appends = appends
        self._watch = watch
        self.signals = ReplicaSignals(state, outbox, watts)
        self.verdicts = KnownVerdicts(self.observations, self.signals.hears)
        self.ranks = GangRanks(state, outbox, lambda: leadership.leads)
        self._outbox = outbox
        self._choices = Choices(state)
        self._expires_ns = 0
        """The moment before which nothing is too old (CLOCK_BOOTTIME)."""

    def call_functions(self, now: Instant) -> None:
        """Ask scoring functions for the jobs that leave the choice to one."""
        for question in self._choices.due(now):
            self._outbox.put(question)

    def scored(self, event: events.Scored, now: Instant) -> None:
        """Decide with what a scoring function said, if this replica still leads."""
        name = Reason(event.reason).name.lower() if event.reason else "choice_scored"
        self._outbox.count(name)
        if self._leadership.leads and self._choices.take(event, now):
            self._appends.more = True
            self._appends.flush(now)

    def outcomes(self, event: events.Outcomes, now: Instant) -> None:
        """Log what a node reports about its attempts."""
        work = OutcomeWork(event.token, event.node, event.outcomes, self._outbox.count)
        self._appends.enqueue(work, now)

    def reported(self, event: events.NodeReported, now: Instant) -> None:
        """Log a node's report, or let another instance of a node wait."""
        self.greeted[event.report.node] = now.boot_ns
        self._watch.greet(event, now)

    def state_requested(self, event: events.StateRequested, now: Instant) -> None:
        """Answer with the state that a node should be in."""
        if self._watch.is_withheld(event.node):
            why = Unavailable("whether this node is lost is decided now")
            self._outbox.reply(event.token, why)
            return
        self._watch.answered(event.node, now.boot_ns)
        desired = self._leadership.desired(event, now, idle=self._appends.idle)
        self._outbox.reply(event.token, desired)

    def observed(self, event: events.Observed, now: Instant) -> None:
        """Keep a sample of a node, and give it to the core as a hint."""
        if event.node not in self._state.book.nodes:
            self._outbox.count("observation_unknown_node")
            return
        self.observations[event.node] = (event.observation, now.boot_ns)
        self.signals.observe(event.node, event.observation, now.boot_ns)
        if event.observation.gangs:
            self.ranks.observe(event.node, event.observation, now)

    def forget(self, nodes: Iterable[str]) -> None:
        """Forget what nodes said that left for good."""
        for node in nodes:
            self.observations.pop(node, None)
            self.greeted.pop(node, None)
            self.signals.forget(node)

    def expire(self, now_ns: int) -> None:
        """Forget what nodes said too long ago; this is called with every event."""
        if now_ns >= self._expires_ns:
            self._expires_ns = min(self.signals.expire(now_ns), self.ranks.expire(now_ns))
