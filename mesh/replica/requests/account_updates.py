# SPDX-License-Identifier: Apache-2.0
"""Changes of users' accounts on their way into the log, as the operator's table has them.

Guarantees that the log is the only table that replicas obey: the leader logs each difference once,
and an account is in force when its entry is applied.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.mesh.log.entry import AccountBlob
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminWork
from stoker.scheduler.nouns import Account

CHANGES_MAX = 64
"""The most accounts that one entry changes."""


class AccountUpdates:
    """The differences between the operator's table and the replicated one."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state
        self._wanted: Mapping[str, Account] | None = None

    def want(self, accounts: Mapping[str, Account]) -> None:
        """Take the operator's table as it is now."""
        self._wanted = accounts

    def next_work(self) -> AdminWork | None:
        """Return work that logs the next differences; None if there are none."""
        if self._wanted is None:
            return None
        changes = self._changes(self._wanted)
        if not changes:
            self._wanted = None
            return None
        return AdminWork(None, (), changes[:CHANGES_MAX])

    def _changes(self, wanted: Mapping[str, Account]) -> list[AccountBlob]:
        known = self._state.accounts
        new = [
            AccountBlob(user, account)
            for user, account in wanted.items()
            if known.get(user) != account
        ]
        return [*new, *(AccountBlob(user, None) for user in known.keys() - wanted.keys())]
