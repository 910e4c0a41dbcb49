# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster backup`: one file with the state of a running cluster, taken on a server of it.

The newest snapshot of this host is the beginning, and the entries behind it are judged and applied
here, as an audit does. Owns that a backup is only written if that leads to the very state that the
scheduler has, so that a file which cannot be restored is noticed on the day it is made.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.audit.trail import Trail
from stoker.mesh.client.client import Client
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import certificate
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.replica import backup_file
from stoker.mesh.replica.backup_file import Backup, FormerBroker
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.native.errors import Refused, Unavailable


@state_folder.disk_errors()
def take(where: StateFolder, to: Path) -> Backup:
    """Write the backup of the cluster of this server into a new file, and return it."""
    cluster = server_of(where, to)
    genesis = state_folder.read_json(where.genesis, Genesis)
    trail = begun(where, cluster)
    try:
        asyncio.run(_follow(str(where.root), trail, _place(trail, genesis)))
    except Unavailable as error:
        raise _nobody_decides(cluster, error) from None
    made = of(where, cluster, trail)
    backup_file.write(to, made)
    return made


def server_of(where: StateFolder, to: Path) -> ClusterFile:
    """Return the record of this server; Refused where there is no log, or the file is there."""
    cluster = state_folder.load(where)
    if cluster.joined:
        raise Refused(
            f"node {cluster.node} joined the cluster at {cluster.url} and has no copy of its log",
            hint="Call this on a server: `stoker cluster` there shows the log",
        )
    if cluster.waits:
        raise Refused(f"the cluster of {cluster.node} is not founded: servers are missing")
    if to.exists():
        raise Refused(f"{to} exists already", hint="Name a new file")
    return cluster


def of(where: StateFolder, cluster: ClusterFile, trail: Trail) -> Backup:
    """Return the backup of the state to which a trail has led, with the tables of this server."""
    assert trail.state is not None
    return backup_file.of(
        cluster.node, time.time_ns(), brokers(where, cluster), trail.state.snapshot(),
        _files(where),
    )  # fmt: skip


def _nobody_decides(cluster: ClusterFile, error: Unavailable) -> Unavailable:
    """Return the refusal for a cluster whose leader does not answer."""
    if not cluster.several:
        return error
    return Unavailable(
        f"no scheduler of the {len(cluster.servers)} servers answers as the leader, and only a"
        " leader knows that a backup is whole",
        hint="Bring the other servers back; if most are lost for good, --survivor takes what this"
        " one holds",
    )


def begun(where: StateFolder, cluster: ClusterFile) -> Trail:
    """Return a trail behind the newest good snapshot of this host, or before the genesis."""
    genesis = state_folder.read_json(where.genesis, Genesis)
    trail = Trail()
    trail.begin(genesis, SnapshotFolder(where.scheduler).newest(cluster.cluster).snapshot)
    return trail


def _place(trail: Trail, genesis: Genesis) -> int:
    """Return the place of the last entry that the snapshot has: its sequence in the log of one
    scheduler alone, with others its index."""
    assert trail.state is not None
    return trail.state.seen if genesis.alone else trail.state.index


async def _follow(root: str, trail: Trail, after: int) -> None:
    """Apply all entries behind a place; Corrupt unless they lead to the scheduler's state."""
    async with Client.open(root) as client:
        async for view in client.trail(after):
            for each in view.entries:
                trail.take(each.place, each.data)
    trail.check_end(view.index, view.hash, view.trail)


def brokers(where: StateFolder, cluster: ClusterFile) -> tuple[FormerBroker, ...]:
    """Return the brokers of the cluster, of several servers in their order."""
    if cluster.several:
        return tuple(
            FormerBroker(
                each.address, each.port, certificate.fingerprint(each.certificate.encode())
            )
            for each in cluster.servers
        )
    own = certificate.fingerprint(certificate.read(where.broker_certificate))
    return (FormerBroker(cluster.address or LOOPBACK, cluster.port, own),)


def _files(where: StateFolder) -> dict[str, bytes]:
    with state_folder.edit_lock(where):
        found = {name: where.root / name for name in backup_file.FILES}
        return {name: path.read_bytes() for name, path in found.items() if path.is_file()}
