# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster backup --survivor`: what one server holds of a cluster that lost its majority.

It reads this host's files alone, whether or not its processes run. Owns three rules: nothing is
taken while enough servers answer to decide, every entry in the backup was judged as replicas judge
it, and the server is retired before the file is there.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import NamedTuple

from stoker.agent.join import cluster_backup, cluster_restore
from stoker.agent.state import retirement, state_folder
from stoker.agent.state.retirement import Retirement
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise.file_backup import FileBackup
from stoker.mesh.audit.trail import Trail
from stoker.mesh.log import held_entries, roster_change
from stoker.mesh.log.held_entries import Entries, Rank
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.replica import backup_file
from stoker.mesh.replica.backup_file import Backup
from stoker.native.errors import Corrupt, Refused


class Survived(NamedTuple):
    """A survivor's backup, and what its owner must know of it."""

    backup: Backup
    time_ns: int
    """The time of the last entry in it, by the clock of the leader of then."""
    lost: tuple[str, ...]
    """The servers that do not answer."""
    others: tuple[str, ...]
    """Other survivors, which may hold more; they are too few to decide."""
    left_out: str
    """The reason why the next entry that is here does not count; empty if there is none."""
    forgot: bool
    """True if this server once held more than it has now."""


class _Followed(NamedTuple):
    """The trail of what is held here."""

    trail: Trail
    left_out: str
    floor: Rank


@state_folder.disk_errors()
def take(where: StateFolder, to: Path) -> Survived:
    """Write what this server holds into a new file, retire the server, and return the backup."""
    cluster = cluster_backup.server_of(where, to)
    if not cluster.several:
        raise Refused(
            f"{cluster.node} is the only server of its cluster: no other one can be lost",
            hint="`stoker cluster backup` without --survivor takes its state while it runs",
        )
    trail, left_out, floor = _followed(where, cluster)
    state = trail.state
    if state is None or not state.is_founded:
        raise Refused(f"server {cluster.node} holds no entry of its cluster: it knows no jobs")
    lost, others = check_majority(where, cluster, trail)
    made = cluster_backup.of(where, cluster, trail)
    _write(where, to, made, state.index)
    forgot = floor > (state.term, state.index)
    return Survived(made, state.time_ns, lost, others, left_out, forgot)


def check_majority(
    where: StateFolder, cluster: ClusterFile, trail: Trail
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the other servers that are silent and those that answer; Refused if these and this one
    are enough to decide by the roster at the end of the trail."""
    assert trail.state is not None
    members = {each.public_key for each in roster_change.present(trail.state.schedulers)}
    found = zip(cluster.servers, cluster_backup.brokers(where, cluster), strict=True)
    voters = [each for each in found if each[0].scheduler in members]
    others = [each for each in voters if each[0].node != cluster.node]
    there = tuple(server.node for server, broker in others if cluster_restore.answers(broker))
    count = len(there) + len(voters) - len(others)
    if count > len(voters) // 2:
        raise Refused(
            f"{' and '.join(there)} {'answers' if len(there) == 1 else 'answer'}: with"
            f" {cluster.node} that is a majority of {len(voters)} servers, so the cluster is not"
            " lost",
            hint="Start all that is left, and take `stoker cluster backup` without --survivor;"
            " `stoker cluster replace` gives a lost server another host. A server that is no good"
            " any more must be ended first, by `stoker down` there",
        )
    return tuple(each.node for each, _ in others if each.node not in there), there


def _followed(where: StateFolder, cluster: ClusterFile) -> _Followed:
    """Return the trail of the newest snapshot and all that is held behind it.

    The held entries are read first: a snapshot that is saved meanwhile has the others.
    """
    word = held_entries.read(where.scheduler)
    archived = LogArchive(where.scheduler / "archive").entries
    trail = cluster_backup.begun(where, cluster)
    found = tuple(chain(archived(trail.index), word.entries))
    count, why = _follow(trail, found)
    if why:  # the entry may have been applied in part
        trail = cluster_backup.begun(where, cluster)
        _follow(trail, found[:count])
    return _Followed(trail, why, word.floor)


def _follow(trail: Trail, found: Entries) -> tuple[int, str]:
    """Take entries behind a trail; return how many were good, and what is wrong with the next."""
    for count, (place, data) in enumerate(found):
        if place <= trail.index:
            continue
        try:
            if trail.take(place, data) is None:
                return count, f"entry {place} does not count: {', '.join(trail.passed)}"
        except Corrupt as error:
            return count, error.message
    return len(found), ""


def _write(where: StateFolder, to: Path, made: Backup, entry: int) -> None:
    """Retire this server and write the file; without the file it is as it was."""
    before = FileBackup.of(where.root / retirement.FILE)
    retirement.retire(where, Retirement(made.made_ns, str(to.absolute()), entry))
    try:
        backup_file.write(to, made)
    except BaseException:
        before.put_back()
        raise
