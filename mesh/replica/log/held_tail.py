# SPDX-License-Identifier: Apache-2.0
"""The entries that a replica holds beyond its state, until they are confirmed and applied.

Without I/O. Owns the judgement of entries: an entry counts if its leader owns its term and signed
it, and if it follows the chain; a newer term drops what is not confirmed and does not lead to it;
a stale entry is a counted no-op; a gap or a broken chain is an error, and so is an entry that
leads beyond the feature levels of this replica: it is never held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec.structs import replace

from stoker.mesh.log import entry as entries
from stoker.mesh.log import feature_level
from stoker.mesh.log.entry import Blob, Entry, Opened
from stoker.mesh.log.feature_level import BUILD, FORMATS, FeatureRange
from stoker.mesh.log.jetstream_log import LogGap
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.log.held_entry import ChainPlace, HeldEntry
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Corrupt

RECENT_MAX = 1024
"""The number of applied entries that are kept, so that they can be appended again if the log loses
its end. A log that loses more than that is restored from a backup."""
AGAIN = "entry_again"
"""The verdict on an entry that is held already."""


class HeldTail:
    """The tail of one replica.

    `keeps` is true in a cluster of several schedulers: entries then wait for `confirm`, and applied
    ones are kept for a while. Without it, an entry that counts is confirmed at once.
    """

    def __init__(
        self,
        state: ReplicaState,
        roster: Roster,
        *,
        keeps: bool,
        supports: FeatureRange = BUILD,
    ) -> None:
        self.entries: deque[HeldEntry] = deque()
        """The entries beyond the state, in order."""
        self.recent: deque[HeldEntry] = deque(maxlen=RECENT_MAX)
        """The newest applied entries, in order."""
        self.confirmed = state.index
        """The index up to which entries are known to be confirmed."""
        self.dropped = 0
        """The lowest index that was dropped for a newer term since this was last set to 0."""
        self._state = state
        self._roster = roster
        self._keeps = keeps
        self._supports = supports
        self._applied = ChainPlace(0, 0, entries.NO_HASH)
        """The place of the last applied entry, as `end` last found it."""

    # --- places -----------------------------------------------------------------------------------

    @property
    def end(self) -> ChainPlace:
        """The last place of the chain that this replica holds."""
        if self.entries:
            return self.entries[-1].place
        state = self._state
        if self._applied.hash is not state.hash:
            self._applied = ChainPlace(state.term, state.index, state.hash)
        return self._applied

    @property
    def is_founded(self) -> bool:
        """True if the chain that this replica holds has the genesis of its cluster."""
        return bool(self.entries) or self._state.is_founded

    def following(
        self, term: int, leader: int, now_ns: int, commands: bytes, blobs: tuple[Blob, ...]
    ) -> Entry:
        """Return the entry that follows the end of the chain."""
        end = self.end
        batch = self._batch() + 1 if term == end.term else 1
        return Entry(
            FORMATS[self._state.level].entry,
            self._state.cluster,
            term,
            leader,
            batch,
            end.index,
            end.hash,
            self._state.index,
            now_ns,
            commands,
            blobs,
        )

    def hash_at(self, index: int) -> bytes | None:
        """Return the hash of the entry of an index; None if it is not held any more, or not yet."""
        if index == self._state.index:
            return self._state.hash
        found = self.at(index)
        return found.opened.hash if found is not None else None

    def at(self, index: int) -> HeldEntry | None:
        """Return a held or recent entry."""
        beyond = index - self._state.index
        if 0 < beyond <= len(self.entries):
            return self.entries[beyond - 1]
        if self.recent and self.recent[0].index <= index <= self.recent[-1].index:
            return self.recent[index - self.recent[0].index]
        return None

    def covers(self, snapshot: Snapshot) -> bool:
        """Return True if the state or the held entries have every entry that a snapshot has."""
        if snapshot.index <= self._state.index:
            return True
        return self.hash_at(snapshot.index) == snapshot.hash

    def after(self, index: int) -> Iterator[HeldEntry]:
        """Yield the held and recent entries beyond an index, in order."""
        for held in (self.recent, self.entries):
            beyond = held[-1].index - index if held else 0
            for place in range(max(len(held) - max(beyond, 0), 0), len(held)):
                yield held[place]

    @property
    def first(self) -> int:
        """The lowest index of an entry that this replica can send; that of the next one if it has
        none."""
        oldest = next(self.after(0), None)
        return oldest.index if oldest is not None else self._state.index + 1

    def part(self, index: int, size_max: int) -> tuple[tuple[bytes, ...], bool]:
        """Return the entries beyond an index of about so many bytes in all, one at least, and
        whether there are more."""
        chosen: list[bytes] = []
        size = 0
        for held in self.after(index):
            size += len(held.data)
            if chosen and size > size_max:
                return tuple(chosen), True
            chosen.append(held.data)
        return tuple(chosen), False

    @property
    def misses_beginning(self) -> bool:
        """True if nothing is held, and what was read begins no cluster: the log has lost its
        beginning, and no later entry looks like a gap to whoever has none before it."""
        return self._keeps and not self.is_founded and self._state.seen > 0

    # --- judgement --------------------------------------------------------------------------------

    def offer(self, seq: int, data: bytes, opened: Opened, *, own: bool = False) -> str:
        """Hold an entry that was read in the log as `seq`, or return the counter of the reason.

        `own` is true for bytes that this process sealed, whose signature is not verified again.
        Raises LogGap or Corrupt if an entry before it is missing. A number may be missing before
        the entry, as after a write that a full disk cut off: the entry, which is signed, names the
        one that it follows.
        """
        if seq <= self._state.seen:
            if self._keeps:  # two readings may overlap
                return AGAIN
            raise LogGap(f"log entry {seq} came after {self._state.seen}")
        verdict = self._judge(seq, opened, own=own)
        self._state.seen = seq
        if not verdict:
            self._hold(seq, data, opened)
        elif verdict == AGAIN:
            self._place(opened.entry.prev_index + 1, seq)
        return verdict

    def adopt(self, data: bytes, opened: Opened, *, replaces: bool = True) -> str:
        """Hold an entry that another replica holds, as `offer` does; its place is not known.

        What this replica holds at its index in another chain is dropped, if the entry comes from
        one whose chain counts (`replaces`); else it counts as one that was read in the log.
        """
        entry = opened.entry
        index = entry.prev_index + 1
        if (
            replaces
            and self.hash_at(index) not in (None, opened.hash)
            and self.hash_at(entry.prev_index) == entry.prev_hash
            and self._roster.signed(opened, self._state)
        ):
            self._cut(index)
        verdict = self._judge(self._state.seen + 1, opened)
        if not verdict:
            self._hold(0, data, opened)
        return verdict

    def _judge(self, seq: int, opened: Opened, *, own: bool = False) -> str:
        entry = opened.entry
        if entry.cluster != self._state.cluster:
            return "entry_cluster"
        if not self.is_founded and not self._state.is_founding(entry):
            if seq != self._state.seen + 1:
                raise LogGap(f"log entry {self._state.seen + 1} is missing, {seq} came")
            return "entry_genesis"
        if older := self._older(opened):
            return older
        proven = self._roster.owned if own else self._roster.signed
        if not proven(opened, self._state):
            if self._keeps:  # behind entries that are not held, it may be of another roster
                self._check_chain(seq, entry)
            return "entry_signature"
        self._check_chain(seq, entry)
        return self._superseded(entry)

    def _older(self, opened: Opened) -> str:
        """Return the counter of an entry that is held already, or was overtaken by another."""
        entry = opened.entry
        if self.hash_at(entry.prev_index + 1) == opened.hash:
            return AGAIN
        if entry.prev_index < self._state.index:
            return "entry_stale"  # written on an older tail: another entry came first
        return "entry_term" if entry.term < self.end.term else ""

    def _check_chain(self, seq: int, entry: Entry) -> None:
        """Raise LogGap or Corrupt unless the entry follows one that is held."""
        if self.hash_at(entry.prev_index) != entry.prev_hash:
            if seq != self._state.seen + 1:
                raise LogGap(f"log entry {self._state.seen + 1} is missing, {seq} came")
            raise BrokenChain(
                f"log entry {seq} follows entry {entry.prev_index} of another chain, the last good"
                f" one is {self.end.index}: the chain is broken"
            )

    def _superseded(self, entry: Entry) -> str:
        """Return the counter of an entry that follows and still does not count."""
        end = self.end
        if entry.term == end.term:
            if entry.prev_index < end.index:
                return "entry_stale"
            if entry.batch <= self._batch():
                return "entry_repeat"
        elif not self._roster.may_begin(entry, self._state):
            return "entry_pledges"
        begins = not self._state.is_founded and entry.prev_index == self._state.index
        founds = entries.genesis_of(entry) is not None
        if founds if not begins else not self._state.is_founding(entry):
            return "entry_genesis"
        if level := entries.level_of(entry):
            what = f"log entry {entry.prev_index + 1} states feature level"
            feature_level.check(level, self._supports, what)
        return ""

    def _batch(self) -> int:
        return self.entries[-1].opened.entry.batch if self.entries else self._state.batch

    def _hold(self, seq: int, data: bytes, opened: Opened) -> None:
        entry = opened.entry
        index = entry.prev_index + 1
        self._cut(index)
        place = ChainPlace(entry.term, index, opened.hash)
        self._roster.held(entry, self._state)
        self.entries.append(HeldEntry(index, seq, data, opened, place))
        self.confirm(min(entry.confirmed, index) if self._keeps else index)

    def _cut(self, index: int) -> None:
        """Drop the entries from `index` on, none of which is confirmed."""
        while self.entries and self.entries[-1].index >= index:
            dropped = self.entries.pop().index
            self.dropped = min(self.dropped or dropped, dropped)
        self._roster.dropped(index)

    def _place(self, index: int, seq: int) -> None:
        """Note where the log shows a held or recent entry."""
        beyond = index - self._state.index
        if 0 < beyond <= len(self.entries):
            self.entries[beyond - 1] = replace(self.entries[beyond - 1], seq=seq)
        elif self.recent and self.recent[0].index <= index <= self.recent[-1].index:
            at = index - self.recent[0].index
            self.recent[at] = replace(self.recent[at], seq=seq)

    # --- confirmation -----------------------------------------------------------------------------

    def confirm(self, index: int) -> None:
        """Note that entries up to `index` are confirmed."""
        self.confirmed = max(self.confirmed, index)

    def ready(self) -> HeldEntry | None:
        """Take the next confirmed entry; the caller applies it before it calls again."""
        if not self.entries or self.entries[0].index > self.confirmed:
            return None
        taken = self.entries.popleft()
        if self._keeps:
            self.recent.append(taken)
        return taken

    def trim_to(self, applied: Applied) -> int:
        """Return how far the log may be trimmed behind a snapshot that was recorded; 0: not yet."""
        if applied.snapshot is None or not applied.trim_to:
            return 0
        return applied.trim_to if self.may_trim(applied.trim_to, applied.snapshot.index) else 0

    def may_trim(self, seq: int, index: int) -> bool:
        """Return True if no entry beyond `index`, which a snapshot has, is in the log up to `seq`.

        A log that lost everything has begun again, and its places are others than those recorded.
        Places grow along the chain, so those of entries behind a known one are beyond it. An
        applied entry before it whose place was forgotten can be anywhere; one of the only scheduler
        is on its way to the end of the log.
        """
        beyond = list(self.after(index))
        if self._keeps and beyond and not beyond[0].seq:
            return False
        return not any(0 < held.seq <= seq for held in beyond)

    # --- repair of the log ------------------------------------------------------------------------

    def forget_places(self) -> int:
        """Forget where the log has the entries; return the sequence from which to read it again."""
        first = min((held.seq for held in self.after(0) if held.seq), default=0)
        self.recent = deque((replace(held, seq=0) for held in self.recent), maxlen=RECENT_MAX)
        self.entries = deque(replace(held, seq=0) for held in self.entries)
        return first or self._state.seen + 1

    def missing(self) -> HeldEntry | None:
        """Return the first held or recent entry behind which the log has shown none; None if the
        log has the end of the chain."""
        found: HeldEntry | None = None
        for held in self.after(0):
            if held.seq:
                found = None
            elif found is None:
                found = held
        return found

    def appended(self, index: int, seq: int) -> None:
        """Note that an entry was appended again, as `seq`."""
        self._place(index, seq)
        self._state.seen = seq


class BrokenChain(Corrupt):
    """An entry of the right term follows another chain than the one that this replica holds."""
