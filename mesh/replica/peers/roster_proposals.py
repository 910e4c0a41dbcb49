# SPDX-License-Identifier: Apache-2.0
"""A leader's answer to whoever wants to change the roster: a proposal to the log, or a refusal.

Without I/O. Owns the rule that a leader proposes only a roster in which it leads on: it is in it,
a majority of it has pledged, and whoever enters has read the log.
"""

from __future__ import annotations

from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import RosterBlob
from stoker.mesh.log.genesis import VACANT
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.applicants import Applicants
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.roster_work import RosterWork
from stoker.native.errors import Refused


class RosterProposals:
    """The proposals of the scheduler `number`, while it leads."""

    def __init__(
        self,
        number: int,
        state: ReplicaState,
        roster: Roster,
        pledges: Pledges,
        applicants: Applicants,
        *,
        appends: AppendPipeline,
        outbox: Outbox,
    ) -> None:
        self._number = number
        self._state = state
        self._roster = roster
        self._pledges = pledges
        self._applicants = applicants
        self._appends = appends
        self._outbox = outbox

    def wanted(self, event: events.RosterChange, now: Instant) -> None:
        """Propose a change. The next one comes to the roster behind it, since no entry is sent
        before the one before is applied."""
        if why := self._refusal(event.change, now):
            self._outbox.reply(event.token, Refused(f"the roster stays: {why}"))
        else:
            self._appends.enqueue(RosterWork(*event), now)

    def _refusal(self, change: RosterBlob, now: Instant) -> str:
        """Return why a change of the roster is not proposed; empty if it is."""
        members = self._roster.members(self._state)
        kept = roster_change.kept_min(self._state.config)
        if why := roster_change.defect(members, change, kept):
            return why
        if change.member != VACANT and (why := self._applicants.lack(change.member.number, now)):
            return f"{why}: it enters once it has read the log"
        behind = roster_change.changed(members, change)
        quorum = Quorum(lambda: behind)
        if self._number not in quorum.numbers:
            return "no scheduler that leads lets itself go: stop it for 3 s, and another one leads"
        if not self._pledges.lets(quorum, now.boot_ns):
            count, needed = len(quorum.numbers), quorum.majority
            return f"of the {count} schedulers behind it {needed} must answer, and fewer do"
        return ""
