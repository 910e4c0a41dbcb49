# SPDX-License-Identifier: Apache-2.0
"""The auditor of disks: what was confirmed stays, whoever crashes and whoever is elected next.

It reads the simulated disks themselves. Owns the rules that a scheduler claims only what its disk
has, that a majority's disks have an entry when it is confirmed, and that no majority could from
then on elect a scheduler that would drop it. A disk that recorded what it forgot guards it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.log import entry as entries
from stoker.mesh.log.held_entries import FORGOTTEN, Rank
from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.sim.authority_audit import AuditedScheduler
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.opened_entries import OpenedEntries
from stoker.mesh.sim.roster_book import RosterBook
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from stoker.mesh.wire.peer_messages import Message, RecallRequest

NOWHERE = ChainPlace(0, 0, entries.NO_HASH)


class DiskEnd(NamedTuple):
    """The end of the chain that a disk has in a version of it."""

    version: int
    end: ChainPlace
    rank: Rank
    needs: Rank
    """The rank that a chain must have to be led by the vote of this disk's scheduler."""


class DurabilityAudit:
    """The auditor of the disks of these schedulers; `log` has what any replica applied."""

    def __init__(
        self,
        violated: Callable[[str], None],
        log: LogAudit,
        schedulers: list[AuditedScheduler],
        book: RosterBook,
        opened: OpenedEntries,
    ) -> None:
        self._violated = violated
        self._log = log
        self._schedulers = schedulers
        self._book = book
        self._opened = opened
        self._places: dict[bytes, ChainPlace] = {}
        """The place of each entry, by its bytes."""
        self._confirmed = NOWHERE
        """The last place that a leader confirmed."""
        self._having: dict[SchedulerDisk, int] = {}
        """The version of each disk in which it was found to have the last confirmed entry."""
        self._had: dict[int, ChainPlace] = {}
        """The last confirmed place that each disk has had."""
        self._ends: dict[SchedulerDisk, DiskEnd] = {}

    # --- what is told -----------------------------------------------------------------------------

    def says(self, scheduler: AuditedScheduler, message: Message) -> None:
        """Note a message: who does not know what it has said may only ask."""
        if scheduler.disk.floor == FORGOTTEN and not isinstance(message, RecallRequest):
            what = type(message).__name__
            self._violated(f"{scheduler.name} sends a {what}, and remembers nothing")

    def claims(self, scheduler: AuditedScheduler, index: int, digest: bytes) -> None:
        """Note that a scheduler tells another that it holds an entry durably."""
        if index and not self._has(scheduler.disk, index, digest):
            self._violated(f"{scheduler.name} claims entry {index}, which its disk has not")

    def confirms(self, scheduler: AuditedScheduler, term: int, index: int, digest: bytes) -> None:
        """Note that a leader tells that an entry is confirmed in its term."""
        holders = [each for each in self._schedulers if self._has(each.disk, index, digest)]
        data = scheduler.disk.entry(index)
        place = self.place(data) if data is not None else NOWHERE
        wanted = place.rank if place.index else FORGOTTEN
        guards = [each for each in self._schedulers if each.disk.floor >= wanted]
        have = {each.number for each in (*holders, *guards)}
        end = scheduler.replica.tail.end.hash
        if len(have & self._book.after(end)) < self._book.majority(end):
            on = ", ".join(each.name for each in holders)
            self._violated(f"{scheduler.name} confirms entry {index}, which is only on {on}")
        if data is not None and place.term != term:
            self._violated(
                f"{scheduler.name} counts in term {term} who holds entry {index} of term"
                f" {place.term}, which a later leader may still drop"
            )
        if index > self._confirmed.index:
            self._confirmed = ChainPlace(place.term, index, digest)
            self._having = {each.disk: each.disk.version for each in holders}
            for each in holders:
                self._had[each.number] = self._confirmed
            self._check_elections(scheduler.name)

    # --- what disks have --------------------------------------------------------------------------

    def changed(self, scheduler: AuditedScheduler) -> None:
        """Look at the disks after one of them changed."""
        had = self._had.get(scheduler.number, NOWHERE)
        has_last = self._has_last(scheduler.disk)
        kept = (
            has_last if had is self._confirmed else self._has(scheduler.disk, had.index, had.hash)
        )
        if had.index and not kept and scheduler.disk.floor < had.rank:
            self._violated(f"{scheduler.name} drops entry {had.index}, which was confirmed")
            del self._had[scheduler.number]
        if has_last:
            self._had[scheduler.number] = self._confirmed
        self._check_elections(scheduler.name)

    def _check_elections(self, who: str) -> None:
        """No majority may have, as its best chain, one without the last confirmed entry."""
        last = self._confirmed
        if not last.index:
            return
        having = self._having
        lacking = [
            each
            for each in self._schedulers
            if having.get(each.disk) != each.disk.version and not self._has_last(each.disk)
        ]
        if not lacking:
            return
        ends = {each.number: self._end(each.disk) for each in self._schedulers}
        for number in [each.number for each in lacking]:
            _, end, rank, needs = ends[number]
            voters = self._book.after(end.hash)
            if number not in voters or needs > rank:
                continue
            behind = sum([ends[each].needs <= rank for each in voters])
            if behind > len(voters) // 2:
                self._violated(
                    f"after {who} stored, a scheduler that has not the confirmed entry"
                    f" {last.index} can be elected by {behind}"
                )

    def remembers(self, disk: SchedulerDisk) -> bool:
        """True if a disk has again all that it was said to forget."""
        return self.end(disk).rank >= disk.floor

    def voted(self, voter: AuditedScheduler, candidate: int) -> None:
        """Note a vote: what the voter has forgotten, it has again, or the candidate has it."""
        other = self._schedulers[candidate - 1]
        reached = max(self.end(voter.disk).rank, self.end(other.disk).rank)
        if reached < voter.disk.floor:
            self._violated(
                f"{voter.name}, which has forgotten entry {voter.disk.floor[1]}, pledges to"
                f" {other.name}, which has not got it"
            )

    def trims(self, scheduler: AuditedScheduler, trimmed: list[bytes | None]) -> None:
        """Note that a leader trims these entries off the log: snapshots of a majority have them."""
        last = max((self.place(data).index for data in trimmed if data is not None), default=0)
        places = {each.number: each.disk.snapshot_place or NOWHERE for each in self._schedulers}
        end = scheduler.replica.tail.end.hash
        holders = sum(places[each].index >= last for each in self._book.after(end))
        if holders < self._book.majority(end):
            self._violated(
                f"{scheduler.name} trims the log up to entry {last}, which is in the snapshots of"
                f" {holders} schedulers"
            )

    def end(self, disk: SchedulerDisk) -> ChainPlace:
        """Return the end of the chain that a disk has."""
        return self._end(disk).end

    def _end(self, disk: SchedulerDisk) -> DiskEnd:
        found = self._ends.get(disk)
        if found is None or found.version != disk.version:
            snapshot = disk.snapshot_place or NOWHERE
            held = self.place(disk.held[-1][1]) if disk.held else NOWHERE
            end = held if held.index > snapshot.index else snapshot
            rank = end.rank
            found = self._ends[disk] = DiskEnd(disk.version, end, rank, max(rank, disk.floor))
        return found

    def place(self, data: bytes) -> ChainPlace:
        """Return the place of an entry by its bytes."""
        found = self._places.get(data)
        if found is None:
            opened = self._opened.unseal(0, data)
            entry = opened.entry
            found = ChainPlace(entry.term, entry.prev_index + 1, opened.hash)
            self._places[data] = found
        return found

    def _has_last(self, disk: SchedulerDisk) -> bool:
        """True if a disk has the last confirmed entry; one that has not changed has it still."""
        if self._having.get(disk) == disk.version:
            return True
        last = self._confirmed
        if not self._has(disk, last.index, last.hash):
            return False
        self._having[disk] = disk.version
        return True

    def _has(self, disk: SchedulerDisk, index: int, digest: bytes) -> bool:
        """True if a disk has an entry, by itself or within a snapshot."""
        data = disk.entry(index)
        if data is not None:
            return self.place(data).hash == digest
        snapshot = disk.snapshot_place or NOWHERE
        if index >= snapshot.index:
            return (index, digest) == (snapshot.index, snapshot.hash)
        known = self._log.known.get(index)
        return known is not None and known.hash == digest
