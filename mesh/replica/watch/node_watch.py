# SPDX-License-Identifier: Apache-2.0
"""The leader's decision to give nodes up or remove them, and whether another instance may enter.

Without I/O. Owns the order of an eviction: from its proposal until its fate is settled the leader
answers that node nothing, and it is proposed no sooner than a lease after the last request came
that was answered. What an operator says of a lost host, that it is evicted or removed by force, has
the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from stoker.mesh.log.entry import EvictBlob
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import departed_nodes, events
from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.replica_settings import NEVER
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch import operator_word
from stoker.mesh.replica.watch.operator_word import OperatorWord
from stoker.mesh.replica.watch.silence import (
    MASS_WAIT_NS,
    NodeSilence,
    is_mass,
    others_heard,
    pingers,
)
from stoker.mesh.replica.works import node_eviction, node_removal
from stoker.mesh.replica.works.work import AdminApplied, EvictWork, HelloWork, Work
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import Refused, Unavailable
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import NodeReport

MARGIN_NS = 500_000_000
OVER_NS = LEASE_MS * 1_000_000 + MARGIN_NS
"""A lease is over so long after the request came that was answered, however the clocks drift."""


class _Withheld(NamedTuple):
    """A node that is answered nothing: why, who waits to enter or said that it is lost, and what
    was proposed."""

    why: str
    entry: events.NodeReported | None = None
    word: OperatorWord | None = None
    silenced: bool = False
    """True once no answer to it is made any more."""
    works: tuple[Work, ...] = ()


class NodeWatch:
    """The watch of one replica. `begin` starts it with each term that the replica leads in."""

    def __init__(
        self, state: ReplicaState, appends: AppendPipeline, outbox: Outbox, began_ns: int
    ) -> None:
        self._state = state
        self._appends = appends
        self._outbox = outbox
        self._began_ns = self._floor_ns = began_ns
        """No lease that another leader, or an earlier process, has given is counted from later than
        `_floor_ns` (CLOCK_BOOTTIME)."""
        self._silences: dict[str, NodeSilence] = {}
        self._answered: dict[str, int] = {}
        """The moment at which the request of each node came that this replica answered last."""
        self._heard: Sequence[events.NodeHeard] = ()
        """The newest lease requests that came to this replica, whether it led or not."""
        self._withheld: dict[str, _Withheld] = {}
        self._is_mass = False

    @property
    def watches(self) -> bool:
        """True if a node has another one that can look after it."""
        return len(self._state.book.nodes) > 1

    def begin(self, now: Instant, others_ns: int | None) -> None:
        """Begin a term. Whom another leader answered is not known, but it was before `others_ns`,
        None if there is no other.

        This replica has heard the nodes as a follower as well, so a node that it has not heard
        since then is silent since then.
        """
        self._release()
        since_ns = now.boot_ns if others_ns is None else others_ns
        if others_ns is not None:
            self._floor_ns = max(self._began_ns, others_ns)
        heard = {row.node: row.heard_ns for row in self._heard}
        self._silences = {
            name: NodeSilence(max(since_ns, heard.get(name, since_ns)))
            for name in self._state.book.nodes
        }

    def end(self) -> None:
        """Lead no more: nothing is proposed, and other leaders decide who is answered."""
        self._release()

    # --- nodes that say hello ---------------------------------------------------------------------

    def greet(self, event: events.NodeReported, now: Instant) -> None:
        """Take the report of a node; another instance waits until the first can hold no lease."""
        report = event.report
        known = self._state.book.nodes.get(report.node)
        left = self._state.book.departures.of(report)
        if left is not None:
            self._outbox.count("node_removed_hello")
            self._outbox.reply(event.token, NodeReply(False, "removed", departed_nodes.words(left)))
        elif known is None or known.instance == report.instance:
            if known is None:  # what is known under this name is of a node that was removed
                self._silences.pop(report.node, None)
            self._appends.enqueue(HelloWork(event.token, report, self._state), now)
        elif report.node in self._withheld or self._may_hold_lease(report.node, now):
            self._refuse_entry(event)
        else:
            self._withhold(
                report.node,
                _Withheld("an agent without the records of this one took its place", entry=event),
            )

    def _refuse_entry(self, event: events.NodeReported) -> None:
        self._outbox.count("node_entry_waits")
        why = "a node of this name may still run; this one enters when that one's lease is over"
        self._outbox.reply(event.token, NodeReply(False, "wait", why))

    def _may_hold_lease(self, node: str, now: Instant) -> bool:
        last_ns = max(self._answered.get(node, NEVER), self._floor_ns)
        return now.boot_ns - last_ns < OVER_NS

    # --- nodes that an operator evicts or removes -------------------------------------------------

    def evict(self, event: events.NodeEviction, now: Instant) -> None:
        """Give up a node whose host an operator says is lost, once its lease must be over.

        A node whose agent is heard until then is not lost, and nothing changes, unless by force.
        """
        refused = node_eviction.defect(event.node, self._state)
        if refused is None and event.node in self._state.book.evicted:
            self._outbox.reply(event.token, AdminApplied(False))
        elif refused := refused or operator_word.contradicted(event, self._heard, now.boot_ns):
            self._outbox.reply(event.token, refused)
        else:
            self._take_word(event)

    def remove(self, event: events.NodeRemoval, now: Instant) -> None:
        """Take a node out: at once if it holds no job, else by force, once its lease must be over.

        From then on it is answered nothing, so that none of its jobs can go on meanwhile.
        """
        node = event.node
        refused = node_removal.defect(node, self._state, force=event.force)
        if refused is not None:
            self._outbox.reply(event.token, refused)
        elif node not in self._state.book.nodes:
            self._outbox.reply(event.token, AdminApplied(False))
        elif event.force or node in self._withheld:
            self._take_word(event)
        else:
            self._appends.enqueue(operator_word.work_of(event, self._state), now)

    def _take_word(self, word: OperatorWord) -> None:
        """Answer the node nothing from now on. The last of several equal requests is answered in
        the end, since their senders ask again in time."""
        what = self._withheld.get(word.node)
        if what is None:
            self._withhold(word.node, _Withheld(word.why, word=word))
        elif what.word is None or type(what.word) is not type(word) or what.works:
            why = Unavailable("whether this node is lost is decided now")
            self._outbox.reply(word.token, why)
        else:
            self._outbox.reply(what.word.token, Unavailable("the same was requested again"))
            self._withheld[word.node] = what._replace(word=word)

    def _propose_spoken(self, now: Instant) -> None:
        """Propose what an operator said of nodes that can hold no lease any more."""
        for node, what in list(self._withheld.items()):
            if what.word is None or not what.silenced or what.works:
                continue
            if refused := operator_word.contradicted(what.word, self._heard, now.boot_ns):
                self._let_go(node, refused)
            elif not self._may_hold_lease(node, now):
                work = operator_word.work_of(what.word, self._state)
                self._withheld[node] = what._replace(works=(work,))
                self._appends.enqueue(work, now)

    # --- signs of life ----------------------------------------------------------------------------

    def heard(self, rows: Sequence[events.NodeHeard]) -> None:
        """Note when lease requests of nodes came, and when they were answered; a follower hears
        them as well. A row that came before says nothing new."""
        before, self._heard = self._heard, rows
        for row, known in zip_longest(rows, before[: len(rows)]):
            if row is known:
                continue
            at_ns = row.answered_ns
            if at_ns is not None and at_ns > self._answered.get(row.node, NEVER):
                self._answered[row.node] = at_ns
            if (silence := self._silences.get(row.node)) is not None:
                silence.heard(row.heard_ns)

    def answered(self, node: str, at_ns: int) -> None:
        """Note an answer to a request that came at this time, which may start jobs of a node."""
        self._answered[node] = max(at_ns, self._answered.get(node, NEVER))

    def is_withheld(self, node: str) -> bool:
        """Return True if the node is answered nothing until its fate is settled."""
        return node in self._withheld

    def pinged(self, event: events.PingReported, now: Instant) -> None:
        """Note what a node reports about its ping of another one."""
        silence = self._silences.get(event.target)
        if silence is None or event.pinger not in self._state.book.nodes:
            self._outbox.count("ping_unexpected")
            return
        if not event.unable:
            silence.pinged(
                event.pinger, answered=event.answered, failed=event.failed, now_ns=now.boot_ns
            )

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Answer nodes again whose fate is settled, have silent ones pinged, give some up."""
        self._settle()
        self._propose_spoken(now)
        if not self.watches:
            return
        silent = self._silent(now)
        self._note_mass(len(silent))
        for name in silent:
            self._ping(name, now)
            if (why := self._verdict(name, now)) and name not in self._withheld:
                self._withhold(name, _Withheld(why))

    def _silent(self, now: Instant) -> list[str]:
        """Return the silent nodes that can be given up: those that hold jobs or could get some."""
        found: list[str] = []
        silences = self._silences
        for name in self._state.book.nodes:
            if name not in silences:
                silences[name] = NodeSilence(now.boot_ns)
            if silences[name].is_silent(now.boot_ns) and self._is_watched(name):
                found.append(name)
        return sorted(found)

    def _is_watched(self, name: str) -> bool:
        info = self._state.core.node(name_id(name))
        return info is not None and bool(info.up or info.tasks)

    def _note_mass(self, silent: int) -> None:
        mass = is_mass(silent, len(self._state.book.nodes))
        if mass and not self._is_mass:
            self._outbox.count("mass_silence")
        self._is_mass = mass

    def _ping(self, name: str, now: Instant) -> None:
        address = self._state.book.nodes[name].ping
        asked = pingers(name, sorted(self._state.book.nodes), self._silences, now.boot_ns)
        if address and asked and self._silences[name].is_due(now.boot_ns):
            for pinger in asked:
                self._outbox.put(events.PingNode(pinger, name, address))

    def _verdict(self, name: str, now: Instant) -> str:
        """Return why the node is to be given up now, or an empty string."""
        silence = self._silences[name]
        heard = others_heard(name, self._state.book.nodes, self._silences, now.boot_ns)
        found = silence.evidence(now.boot_ns, len(heard))
        wait_ns = MASS_WAIT_NS if self._is_mass else 0
        if found is None or now.boot_ns - silence.heard_ns < OVER_NS + wait_ns:
            return ""
        if self._may_hold_lease(name, now):
            return ""
        seconds = (now.boot_ns - silence.heard_ns) / 1e9
        gossip = ", and gossip holds it as failed" if found.by_gossip else ""
        pings = f"pings of {' and '.join(found.pingers)} went unanswered"
        return f"silent for {seconds:.1f} s, and {pings}{gossip}"

    # --- proposals --------------------------------------------------------------------------------

    def _withhold(self, node: str, what: _Withheld) -> None:
        self._withheld[node] = what
        self._outbox.put(events.Withhold(node))

    def withheld(self, event: events.Withheld, now: Instant) -> None:
        """Propose what the node was withheld for, now that no answer to it is made any more."""
        what = self._withheld.get(event.node)
        if what is None or what.works:
            return
        if event.node not in self._state.book.nodes:  # it was removed meanwhile
            self._let_go(event.node)
            return
        if event.answered_ns is not None:
            self.answered(event.node, event.answered_ns)
        if what.word is not None:
            self._withheld[event.node] = what._replace(silenced=True)
            self._propose_spoken(now)
            return
        if self._may_hold_lease(event.node, now):
            self._outbox.count("eviction_too_early")
            self._let_go(event.node)
            return
        works = self._works(event.node, what)
        self._withheld[event.node] = what._replace(works=works)
        for work in works:
            self._appends.enqueue(work, now)

    def _works(self, node: str, what: _Withheld) -> tuple[Work, ...]:
        known = self._state.book.nodes[node]
        evicts = EvictWork(EvictBlob(node, known.instance, what.why))
        if what.entry is None:
            return (evicts,)
        enters = HelloWork(what.entry.token, what.entry.report, self._state)
        return (enters,) if _is_reboot(known, what.entry.report) else (evicts, enters)

    def _settle(self) -> None:
        """Answer the nodes again whose proposals are in the log, or will never be."""
        for node, what in list(self._withheld.items()):
            if what.works and not any(map(self._appends.holds, what.works)):
                del self._withheld[node]
                self._silences.pop(node, None)
                self._outbox.put(events.Resume(node))

    def _let_go(self, node: str, why: Refused | None = None) -> None:
        what = self._withheld.pop(node)
        if what.word is not None:
            told = why or Unavailable("another scheduler leads now")
            self._outbox.reply(what.word.token, told)
        if what.entry is not None:
            self._refuse_entry(what.entry)
        self._outbox.put(events.Resume(node))

    def _release(self) -> None:
        for node in list(self._withheld):
            if self._withheld[node].works:
                del self._withheld[node]
                self._outbox.put(events.Resume(node))
            else:
                self._let_go(node)


def _is_reboot(known: NodeReport, report: NodeReport) -> bool:
    """Return True if nothing of the first instance can be left on the host of the second."""
    return known.boot_id != report.boot_id
