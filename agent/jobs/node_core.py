# SPDX-License-Identifier: Apache-2.0
"""The core of the node agent: compares the attempts that are wanted with those that are here.

It owns the order of a start (hello, a lease, desired state, then commands). It acts on a message
only after the message's log position is stored, and starts nothing without a valid lease.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stoker.agent.jobs import steps
from stoker.agent.jobs.attempts import AttemptPhase, Attempts
from stoker.agent.jobs.lease_rule import LeaseRule
from stoker.agent.jobs.ordered_end import OrderedEnd
from stoker.agent.jobs.outcome_queue import OutcomeQueue
from stoker.agent.jobs.steps import Effect, Event
from stoker.mesh.wire.command import (
    HAVE_MAX,
    CommandAccepted,
    CommandChain,
    CommandGap,
    CommandRefused,
    CommandRepeat,
    DesiredState,
)
from stoker.scheduler.nouns import (
    Action,
    NodeReport,
    ReleaseJob,
    StartJob,
    TaskKey,
    TrustSchedulers,
)

RETRY_FIRST_S = 0.1
RETRY_MAX_S = 2.0


class _Request:
    """One request at a time: wanted, on its way, or due again after a growing wait."""

    def __init__(self) -> None:
        self._pending = False
        self._wait = RETRY_FIRST_S
        self._again = False
        self.due: float | None = None

    def want(self, now_s: float) -> None:
        """Send it soon; send it again after the one on its way, whose answer may be too old."""
        if self._pending:
            self._again = True
        elif self.due is None:
            self.due = now_s

    def failed(self, now_s: float) -> None:
        self._pending, self.due = False, now_s + self._wait
        self._wait = min(self._wait * 2, RETRY_MAX_S)

    def done(self, now_s: float) -> None:
        self._pending, self._wait = False, RETRY_FIRST_S
        self.due = now_s if self._again else None
        self._again = False

    def lost(self, now_s: float) -> None:
        """The connection is new, so the answer will not come: send it again."""
        if self._pending:
            self._again = True
            self.done(now_s)

    def take(self, now_s: float) -> bool:
        if self._pending or self.due is None or self.due > now_s:
            return False
        self._pending, self._again, self.due = True, False, None
        return True


class NodeCore:
    """The state of one agent. `step` is the only way to change it; its `now_s` is CLOCK_BOOTTIME in
    seconds."""

    def __init__(self, chain: CommandChain) -> None:
        self.counters: Counter[str] = Counter()
        """Number of events that were refused, repeated or given up, by name."""
        self._chain = chain
        self._outcomes = OutcomeQueue(RETRY_FIRST_S, RETRY_MAX_S)
        self._attempts = Attempts(self.counters, self._outcomes)
        self._report: NodeReport | None = None
        self._hello = _Request()
        self._wanted = _Request()
        self._requested: frozenset[TaskKey] = frozenset()
        self._connected = False
        self._met_spawner = False
        self._greeted = False
        self._caught_up = False
        self._lease = LeaseRule()
        self._end = OrderedEnd()
        self._requested_ns = 0
        self._start_waits = False
        """True if a start waits until what was lost to this node has ended."""
        self._settle = 0
        """The last eviction of this node that the desired state named, by its log index."""

    @property
    def caught_up(self) -> bool:
        """True if the desired state was read since the agent started."""
        return self._caught_up

    @property
    def may_leave(self) -> bool:
        """True if the log can be told that this agent ends."""
        return self._greeted and self._may_greet

    @property
    def has_left(self) -> bool:
        """True once no job waits for this agent that has not begun here."""
        return self._end.is_known and not self.untold

    @property
    def status(self) -> str:
        """One line for whoever watches the agent; programs read its first word."""
        why = next(filter(None, self.checks.values()), "")
        return f"waiting: {why}" if why else "ok"

    @property
    def checks(self) -> dict[str, str]:
        """Each part that jobs need -> why it does not work; empty for one that does."""
        return {
            "spawner": "" if self._met_spawner else "the spawner has not answered",
            "broker": "" if self._connected else "the broker is not connected",
            "scheduler": "" if self._caught_up else "the scheduler has not answered",
        }

    @property
    def untold(self) -> int:
        """The number of outcomes that the log does not have yet."""
        return len(self._outcomes)

    def phase(self, key: TaskKey) -> AttemptPhase | None:
        """Return the phase of an attempt; None if it is not here or its end is in the log."""
        return self._attempts.phase(key)

    def taken(self) -> frozenset[TaskKey]:
        """Return the attempts that the spawner must have, for `SpawnerAttempts.expected`."""
        return self._attempts.taken()

    def deadline(self) -> float | None:
        """Return when the next NodeTick is due, on the clock of `step`; None if none is.

        A request that may not be sent yet has no deadline: the event that allows it sends it.
        """
        due = self._attempts.settle_by()
        if self._may_greet:
            due = _sooner(due, self._hello.due)
            if self._greeted:
                due = _sooner(_sooner(due, self._wanted.due), self._outcomes.due)
        return due

    @property
    def _may_greet(self) -> bool:
        """True if hello may be sent."""
        return self._connected and self._met_spawner and self._report is not None

    def step(self, event: Event, now_s: float) -> list[Effect]:
        """Process one event and return its effects."""
        effects: list[Effect] = []
        _HANDLERS[type(event)](self, event, now_s, effects)
        if self._start_waits and not self._attempts.ending_lost():
            self._start_waits = False
            self._wanted.want(now_s)
        self._report_settled(now_s)
        self._due(now_s, effects)
        return effects

    def _due(self, now_s: float, effects: list[Effect]) -> None:
        """Send what is due and may be sent, whatever the event was."""
        if not self._may_greet:
            return
        if self._hello.take(now_s):
            assert self._report is not None
            effects.append(steps.SayHello(self._report))
        if not self._greeted:  # a new boot must be in the log before anything refers to it
            return
        if self._wanted.take(now_s):
            sent_keys = self._attempts.keys()[:HAVE_MAX]
            self._requested = frozenset(sent_keys)
            self._end.requested()
            self._requested_ns = _ns(now_s)
            effects.append(steps.RequestState(self._chain.state_request(sent_keys)))
        if outcomes := self._outcomes.take(now_s):
            effects.append(steps.SendOutcomes(self._outcomes.number, outcomes))

    # --- the node -----------------------------------------------------------------------------

    def _reported(self, event: steps.Reported, now_s: float, effects: list[Effect]) -> None:
        settled = self._report.settled if self._report is not None else 0
        told = msgspec.structs.replace(event.report, settled=settled)
        self._report = self._end.report(told)
        self._hello.want(now_s)

    def _end_requested(
        self, event: steps.EndRequested, now_s: float, effects: list[Effect]
    ) -> None:
        """Refuse jobs from now on; what has not begun here is given back."""
        if self._end.begun or self._report is None:
            return
        self._end.begun = True
        self._report = self._end.report(self._report)
        self._hello.want(now_s)

    def _returned(self, event: steps.Returned, now_s: float, effects: list[Effect]) -> None:
        self._attempts.returned(event.keys, event.t_ns)

    def _report_settled(self, now_s: float) -> None:
        """Say hello anew once nothing is left here of what an eviction has ended."""
        report = self._report
        if report is None or report.settled >= self._settle or self._attempts.ending():
            return
        self._report = msgspec.structs.replace(report, settled=self._settle)
        self._hello.want(now_s)

    def _mesh_up(self, event: steps.MeshUp, now_s: float, effects: list[Effect]) -> None:
        """Repeat every open request; hello goes first, since another scheduler may answer."""
        self._connected = True
        self._hello.lost(now_s)
        self._wanted.lost(now_s)
        self._outcomes.retry(now_s)
        self._hello.want(now_s)

    def _mesh_down(self, event: steps.MeshDown, now_s: float, effects: list[Effect]) -> None:
        self._connected = False

    def _on_greeted(self, event: steps.Greeted, now_s: float, effects: list[Effect]) -> None:
        if self._is_past(event.term, effects):
            self._hello.failed(now_s)
            return
        self._hello.done(now_s)
        self._greeted = True
        self._end.greeted(event.report)
        self._wanted.want(now_s)

    def _not_greeted(self, event: steps.NotGreeted, now_s: float, effects: list[Effect]) -> None:
        self._hello.failed(now_s)
        effects.append(steps.LogNote(f"hello was not answered: {event.why}"))

    # --- the desired state --------------------------------------------------------------------

    def _command_received(
        self, event: steps.CommandReceived, now_s: float, effects: list[Effect]
    ) -> None:
        if not self._caught_up:
            # The stored position may be behind what was done, and a new boot must be in the log
            # first; the desired state answers this agent's own nonce and covers this command.
            self.counters["command_before_desired"] += 1
            return
        match self._chain.offer(event.data):
            case CommandAccepted(command):
                effects.append(steps.Persist(self._chain.position))
                self._carry_out(command.actions, command.now_ns, now_s, effects)
            case CommandRepeat():
                self.counters["command_repeat"] += 1
            case CommandGap(why):
                self.counters["command_gap"] += 1
                effects.append(steps.LogNote(f"commands are missing: {why}"))
                self._wanted.want(now_s)
            case CommandRefused(counter, why):
                self._refuse(counter, why, effects)

    def _lease_renewed(
        self, event: steps.LeaseRenewed, now_s: float, effects: list[Effect]
    ) -> None:
        self._lease.renewed(event.expiry_ns, event.freeze, _ns(now_s))
        behind = self._caught_up and self._chain.is_behind(event.at)
        if behind:
            self.counters["lease_behind"] += 1
        if behind or self._lease.must_read:
            self._wanted.want(now_s)
        self._thaw(now_s, effects)

    def _thaw(self, now_s: float, effects: list[Effect]) -> None:
        """Let frozen jobs go on once all that was decided meanwhile is known and carried out here:
        what was lost to this node has ended, since it may run elsewhere."""
        thaw = self._lease.thaw(_ns(now_s))
        if thaw is not None and not self._attempts.ending_lost():
            effects.append(steps.Thaw(*thaw))

    def _state_received(
        self, event: steps.StateReceived, now_s: float, effects: list[Effect]
    ) -> None:
        desired = self._chain.reconcile(event.data)
        if isinstance(desired, CommandRefused):
            self._wanted.failed(now_s)
            self._refuse(desired.counter, desired.why, effects)
            return
        self._wanted.done(now_s)
        self._trust(desired.schedulers, effects)
        if desired.more:
            # The next part has again the starts that may not be made now, so it waits a while.
            may_start = self._lease.may_start(_ns(now_s), self._requested_ns)
            self._wanted.want(now_s if may_start else now_s + RETRY_FIRST_S)
        else:
            self._caught_up = True
            effects.append(steps.Persist(self._chain.position))
            self._lease.read(self._requested_ns)
            self._settle = desired.settle
            self._end.read()
        self._reconcile(desired, now_s, effects)
        self._thaw(now_s, effects)

    def _carry_out(
        self,
        actions: Iterable[Action],
        now_ns: int,
        now_s: float,
        effects: list[Effect],
        requested_ns: int = 0,
    ) -> None:
        """Carry out actions. Starts and releases wait for a lease, and starts until what was lost
        to this node has ended, since it may hold their devices; then the desired state has them.
        """
        has_lease = self._lease.may_start(_ns(now_s), requested_ns)
        found = []
        for each in actions:
            if isinstance(each, TrustSchedulers):
                self._trust(each.keys, effects)
            else:
                found.append(each)
        if self._end.begun:
            begins = [each for each in found if isinstance(each, StartJob)]
            found = [each for each in found if not isinstance(each, StartJob)]
            self._attempts.give_back(begins, now_ns, effects)
        starts = [each for each in found if isinstance(each, StartJob)]
        waits = bool(starts) and self._attempts.ending_lost()
        held = () if has_lease and not waits else (StartJob, ReleaseJob)
        todo = [each for each in found if not isinstance(each, held)]
        if len(todo) < len(found):
            why = "start_behind_lost" if has_lease else "start_without_lease"
            self.counters[why] += len(found) - len(todo)
        self._start_waits = self._start_waits or waits
        self._attempts.carry_out(todo, now_ns, effects)

    def _trust(self, keys: tuple[str, ...], effects: list[Effect]) -> None:
        """Obey the schedulers of this roster from now on, and no other ones."""
        if self._chain.learn(keys):
            effects.append(steps.KeepSchedulers(keys))

    def _answer_unknown(
        self, event: steps.AnswerUnknown, now_s: float, effects: list[Effect]
    ) -> None:
        """Request the state, with which the schedulers that are known here introduce another."""
        if self._caught_up:
            self.counters["scheduler_unknown"] += 1
            self._wanted.want(now_s)

    def _reconcile(self, desired: DesiredState, now_s: float, effects: list[Effect]) -> None:
        """Carry out the difference between the desired state and the attempts here. An attempt here
        that the log neither wants nor ends is unknown to the log. One that the log wants, does not
        start and that is not here is lost."""
        self._attempts.carry_out(desired.stops, desired.now_ns, effects)
        known = {*desired.wanted, *(stop.key for stop in desired.stops)}
        self._attempts.stop_unknown(sorted(self._requested - known), desired.now_ns, effects)
        begins: list[Action] = [*desired.starts]
        begins += [ReleaseJob(*key) for key in desired.releases]
        self._carry_out(begins, desired.now_ns, now_s, effects, self._requested_ns)
        if not desired.more:
            starting = {start.key for start in desired.starts}
            missing = set(desired.wanted) - self._requested - starting
            self._attempts.lose(sorted(missing), desired.now_ns)

    def _state_failed(self, event: steps.StateFailed, now_s: float, effects: list[Effect]) -> None:
        self._wanted.failed(now_s)
        effects.append(steps.LogNote(f"the desired state was not answered: {event.why}"))

    def _refuse(self, counter: str, why: str, effects: list[Effect]) -> None:
        self.counters[counter] += 1
        effects.append(steps.LogNote(f"refused ({counter}): {why}"))

    # --- the spawner's events -----------------------------------------------------------------

    def _spawner_attempts(
        self, event: steps.SpawnerAttempts, now_s: float, effects: list[Effect]
    ) -> None:
        self._met_spawner = True
        if self._attempts.compare(event, now_s, effects):
            self._wanted.want(now_s)

    def _never_started(
        self, event: steps.NeverStarted, now_s: float, effects: list[Effect]
    ) -> None:
        if self._attempts.never_started(event, effects):
            self._wanted.want(now_s)

    def _taken(self, event: steps.Taken, now_s: float, effects: list[Effect]) -> None:
        self._attempts.accepted(event.keys)

    def _not_taken(self, event: steps.NotTaken, now_s: float, effects: list[Effect]) -> None:
        self._attempts.refused(event)

    def _gathered(self, event: steps.Gathered, now_s: float, effects: list[Effect]) -> None:
        self._attempts.gathered(event, effects)

    def _ran(self, event: steps.Ran, now_s: float, effects: list[Effect]) -> None:
        self._attempts.ran(event, now_s)

    def _ended(self, event: steps.JobEnded, now_s: float, effects: list[Effect]) -> None:
        self._attempts.ended(event, now_s, effects)
        self._thaw(now_s, effects)

    def _settled(self, event: steps.TraceSettled, now_s: float, effects: list[Effect]) -> None:
        self._attempts.settled(event)

    def _faulted(self, event: steps.Faulted, now_s: float, effects: list[Effect]) -> None:
        self.counters["attempt_faulted"] += self._attempts.fault(event, effects)

    def _tick(self, event: steps.NodeTick, now_s: float, effects: list[Effect]) -> None:
        self._attempts.settle_late(now_s)

    # --- the outcomes -------------------------------------------------------------------------

    def _committed(self, event: steps.Committed, now_s: float, effects: list[Effect]) -> None:
        if self._is_past(event.term, effects):  # it may not know the attempts at all
            self._outcomes.refused(event.number, "", now_s)
            return
        self._attempts.reap(self._outcomes.committed(event.number), effects)

    def _is_past(self, term: int, effects: list[Effect]) -> bool:
        """Return True for an answer that must not count, since a later leader was obeyed here."""
        if not self._chain.is_past(term):
            return False
        self.counters["answer_of_earlier_term"] += 1
        effects.append(steps.LogNote(f"an answer of term {term} does not count any more"))
        return True

    def _not_committed(
        self, event: steps.NotCommitted, now_s: float, effects: list[Effect]
    ) -> None:
        effects.append(steps.LogNote(f"outcomes were not committed: {event.why}"))
        if dropped := self._outcomes.refused(event.number, event.code, now_s):
            self.counters["outcome_refused"] += len(dropped)
            self._attempts.reap(dropped, effects)


def _sooner(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _ns(now_s: float) -> int:
    return int(now_s * 1e9)


_HANDLERS: dict[type, Callable[[NodeCore, Any, float, list[Effect]], None]] = {
    steps.Reported: NodeCore._reported,
    steps.MeshUp: NodeCore._mesh_up,
    steps.MeshDown: NodeCore._mesh_down,
    steps.Greeted: NodeCore._on_greeted,
    steps.NotGreeted: NodeCore._not_greeted,
    steps.CommandReceived: NodeCore._command_received,
    steps.LeaseRenewed: NodeCore._lease_renewed,
    steps.AnswerUnknown: NodeCore._answer_unknown,
    steps.StateReceived: NodeCore._state_received,
    steps.StateFailed: NodeCore._state_failed,
    steps.SpawnerAttempts: NodeCore._spawner_attempts,
    steps.NeverStarted: NodeCore._never_started,
    steps.Taken: NodeCore._taken,
    steps.NotTaken: NodeCore._not_taken,
    steps.Gathered: NodeCore._gathered,
    steps.Ran: NodeCore._ran,
    steps.JobEnded: NodeCore._ended,
    steps.TraceSettled: NodeCore._settled,
    steps.Faulted: NodeCore._faulted,
    steps.Returned: NodeCore._returned,
    steps.EndRequested: NodeCore._end_requested,
    steps.NodeTick: NodeCore._tick,
    steps.Committed: NodeCore._committed,
    steps.NotCommitted: NodeCore._not_committed,
}
