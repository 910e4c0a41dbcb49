# SPDX-License-Identifier: Apache-2.0
"""The servers of the cluster as the scheduler's host knows them, read again whenever they change.

Owns that the table is only a list of names and keys: who counts for a majority, the log says alone.
"""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.log.genesis import RosterMember, member_number
from stoker.mesh.server import scheduler_options
from stoker.mesh.server.scheduler_options import ClusterRecord
from stoker.native.errors import Corrupt


class ServerTable:
    """The table in one state folder; `record` is the cluster's record as it was read last."""

    def __init__(self, state: Path, record: ClusterRecord) -> None:
        self.record = record
        self._state = state
        self._stamp = -1

    @property
    def members(self) -> tuple[RosterMember, ...]:
        """The schedulers of all servers, in the roster or not."""
        keys = self.record.keys.values()
        return tuple(RosterMember(member_number(public), public) for public in keys)

    def changed(self) -> bool:
        """Read the table again if its file changed; True at the first call too. One that cannot be
        read leaves what was known."""
        stamp = self._state_stamp()
        if stamp == self._stamp:
            return False
        try:
            self.record = scheduler_options.read_cluster(self._state)
        except Corrupt:
            return False
        self._stamp = stamp
        return True

    def _state_stamp(self) -> int:
        try:
            return (self._state / "cluster.json").stat().st_mtime_ns
        except OSError:
            return self._stamp
