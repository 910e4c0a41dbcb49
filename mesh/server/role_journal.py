# SPDX-License-Identifier: Apache-2.0
"""The journal of a scheduler's roles in its log file, which shows where a takeover took its time.

Owns the bound: a log that fails again and again, which makes the replica wait and read in turn,
writes no line for that.
"""

from __future__ import annotations

from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import Role
from stoker.native.structured_log import structlog

log = structlog.get_logger("scheduler")


class RoleJournal:
    """The journal of one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._role: Role = replica.role

    def look(self) -> None:
        """Write a line if the role is another one than at the last look."""
        role, before = self._replica.role, self._role
        if role == before:
            return
        self._role = role
        retries = role == "waiting" or (role == "reading" and before != "pledging")
        if not retries and role != "leading":  # which is told with its term
            log.info("role", role=role, was=before, why=self._replica.why)
