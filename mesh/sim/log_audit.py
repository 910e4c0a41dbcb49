# SPDX-License-Identifier: Apache-2.0
"""The auditor of the log: what must hold after every entry that any replica applies.

It keeps books of its own, from the entries' actions, and trusts no count of the core. Everything
that it finds wrong is one sentence in `violations`.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.mesh.log.entry import Entry, EvictBlob, NodeBlob, NodeRemovedBlob
from stoker.mesh.log.feature_level import FeatureRange
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.log.genesis import digest as genesis_digest
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.sim.device_audit import DeviceAudit
from stoker.mesh.sim.gang_audit import GangAudit
from stoker.mesh.sim.node_audit import NodeAudit
from stoker.mesh.sim.state_digests import StateDigests
from stoker.native.errors import NotFound
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import ENDED, Outcome

DIGEST_EVERY = 64
"""Whole states are compared after every so many entries, and at the end; their effects after each
entry."""
CHECK_EVERY = 4
"""The core's invariants are looked at after every so many entries, and at the end: what breaks one
seldom mends it again."""


class KnownEntry(NamedTuple):
    """An entry as the first replica applied it, and the state behind it."""

    entry: Entry
    hash: bytes
    trail: bytes
    """The digest of all effects so far."""
    whole: bytes


def array_key(key: str, place: int) -> str:
    """Return the key of a job of an array: that of its request, and its place."""
    return f"{key}/{place}"


class LogAudit:
    """The auditor of one cluster's log."""

    def __init__(self, genesis: Genesis) -> None:
        self.violations: list[str] = []
        self.digests = StateDigests()
        self.devices = DeviceAudit(self.violated)
        self.gangs = GangAudit(self.violated)
        self.nodes = NodeAudit(self.violated)
        self.known: dict[int, KnownEntry] = {}
        self.last = 0
        """The last entry that any replica applied."""
        self.evictions = 0
        """The number of entries' blobs that give up a node."""
        self.jobs: dict[int, str] = {}
        """The key of each job that was submitted."""
        self.ended: dict[int, str] = {}
        """The final state of each job that is over."""
        self._genesis = genesis
        self._keys: dict[str, int] = {}
        self._leaders: dict[int, int] = {}
        self._boots: dict[str, str] = {}
        self._term = 0
        self._snapshot: Snapshot | None = None
        self._ends: dict[int, bytes] = {}
        """The digest of the state in which the first replica ended, by index."""

    def violated(self, sentence: str) -> None:
        """Note something that must never be."""
        self.violations.append(sentence)

    # --- entries ----------------------------------------------------------------------------------

    def applied(self, who: str, state: ReplicaState, entry: Entry, applied: Applied) -> None:
        """Check the state of `who` right after it applied an entry."""
        seq = entry.prev_index + 1
        whole = self.digests.agreement(state.snapshot()) if seq % DIGEST_EVERY == 0 else b""
        known = self.known.get(seq)
        if known is not None:
            self._compare(who, state, whole, known)
            return
        if seq != self.last + 1:
            self.violated(f"{who} applied entry {seq} first, the last one was {self.last}")
        self.known[seq], self.last = KnownEntry(entry, state.hash, state.trail, whole), seq
        self._check_term(who, seq, entry)
        if seq % CHECK_EVERY == 0:
            self._check_core(who, state)
        self._submitted(state, applied)
        lost = self._lost(entry)
        self.devices.applied(state, entry, applied, lost)
        self.gangs.applied(entry, applied, lost)
        self.nodes.applied(entry, applied)
        self._changed(state, applied)

    def levels(self, who: str, state: ReplicaState, supports: FeatureRange) -> None:
        """Check that a build has applied nothing beyond the feature levels that it supports."""
        if not supports.has(state.level):
            self.violated(
                f"{who}, which supports {supports.text}, applied entry {state.index} at feature"
                f" level {state.level}"
            )

    def _check_core(self, who: str, state: ReplicaState) -> None:
        if broken := state.core.check():
            self.violated(f"after entry {state.index} the core of {who} breaks {broken}")

    def _lost(self, entry: Entry) -> list[str]:
        """Return the nodes that an entry gives up or removes, or knows to have booted again."""
        lost = []
        for blob in entry.blobs:
            if isinstance(blob, EvictBlob):
                lost.append(blob.node)
                self.evictions += 1
            elif isinstance(blob, NodeRemovedBlob):
                lost.append(blob.node)
            elif isinstance(blob, NodeBlob):
                node, boot_id = blob.report.node, blob.report.boot_id
                if self._boots.get(node, boot_id) != boot_id:
                    lost.append(node)
                self._boots[node] = boot_id
        return lost

    def over(self, who: str, state: ReplicaState) -> None:
        """Check a whole state at the end of a run: replicas at one entry have one state."""
        if state.index:
            self._check_core(who, state)
            if state.index == self.last:
                for node in sorted(state.book.nodes):
                    self.devices.check(state, node, state.index)
            whole = self.digests.agreement(state.snapshot())
            if self._ends.setdefault(state.index, whole) != whole:
                self.violated(
                    f"{who} ends after entry {state.index} with another state than others"
                )

    def _compare(self, who: str, state: ReplicaState, whole: bytes, known: KnownEntry) -> None:
        if state.hash != known.hash:
            self.violated(f"{who} applied another entry {state.index} than others")
        elif state.trail != known.trail or whole != known.whole:
            self.violated(f"{who} has another state after entry {state.index} than others")

    def _check_term(self, who: str, seq: int, entry: Entry) -> None:
        if entry.term < self._term:
            self.violated(f"entry {seq} has term {entry.term} after term {self._term}")
        self._term = max(self._term, entry.term)
        leader = self._leaders.setdefault(entry.term, entry.leader)
        if leader != entry.leader:
            self.violated(f"term {entry.term} has two leaders, seen by {who} in entry {seq}")

    def has_term(self, term: int) -> bool:
        """True if any replica has applied an entry of this term."""
        return term in self._leaders

    # --- jobs -------------------------------------------------------------------------------------

    def _submitted(self, state: ReplicaState, applied: Applied) -> None:
        for change in applied.changes.jobs:
            if change.state != "pending" or change.attempt or change.job.job in self.jobs:
                continue
            job, spec = change.job.job, change.job.decoded_spec()
            key = array_key(spec.argv[1], spec.array_place) if spec.array_size else spec.argv[1]
            if self._keys.setdefault(key, job) != job:
                self.violated(f"request {key} became job {self._keys[key]} and job {job}")
            self.jobs[job] = key

    def _changed(self, state: ReplicaState, applied: Applied) -> None:
        for job in applied.changed:
            record = state.book.live(job)
            if record is not None and job in self.ended:
                self.violated(f"job {job} was {self.ended[job]} and is {record.state} again")
            ended = None if record is not None else _record(state, job)
            if ended is not None and ended.state in ENDED:
                self.ended.setdefault(job, ended.state)
                self.gangs.over(job, ended.state)

    # --- acknowledgements -------------------------------------------------------------------------

    def acknowledged_job(self, key: str, job: int) -> None:
        """A user was told that this request is this job: the log must say the same."""
        if self.jobs.get(job) != key:
            self.violated(f"request {key} was acknowledged as job {job}, which the log has not")

    def acknowledged_outcome(self, outcome: Outcome) -> None:
        """A node was told that this outcome is in the log: the attempt holds nothing any more."""
        self.devices.acknowledged(outcome)

    # --- snapshots --------------------------------------------------------------------------------

    def saved(self, snapshot: Snapshot) -> None:
        """Keep the first snapshot of a run, for `replayed`."""
        if self._snapshot is None:
            self._snapshot = snapshot

    def replayed(self) -> None:
        """Compare a full replay of the log with a snapshot and its tail."""
        whole = ReplicaState(self._genesis.cluster, genesis_digest(self._genesis))
        for known in self.known.values():
            whole.apply(known.entry, known.hash)
        if self._snapshot is None:
            return
        data = snapshots.encode(self._snapshot).data
        part = ReplicaState.restore(snapshots.decode(data)[0])
        for seq, known in self.known.items():
            if seq > self._snapshot.index:
                part.apply(known.entry, known.hash)
        if snapshots.agreement(whole.snapshot()) != snapshots.agreement(part.snapshot()):
            self.violated(f"snapshot {self._snapshot.index} and its tail are not the full replay")


def _record(state: ReplicaState, job: int) -> Job | None:
    try:
        return state.book.get(job)
    except NotFound:
        return None
