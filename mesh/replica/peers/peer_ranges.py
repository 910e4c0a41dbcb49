# SPDX-License-Identifier: Apache-2.0
"""The feature levels that the schedulers of the roster support, as each has said with its pledge.

Without I/O. Owns which word counts: that of a scheduler whose pledge to this leader is unexpired,
since one that was restarted since may be of another build.
"""

from __future__ import annotations

from stoker.mesh.log.feature_level import FeatureRange, needed
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.replica_settings import ReplicaSettings


class PeerRanges:
    """The ranges as one scheduler knows them, whose own is `own`."""

    def __init__(
        self, settings: ReplicaSettings, pledges: Pledges, leadership: Leadership, outbox: Outbox
    ) -> None:
        self.own = settings.supports
        self._number = settings.leader
        self._pledges = pledges
        self._leadership = leadership
        self._outbox = outbox
        self._said: dict[int, FeatureRange] = {}

    def goes_beyond(self, level: int) -> bool:
        """Return True for the level of a state that this replica cannot follow, and note that."""
        if self.own.has(level):
            self._leadership.beyond = ""
            return False
        self._outbox.count("level_beyond")
        lacking = needed(level, self.own)
        self._leadership.beyond = f"the cluster has feature level {level}, and {lacking}"
        return True

    def said(self, scheduler: int, found: FeatureRange) -> None:
        """Note the range of a scheduler that has just pledged."""
        self._said[scheduler] = found

    def of(self, scheduler: int, now_ns: int) -> FeatureRange | None:
        """Return the range of a scheduler; None if it has not said it lately."""
        if scheduler == self._number:
            return self.own
        return self._said.get(scheduler) if self._pledges.has(scheduler, now_ns) else None
