# SPDX-License-Identifier: Apache-2.0
"""The trail of a log: its entries from the genesis on, each judged and applied as replicas do.

`stoker audit` reads it. Owns the judgement: an entry counts with the signature of its term's owner,
behind the entry that it names, in a term that a majority of the roster has pledged. What is missing
or changed in between is Corrupt, with its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from stoker.mesh.identity.identity import Checks, Verifier
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Entry, Opened
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.first_state import first_state
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import BadRequest, Corrupt


class TrailEntry(msgspec.Struct, frozen=True):
    """An entry that counts, and what it changed."""

    index: int
    entry: Entry
    hash: bytes
    applied: Applied
    begins_term: bool


class Trail:
    """The state and the judgement behind the entries that were taken so far.

    `open_key` makes the verifier of a public key. `base` is the state of the backup behind which
    the trail of a restored cluster begins.
    """

    def __init__(
        self, open_key: Callable[[str], Checks] = Verifier, base: Snapshot | None = None
    ) -> None:
        self.state: ReplicaState | None = None
        """The state behind the last entry that counts; None before the genesis."""
        self.passed: Counter[str] = Counter()
        """The number of entries that did not count, by reason, as schedulers count them."""
        self.signed: Counter[int] = Counter()
        """The number of entries that count, by the number of the scheduler that signed them."""
        self.behind = 0
        """The index of the entry behind which the trail begins; 0 for the genesis of a new cluster.
        """
        self._open_key = open_key
        self._base = base
        self._roster = Roster(open_key)

    @property
    def index(self) -> int:
        """The number of entries that count."""
        return self.state.index if self.state is not None else 0

    def take(self, place: int, data: bytes) -> TrailEntry | None:
        """Judge and apply the next entry; None if it does not count. Raises Corrupt if it was
        changed, or does not follow those before."""
        opened = entries.unseal(place, data)
        state = self.state = self.state or self._founded(place, opened)
        if reason := self._judge(place, opened, state):
            self.passed[reason] += 1
            return None
        begins_term = opened.entry.term > state.term
        applied = state.apply(opened.entry, opened.hash)
        self.signed[opened.entry.leader] += 1
        return TrailEntry(state.index, opened.entry, opened.hash, applied, begins_term)

    def check_end(self, index: int, digest: str, effects: str) -> None:
        """Raise Corrupt unless a scheduler's own words agree with the end of its trail."""
        state = self.state
        assert state is not None
        made = (state.index, state.hash.hex(), state.trail.hex())
        for what, told, found in zip(
            ("index", "hash", "effects"), (index, digest, effects), made, strict=True
        ):
            if told != found:
                raise Corrupt(
                    f"the scheduler's {what} is {str(told)[:16]}, and its entries lead to"
                    f" {str(found)[:16]}: its state is not what its log says"
                )

    def _founded(self, place: int, opened: Opened) -> ReplicaState:
        genesis = entries.genesis_of(opened.entry)
        if genesis is None:
            raise Corrupt(
                f"the trail begins at log entry {place}, not at the genesis of the cluster",
                hint="Another scheduler may have the whole; past 4 GiB an archive drops its oldest",
            )
        if genesis.origin is None:
            return self.begin(genesis, None)
        if self._base is None:
            raise BadRequest(
                f"this cluster was restored from a backup of cluster {genesis.origin.cluster} at"
                f" entry {genesis.origin.index}, behind which its trail begins",
                hint="Give that file with --backup",
            )
        return self.begin(genesis, self._base)

    def begin(self, genesis: Genesis, base: Snapshot | None) -> ReplicaState:
        """Begin behind a snapshot of this cluster or of its origin, or with an unfounded state;
        Corrupt for a snapshot of another one."""
        self._roster = Roster(self._open_key, genesis.schedulers)
        self.state = first_state(genesis, base)
        self.behind = self.state.index
        return self.state

    def _judge(self, place: int, opened: Opened, state: ReplicaState) -> str:
        """Return why an entry does not count, by the names that schedulers use; empty if it does.

        Whoever writes to the log without a scheduler's key changes nothing: such entries are passed
        over. One that follows nothing shows that entries before it are missing, and maybe the one
        that took its signer into the roster.
        """
        entry = opened.entry
        if entry.cluster != state.cluster:
            return "entry_cluster"
        if entry.prev_index < state.index:
            return "entry_stale"
        if entry.term < state.term:
            return "entry_term"
        follows = (entry.prev_index, entry.prev_hash) == (state.index, state.hash)
        if follows and not self._roster.signed(opened, state):
            return "entry_signature"
        if not follows:
            raise Corrupt(
                f"log entry {place} follows entry {entry.prev_index}"
                f" {entry.prev_hash.hex()[:16]}, and the one before is entry {state.index}"
                f" {state.hash.hex()[:16]}: entries are missing or were changed"
            )
        return self._superseded(entry, state)

    def _superseded(self, entry: Entry, state: ReplicaState) -> str:
        if entry.term == state.term:
            if entry.batch <= state.batch:
                return "entry_repeat"
        elif not self._roster.may_begin(entry, state):
            return "entry_pledges"
        if state.is_founded:
            return "entry_genesis" if entries.genesis_of(entry) is not None else ""
        return "" if state.is_founding(entry) else "entry_genesis"
