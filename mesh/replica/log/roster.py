# SPDX-License-Identifier: Apache-2.0
"""The schedulers of the cluster and their keys at each place of the chain, and who owns which term.

Guarantees that an entry counts only with the signature of the owner of its term, that a new term in
a cluster of several schedulers has the pledges of a majority, and that both are judged by the
roster behind the entry before, confirmed or not, which is the same at every replica.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.identity.identity import Checks
from stoker.mesh.log import entry as entries
from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import Entry, Opened, TermBlob
from stoker.mesh.log.genesis import ClusterConfig, RosterMember
from stoker.mesh.log.roster_change import Members
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import known_schedulers, peer_messages
from stoker.mesh.wire.term_owner import owner_place
from stoker.native.errors import StokerError


class _Change(NamedTuple):
    """A roster that begins behind an entry, which is held and not applied."""

    after: int
    members: Members


class Roster:
    """Opened keys of schedulers, and the rosters of the entries that are held.

    `open_key` makes the verifier of a public key; `founders` is the roster of the genesis,
    `told` another one that this host knows; empty if it knows none.
    """

    def __init__(
        self, open_key: Callable[[str], Checks], founders: Members = (), told: Members = ()
    ) -> None:
        self._open_key = open_key
        self._founders = founders
        self._keys: dict[RosterMember, Checks | None] = {}
        self._opened: dict[int, Checks | None] = {}
        """The verifiers of `_opened_of` by number."""
        self._opened_of: Members | None = None
        self._digest = b""
        self._digested_of: Members | None = None
        self._changes: list[_Change] = []
        self._kept = roster_change.KEPT_MIN
        """The number of schedulers that stay by the genesis that is held."""
        self._settled: Members = ()
        """The roster of the founded configuration `_settled_of`, with no change held."""
        self._settled_of: ClusterConfig | None = None
        self.tell(told)

    # --- the chain --------------------------------------------------------------------------------

    def members(self, state: ReplicaState, at: int | None = None) -> Members:
        """Return the roster behind the entry `at` of the chain, which the state has or this replica
        holds; without `at`, behind the last one."""
        if self._changes:
            self._forget_applied(state.index)
        elif state.config is self._settled_of is not None:  # so it is with nearly every question
            return self._settled
        if state.is_founded:
            found = state.schedulers
            self._settled, self._settled_of = found, state.config
        else:  # the first entry is judged by the genesis, whoever is heard meanwhile
            found = self.told if self.told and at is None else self._founders
        for change in self._changes:
            if at is None or change.after <= at:
                found = change.members
        return found

    def _forget_applied(self, index: int) -> None:
        """Forget the changes that the state has by now."""
        while self._changes and self._changes[0].after <= index:
            del self._changes[0]

    def held(self, entry: Entry, state: ReplicaState) -> None:
        """Note an entry that is held from now on, with none behind it."""
        index = entry.prev_index + 1
        self.dropped(index)
        genesis, before = entries.genesis_of(entry), self.members(state)
        if genesis is not None:
            self._kept = roster_change.kept_min(genesis)
            behind = genesis.schedulers
        else:
            behind = roster_change.following(before, entry, self._kept_min(state))
        if behind is not before:
            self._changes.append(_Change(index, behind))

    def _kept_min(self, state: ReplicaState) -> int:
        """Return how many schedulers stay, as the genesis says, which may be held and not applied
        yet."""
        return roster_change.kept_min(state.config) if state.is_founded else self._kept

    def dropped(self, index: int) -> None:
        """Note that the entries from `index` on are held no more."""
        while self._changes and self._changes[-1].after >= index:
            del self._changes[-1]

    # --- who is who -------------------------------------------------------------------------------

    def place(self, number: int, state: ReplicaState) -> int:
        """Return the place of a scheduler in the roster; -1 if it is not there."""
        numbers = [member.number for member in self.members(state)]
        return numbers.index(number) if number in numbers else -1

    def owner(self, term: int, state: ReplicaState, at: int | None = None) -> int:
        """Return the number of the scheduler that owns a term; 0 if nobody does."""
        members, place = self.members(state, at), owner_place(term)
        return members[place].number if 0 <= place < len(members) else 0

    def key(self, number: int, state: ReplicaState, at: int | None = None) -> Checks | None:
        """Return the verifier of a scheduler; None if it is not in the roster or has a bad key."""
        members = self.members(state, at)
        if members is not self._opened_of:
            self._opened = self._verifiers(members)
            self._opened_of = members
        return self._opened.get(number) or self._told_keys.get(number)

    def tell(self, members: Members) -> None:
        """Hear these schedulers, too, and take them for the roster until the log shows one."""
        self.told, self._told_keys = members, self._verifiers(members)

    def _verifiers(self, members: Members) -> dict[int, Checks | None]:
        there = [*roster_change.present(members)]
        return {member.number: self.opened(member) for member in reversed(there)}

    def digest(self, state: ReplicaState) -> bytes:
        """Return the digest of the roster at the end of the chain, which pledges carry."""
        members = self.members(state)
        if members is not self._digested_of:
            self._digest = known_schedulers.digest(roster_change.keys(members))
            self._digested_of = members
        return self._digest

    # --- judgement --------------------------------------------------------------------------------

    def signed(self, opened: Opened, state: ReplicaState) -> bool:
        """True if the owner of the entry's term is the leader that it names, and signed it."""
        if not self.owned(opened, state):
            return False
        key = self.key(opened.entry.leader, state, opened.entry.prev_index)
        return key is not None and entries.signed_by(opened, key)

    def owned(self, opened: Opened, state: ReplicaState) -> bool:
        """True if the owner of the entry's term is the leader that it names."""
        entry = opened.entry
        if entry.term < 1 or not entry.leader:
            return False
        return self.owner(entry.term, state, entry.prev_index) == entry.leader

    def may_begin(self, entry: Entry, state: ReplicaState) -> bool:
        """True if a majority pledged that the entry's leader may begin the entry's term."""
        members = [*roster_change.present(self.members(state, entry.prev_index))]
        needed = len(members) // 2
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
        key = self.key(pledge.voter, state, entry.prev_index)
        meant = (pledge.cluster, pledge.candidate, pledge.term)
        if meant != (entry.cluster, entry.leader, entry.term) or key is None:
            return 0
        return pledge.voter if peer_messages.is_signed(data, key) else 0

    def opened(self, member: RosterMember) -> Checks | None:
        """Return the verifier of a scheduler, in the roster or not; None for a bad key."""
        if member not in self._keys:
            try:
                self._keys[member] = self._open_key(member.public_key)
            except StokerError:
                self._keys[member] = None
        return self._keys[member]
