# SPDX-License-Identifier: Apache-2.0
"""The beginning of a cluster that was restored from a backup: behind the state of another one.

Pure and deterministic. Owns what the entry with such a genesis does to that state: no node of the
former cluster is left, so nothing can be granted twice, and a job that may run only once never
runs again. `docs/developer/protocol.md` has the argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stoker.mesh.log import genesis as founding
from stoker.mesh.log.entry import ArrayCancelBlob, Blob, CancelBlob, Entry, NodeRemovedBlob
from stoker.mesh.log.genesis import ClusterConfig, Genesis, Origin
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.snapshots import Snapshot
from stoker.native.errors import Corrupt
from stoker.scheduler import records
from stoker.scheduler.names import name_id
from stoker.scheduler.reasons import Reason

if TYPE_CHECKING:
    from stoker.mesh.replica.state import ReplicaState

MAY_HAVE_RUN = (
    "the cluster was restored from an older backup, and this job may have run since that was taken"
)
LEFT_BEHIND = "the cluster was restored from a backup, without its former nodes"


def plain(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without places in the log, which another log does not have."""
    return msgspec.structs.replace(snapshot, seq=0, snapshot_seq=0)


def of(snapshot: Snapshot, backup_ns: int) -> Origin:
    """Return the origin of a cluster that begins behind this plain snapshot."""
    state = snapshots.encode(snapshot).digest
    place = snapshot.term, snapshot.index, snapshot.hash
    return Origin(snapshot.cluster, *place, state, backup_ns)


def check(genesis: Genesis, snapshot: Snapshot) -> None:
    """Raise Corrupt unless this is a snapshot of the genesis' cluster, or the one of its origin."""
    if snapshot.config.genesis == founding.digest(genesis):
        return
    begins = genesis.origin
    if begins is not None:
        former = msgspec.structs.replace(plain(snapshot), cluster=begins.cluster)
        if of(former, begins.backup_ns) == begins and snapshot.config.level == genesis.level:
            return
    raise Corrupt("the snapshot follows from another genesis than that of this cluster")


def first_config(genesis: Genesis, before: ClusterConfig | None, now_ns: int) -> ClusterConfig:
    """Return the configuration behind a genesis; limits of a state with an origin stay."""
    made = founding.first_config(genesis)
    if genesis.origin is None:
        return made
    if before is None:
        raise Corrupt("a restored cluster begins with the state of its backup")
    return msgspec.structs.replace(made, limits=before.limits, restored_ns=now_ns)


def consequences(
    genesis: Genesis, state: ReplicaState, entry: Entry
) -> tuple[bytes, tuple[Blob, ...]]:
    """Return the commands and blobs of the entry with a genesis, and those that follow from its
    origin.

    They follow from the state, so the entry need not have them: there may be more than fit.
    """
    if genesis.origin is None:
        return entry.commands, entry.blobs
    before = sum(1 for _ in records.unpack_commands(entry.commands))
    jobs = [*_may_have_run(state)]
    cancels: list[records.Request] = [records.Cancel(job) for job in jobs]
    told: list[Blob] = [CancelBlob(place, MAY_HAVE_RUN) for place, _ in enumerate(jobs, before)]
    told += [
        ArrayCancelBlob(array.first, array.first, array.last, MAY_HAVE_RUN)
        for array in state.book.arrays.ahead()
        if not array.spec.may_run_again
    ]
    nodes = sorted(state.book.nodes)
    lost: list[records.Request] = [
        records.NodeDown(name_id(node), evict=True, remove=True, reason=Reason.NODE_EVICTED)
        for node in nodes
    ]
    left = [_left_behind(node, state) for node in nodes]
    commands = b"".join(records.in_term(each, entry.term) for each in (*cancels, *lost))
    return entry.commands + commands, (*entry.blobs, *told, *left)


def _may_have_run(state: ReplicaState) -> list[int]:
    """Return the jobs that waited at the backup and may run only once."""
    waiting = (job for job in state.book.live_after(0) if job.state == "pending")
    return sorted(job.job for job in waiting if not job.decoded_spec().may_run_again)


def _left_behind(node: str, state: ReplicaState) -> NodeRemovedBlob:
    report = state.book.nodes[node]
    return NodeRemovedBlob(node, report.instance, report.key, LEFT_BEHIND)
