# SPDX-License-Identifier: Apache-2.0
"""The schedulers of the cluster and their keys, as the state names them.

Guarantees that an entry counts only with the signature of a roster member; the first entry of a log
names the roster itself.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.identity.identity import Checks
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Opened
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import StokerError


class Roster:
    """Opened keys of schedulers; `open_key` makes the verifier of a public key."""

    def __init__(self, open_key: Callable[[str], Checks]) -> None:
        self._open_key = open_key
        self._keys: dict[RosterMember, Checks | None] = {}

    def signed(self, opened: Opened, state: ReplicaState) -> bool:
        """True if the scheduler that the entry names signed it and is in the roster."""
        for member in _members(opened, state):
            if member.number == opened.entry.leader:
                key = self._key(member)
                return key is not None and entries.signed_by(opened, key)
        return False

    def _key(self, member: RosterMember) -> Checks | None:
        if member not in self._keys:
            try:
                self._keys[member] = self._open_key(member.public_key)
            except StokerError:
                self._keys[member] = None
        return self._keys[member]


def _members(opened: Opened, state: ReplicaState) -> tuple[RosterMember, ...]:
    """Return the roster of the state, or before its genesis the one that the entry states."""
    if state.config is not None:
        return state.config.schedulers
    stated = entries.genesis_of(opened.entry)
    return stated.schedulers if stated is not None and state.is_founding(opened.entry) else ()
