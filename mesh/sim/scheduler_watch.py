# SPDX-License-Identifier: Apache-2.0
"""The watch over every effect of every simulated scheduler, for auditors and for faults.

Owns the moments: an auditor sees what is said before it is sent, and a disk after it has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.mesh.log import entry as entries
from stoker.mesh.log import roster_change
from stoker.mesh.replica import events
from stoker.mesh.sim.ambush import Ambush
from stoker.mesh.sim.authority_audit import AuditedScheduler, AuthorityAudit
from stoker.mesh.sim.durability_audit import DurabilityAudit
from stoker.mesh.sim.lease_audit import LeaseAudit
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.model_stream import ModelStream
from stoker.mesh.sim.opened_entries import OpenedEntries
from stoker.mesh.sim.read_audit import ReadAudit
from stoker.mesh.sim.roster_book import RosterBook
from stoker.mesh.sim.timeline import Timeline
from stoker.mesh.wire import peer_messages as wire

Handlers = dict[type, Callable[[Any], None]]
Said = tuple[AuditedScheduler, int, int, wire.Message]
"""A sender, the number of the event, the version of the sender's disk, and the message."""


class SchedulerWatch:
    """The auditors of schedulers, of which `count` are in the genesis, and the traps of their
    faults. `replicated` is as the genesis says it."""

    def __init__(
        self,
        log: LogAudit,
        timeline: Timeline,
        stream: ModelStream,
        count: int,
        opened: OpenedEntries,
        *,
        replicated: bool = False,
    ) -> None:
        self.ambush = Ambush()
        self._schedulers: list[AuditedScheduler] = []
        violated = log.violated
        several = count > 1 or replicated
        self.book = book = RosterBook(count, 1 if replicated else roster_change.KEPT_MIN)
        self.authority = AuthorityAudit(violated, timeline, self._schedulers, several, book)
        self.durability = DurabilityAudit(violated, log, self._schedulers, book, opened)
        self.leases = LeaseAudit(violated, log, timeline)
        self.reads = ReadAudit(violated, log)
        self._stream = stream
        self._opened = opened
        self._several = several
        self._timeline = timeline
        self._said: Said | None = None
        """The message that was looked at last. What goes to several is looked at once: within one
        event nothing changes what the auditors judge by but the sender's own disk."""
        self._looks: dict[type, Callable[[AuditedScheduler, Any], None]] = {
            wire.Held: self._held,
            wire.Confirmed: self._confirmed,
            wire.Promised: self._promised,
            wire.NotPledged: self._not_pledged,
            wire.Resigned: self._resigned,
            wire.Recalled: self._recalled,
        }

    def watched(self, scheduler: AuditedScheduler, handlers: Handlers) -> Handlers:
        """Return what carries out effects, with the auditors before or behind it."""
        self._schedulers.append(scheduler)
        before: dict[type, Callable[[AuditedScheduler, Any], None]] = {
            events.Append: self._append,
            events.Reply: self._reply,
            events.RenewLeases: self._renew,
        }
        after: dict[type, Callable[[AuditedScheduler, Any], None]] = {}
        if self._several:
            before |= {events.SendPeer: self._send, events.Trim: self._trim}
            after |= {events.Store: self._changed, events.Install: self._changed}
        watched = dict(handlers)
        for kind, look in before.items():
            watched[kind] = _both(scheduler, look, handlers[kind])
        for kind, look in after.items():
            watched[kind] = _first(scheduler, handlers[kind], look)
        return watched

    def began(self, scheduler: AuditedScheduler) -> None:
        """Look at a new process, and from now on at its votes and at what it applies."""
        voter, state = scheduler.replica.voter, scheduler.replica.state
        grant, apply = voter.grant, state.apply
        self.authority.began(scheduler, voter.promised)
        self.durability.changed(scheduler)

        def voted(candidate: int, term: int, stamp_ns: int, roster: bytes, now_ns: int) -> Any:
            answer = grant(candidate, term, stamp_ns, roster, now_ns)
            if isinstance(answer, wire.Pledge):
                self.authority.voted(scheduler, candidate, term)
                self.durability.voted(scheduler, candidate)
            return answer

        def applied(entry: entries.Entry, digest: bytes) -> Any:
            self.authority.applied(scheduler.name, entry, digest)
            return apply(entry, digest)

        voter.grant = voted  # type: ignore[method-assign]
        state.apply = applied  # type: ignore[method-assign]

    def answered(self, scheduler: AuditedScheduler, nodes: tuple[str, ...]) -> None:
        """Look at a lease answer for these nodes."""
        self.authority.acts(scheduler, "answers lease requests")
        self.leases.answered(nodes)

    # --- effects ----------------------------------------------------------------------------------

    def _append(self, scheduler: AuditedScheduler, effect: events.Append) -> None:
        opened = self._opened.unseal(0, effect.data)
        self.book.note(opened)
        self.authority.appends(scheduler, opened)
        self.ambush.sent(scheduler.number, 0, effect)

    def _reply(self, scheduler: AuditedScheduler, effect: events.Reply) -> None:
        """A leader alone tells a node what to do; whoever applied an entry may tell its result."""
        if isinstance(effect.value, bytes):
            self.authority.acts(scheduler, "tells a node its state")
        elif isinstance(effect.value, events.ReadPosition):
            name = (effect.token.sender, effect.token.number)
            self.reads.shows(scheduler, name, effect.value)

    def _renew(self, scheduler: AuditedScheduler, effect: events.RenewLeases) -> None:
        if effect.authority is not None:
            self.authority.acts(scheduler, "renews leases")
        self.ambush.sent(scheduler.number, 0, effect)

    def _send(self, scheduler: AuditedScheduler, effect: events.SendPeer) -> None:
        message = self._opened.read_envelope(effect.data).message
        said = (scheduler, self._timeline.delivered, scheduler.disk.version, message)
        if said != self._said:
            self._said = said
            self.durability.says(scheduler, message)
            if (look := self._looks.get(type(message))) is not None:
                look(scheduler, message)
        self.ambush.sent(scheduler.number, effect.to, message)

    def _held(self, scheduler: AuditedScheduler, message: wire.Held) -> None:
        self.authority.told(scheduler, message.term)
        self.durability.claims(scheduler, message.index, message.hash)

    def _confirmed(self, scheduler: AuditedScheduler, message: wire.Confirmed) -> None:
        self.authority.acts(scheduler, "confirms")
        self.durability.confirms(scheduler, message.term, message.index, message.hash)

    def _promised(self, scheduler: AuditedScheduler, message: wire.Promised) -> None:
        self.authority.told(scheduler, wire.read_pledge(message.pledge).term)
        self.durability.claims(scheduler, message.end_index, message.end_hash)

    def _not_pledged(self, scheduler: AuditedScheduler, message: wire.NotPledged) -> None:
        self.authority.told(scheduler, message.term)

    def _resigned(self, scheduler: AuditedScheduler, message: wire.Resigned) -> None:
        self.authority.resigned(scheduler, message.term)

    def _recalled(self, scheduler: AuditedScheduler, message: wire.Recalled) -> None:
        self.authority.told(scheduler, message.promised)

    def _trim(self, scheduler: AuditedScheduler, effect: events.Trim) -> None:
        stream = self._stream
        self.durability.trims(scheduler, stream.entries[stream.first - 1 : effect.seq])

    def _changed(self, scheduler: AuditedScheduler, effect: events.Store | events.Install) -> None:
        self.durability.changed(scheduler)


def _both(
    scheduler: AuditedScheduler,
    look: Callable[[AuditedScheduler, Any], None],
    handle: Callable[[Any], None],
) -> Callable[[Any], None]:
    """Return a handler that looks before it handles."""

    def looked(effect: Any) -> None:
        look(scheduler, effect)
        handle(effect)

    return looked


def _first(
    scheduler: AuditedScheduler,
    handle: Callable[[Any], None],
    look: Callable[[AuditedScheduler, Any], None],
) -> Callable[[Any], None]:
    """Return a handler that looks after it has handled."""

    def handled(effect: Any) -> None:
        handle(effect)
        look(scheduler, effect)

    return handled
