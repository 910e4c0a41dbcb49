# SPDX-License-Identifier: Apache-2.0
"""A leader's answer to whoever wants to raise the feature level: a proposal to the log, or a
refusal.

Without I/O. Owns the rule that a leader proposes no level that some scheduler of the roster has not
just said to support.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.mesh.log import roster_change
from stoker.mesh.log.feature_level import FeatureRange
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.peer_ranges import PeerRanges
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.upgrade_work import UpgradeWork
from stoker.mesh.replica.works.work import AdminApplied
from stoker.native.errors import Refused

Known = Mapping[int, FeatureRange | None]
"""The range of each scheduler of the roster; None for one that does not answer."""


class UpgradeProposals:
    """The proposals of a scheduler while it leads."""

    def __init__(
        self,
        state: ReplicaState,
        roster: Roster,
        ranges: PeerRanges,
        *,
        appends: AppendPipeline,
        outbox: Outbox,
    ) -> None:
        self._state = state
        self._roster = roster
        self._ranges = ranges
        self._appends = appends
        self._outbox = outbox

    def wanted(self, event: events.Upgrade, now: Instant) -> None:
        """Propose the newest level that any scheduler supports, or say which one lacks it."""
        members = roster_change.present(self._roster.members(self._state))
        known = {each.number: self._ranges.of(each.number, now.boot_ns) for each in members}
        level = newest(known)
        if why := refusal(known, level, event.servers):
            self._outbox.reply(event.token, Refused(why, hint=HINT))
        elif level <= self._state.level:
            self._outbox.reply(event.token, AdminApplied(False))
        else:
            self._appends.enqueue(UpgradeWork(event.token, level, event.says), now)


HINT = "`stoker cluster status` shows what each server supports"


def newest(known: Known) -> int:
    """Return the newest level that any of these schedulers supports."""
    return max(each.newest for each in known.values() if each is not None)


def refusal(known: Known, level: int, servers: Mapping[int, str]) -> str:
    """Return why a level is not proposed; empty if all schedulers of the roster support it."""
    silent: list[str] = []
    for number, found in sorted(known.items()):
        server = servers.get(number) or f"scheduler {number:016x}"
        if found is None:
            silent.append(server)
        elif not found.has(level):
            lacks = f"{server} supports {found.text}, not {level}"
            return f"the feature level stays: {lacks}: upgrade it first"
    if silent:
        names = " and ".join(silent)
        return f"the feature level stays: {names} did not answer for 2 s: start it, or ask again"
    return ""
