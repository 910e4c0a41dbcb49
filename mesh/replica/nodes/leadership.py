# SPDX-License-Identifier: Apache-2.0
"""The role of one replica, the term that it took, and its right to renew the leases of nodes.

Owns leadership as an entry in the log: a replica leads only in the newest term of the log, and
never after another replica has taken a newer one.
"""

from __future__ import annotations

from stoker.mesh.identity.identity import Signs
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.nodes.leader_tick import LeaderTick
from stoker.mesh.replica.nodes.node_channels import TERMS_LOST_MAX, NodeChannels
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.replica_settings import Role
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.command import Position
from stoker.mesh.wire.term_owner import next_term
from stoker.native.errors import Corrupt, Unavailable

STANDING = frozenset({"reading", "fetching", "repairing", "electing", "leading", "waiting"})
"""The roles of a replica that leads or is on its way to that."""


class Leadership:
    """The leadership of one replica. `why` says why it does not lead, if that lasts."""

    def __init__(
        self, state: ReplicaState, signer: Signs, outbox: Outbox, *, place: int = 0
    ) -> None:
        self.role: Role = "waiting"
        self.why = ""
        self.beyond = ""
        """The reason why this replica cannot follow whoever leads, or empty."""
        self.leader = 0
        """The number of the scheduler that leads, as far as this replica heard; 0 if it did not."""
        self.until_ns: int | None = None
        """The end of a majority's pledges (CLOCK_BOOTTIME); None with one scheduler."""
        self.pledged_ns = 0
        """The moment since which a majority has pledged (CLOCK_BOOTTIME)."""
        self.pledged_term = 0
        """The term for which those pledges are."""
        self.channels = NodeChannels(state, signer)
        self.tick = LeaderTick()
        self._state = state
        self._outbox = outbox
        self._place = place
        self._deposed = False
        self._renews = False
        """True while the shell has an authority."""
        self.leaves = False
        """True once this process is to end: it decides nothing new."""
        self.led = 0
        """The newest term in which this replica has led."""
        self.newest_lost = 0
        """The newest term that a node follows although the log lost its end."""

    @property
    def leads(self) -> bool:
        """True while this replica may decide."""
        return self.role == "leading" and not self.leaves

    @property
    def halted(self) -> bool:
        """True after a halt, when this replica applies and appends nothing any more."""
        return self.role == "halted"

    @property
    def stands(self) -> bool:
        """True while this replica leads or is on its way to that, and must hold pledges."""
        return self.role in STANDING

    @property
    def has_led(self) -> bool:
        """True if this process ever led."""
        return self.channels.term > 0

    @property
    def owns_term(self) -> bool:
        """True if the newest term of the log, as far as it was read, is this replica's."""
        return 0 < self.channels.term == self._state.term

    @property
    def may_resume(self) -> bool:
        """True if this replica can lead on in its term, without a new TERM entry."""
        return self.owns_term and not self.outrun

    @property
    def outrun(self) -> bool:
        """True if a node follows a newer term than this replica's, whose end the log lost."""
        return self.channels.term <= self.newest_lost

    # --- roles ------------------------------------------------------------------------------------

    def wait(self, why: str) -> None:
        """Stop leading for this reason, until the log has been read to its end."""
        self.role, self.why = "waiting", why

    def follow(self, why: str) -> None:
        """Follow another replica; this one has no authority from now on."""
        self.role, self.why = "following", why
        self.leader = 0
        self._renews = False
        self._outbox.put(events.RenewLeases(None))

    def elect(self) -> int:
        """Become a candidate; return the term to append, in a cluster of one scheduler."""
        self.role = "electing"
        return next_term(max(self._state.term, self.newest_lost), self._place)

    def lead(self, term: int) -> None:
        """Lead: the log ends with an entry of this replica in this term."""
        self.channels.begin(term)
        self.led = term
        self._outbox.put(events.Lead(term))
        self.role, self.why = "leading", ""
        self.tick = LeaderTick()
        self.renew()

    def halt(self, reason: str) -> None:
        """Apply and append nothing any more."""
        self.role, self.why = "halted", reason
        self._outbox.count("halted")
        self._outbox.put(events.Halt(reason))

    # --- terms in the log and at nodes ------------------------------------------------------------

    def read_own(self, term: int) -> None:
        """An entry of this replica was read in the log: its term was taken."""
        self.channels.begin(max(term, self.channels.term))

    def read_other(self, seq: int, term: int) -> None:
        """An entry of another process was read; Corrupt if it ends this replica's rule."""
        if 0 < self.channels.term < term:
            self._deposed = True
            raise Corrupt(f"another scheduler took the lead with log entry {seq}")

    def desired(
        self, event: events.StateRequested, now: Instant, *, idle: bool
    ) -> bytes | Unavailable:
        """Return the sealed state that a node should be in, or the reason why there is none.

        `idle` is true while no append is in flight, so that the term may be given up.
        """
        if not self.leads or event.node not in self._state.book.nodes:
            return Unavailable("the scheduler does not lead, or this node has not said hello")
        if self._is_ahead(event.request.position):
            self._give_up(event.request.position.term, idle=idle)
            return Unavailable(
                "this node has followed a term whose end the log lost; a newer one is taken"
            )
        return self.channels.desired(event.node, event.request, now.log_ns)

    def _is_ahead(self, at: Position) -> bool:
        """True if a node has followed the log further than this replica knows it."""
        return (at.term, at.seq) > (self.channels.term, self._state.index)

    def _give_up(self, term: int, *, idle: bool) -> None:
        """Stop leading, so that a term above the node's is taken; the node accepts no lower one."""
        if idle and term < self.channels.term + TERMS_LOST_MAX:
            self._outbox.count("term_outrun")
            self.newest_lost = max(self.newest_lost, term)
            self.role = "waiting"

    # --- leases -----------------------------------------------------------------------------------

    def renew(self) -> None:
        """Renew the leases of all nodes, whether the log works or not.

        With one replica nobody else can have been given their work, so having led is enough, also
        after a halt. With more replicas, this needs unexpired pledges of a majority; a candidate,
        whose TERM entry may still wait for the log, only extends leases that have not run out.
        """
        authority: Authority | None = None
        if self.until_ns is None:
            if not self.has_led:
                return
            authority = None if self._deposed else self.channels.authority(None)
        elif self.stands and self.channels.term == self.pledged_term:
            authority = self.channels.authority(self.until_ns, self.pledged_ns)
        elif self.stands:
            authority = self.channels.candidacy(self.pledged_term, self.until_ns, self.pledged_ns)
        if authority is None and not self._renews:
            return
        self._renews = authority is not None
        self._outbox.put(events.RenewLeases(authority))
