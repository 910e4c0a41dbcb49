# SPDX-License-Identifier: Apache-2.0
"""The schedulers of the cluster and their keys, as the state names them, and who owns which term.

Guarantees that an entry counts only with the signature of the owner of its term, and that a new
term in a cluster of several schedulers has the pledges of a majority.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.identity.identity import Checks
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Entry, Opened, TermBlob
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import peer_messages
from stoker.mesh.wire.term_owner import owner_place
from stoker.native.errors import StokerError


class Roster:
    """Opened keys of schedulers.

    `open_key` makes the verifier of a public key; `founders` is the roster of the genesis.
    """

    def __init__(
        self, open_key: Callable[[str], Checks], founders: tuple[RosterMember, ...] = ()
    ) -> None:
        self._open_key = open_key
        self._founders = founders
        self._keys: dict[RosterMember, Checks | None] = {}
        self._opened: dict[int, Checks | None] = {}
        """The verifiers of `_opened_of` by number."""
        self._opened_of: tuple[RosterMember, ...] | None = None

    def members(self, state: ReplicaState) -> tuple[RosterMember, ...]:
        """Return the roster of the state, or before its genesis that of the founders."""
        return state.config.schedulers if state.config is not None else self._founders

    def majority(self, state: ReplicaState) -> int:
        """Return the number of schedulers that are a majority."""
        return len(self.members(state)) // 2 + 1

    def place(self, number: int, state: ReplicaState) -> int:
        """Return the place of a scheduler in the roster; -1 if it is not there."""
        numbers = [member.number for member in self.members(state)]
        return numbers.index(number) if number in numbers else -1

    def owner(self, term: int, state: ReplicaState) -> int:
        """Return the number of the scheduler that owns a term; 0 if nobody does."""
        members, place = self.members(state), owner_place(term)
        return members[place].number if 0 <= place < len(members) else 0

    def key(self, number: int, state: ReplicaState) -> Checks | None:
        """Return the verifier of a scheduler; None if it is not in the roster or has a bad key."""
        members = self.members(state)
        if members is not self._opened_of:
            self._opened = {member.number: self._key(member) for member in reversed(members)}
            self._opened_of = members
        return self._opened.get(number)

    def signed(self, opened: Opened, state: ReplicaState) -> bool:
        """True if the owner of the entry's term is the leader that it names, and signed it."""
        if not self.owned(opened, state):
            return False
        key = self.key(opened.entry.leader, state)
        return key is not None and entries.signed_by(opened, key)

    def owned(self, opened: Opened, state: ReplicaState) -> bool:
        """True if the owner of the entry's term is the leader that it names."""
        entry = opened.entry
        return entry.term >= 1 and self.owner(entry.term, state) == entry.leader

    def may_begin(self, entry: Entry, state: ReplicaState) -> bool:
        """True if a majority pledged that the entry's leader may begin the entry's term."""
        needed = self.majority(state) - 1
        if not needed:
            return True
        stated = next((blob for blob in entry.blobs if isinstance(blob, TermBlob)), None)
        pledges = stated.pledges if stated is not None else ()
        voters = {self._voter(data, entry, state) for data in pledges}
        return len(voters - {0, entry.leader}) >= needed

    def _voter(self, data: bytes, entry: Entry, state: ReplicaState) -> int:
        """Return the voter of a pledge for this entry's term; 0 if it is not one."""
        try:
            pledge = peer_messages.read_pledge(data)
        except StokerError:
            return 0
        key = self.key(pledge.voter, state)
        meant = (pledge.cluster, pledge.candidate, pledge.term)
        if meant != (entry.cluster, entry.leader, entry.term) or key is None:
            return 0
        return pledge.voter if peer_messages.is_signed(data, key) else 0

    def _key(self, member: RosterMember) -> Checks | None:
        if member not in self._keys:
            try:
                self._keys[member] = self._open_key(member.public_key)
            except StokerError:
                self._keys[member] = None
        return self._keys[member]
