# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster restore`: a new cluster on this host, which begins with the state of a backup.

Everything that tells clusters apart is made anew: the cluster's number, all keys, the certificate,
the log. Owns two rules: nothing is made while the former cluster answers, and the new one begins no
sooner than the leases have run out that the former one may have given.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from stoker.agent.join import newcomer
from stoker.agent.state import node_name, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import other_nodes, own_folder, own_users
from stoker.mesh.broker import revoked_keys, users
from stoker.mesh.broker.users import Users
from stoker.mesh.connection.context import broker_url
from stoker.mesh.identity import certificate, sealed_json
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.replica import backup_file, new_cluster, origin
from stoker.mesh.replica.backup_file import Backup, FormerBroker
from stoker.mesh.replica.snapshots import Snapshot, SnapshotFolder
from stoker.mesh.wire.cluster_server import ADMIN
from stoker.mesh.wire.lease_messages import LEASE_MS_MAX
from stoker.native import durable_file
from stoker.native.errors import Corrupt, Refused, StokerError

PATIENCE_S = 2.0
"""The longest wait for one broker of the former cluster."""
LEASE_OVER_S = LEASE_MS_MAX / 1000 + 0.5
"""So long after the former cluster was found not to answer, no lease of it is left."""


@state_folder.disk_errors()
def restore(where: StateFolder, backup: Backup, name: str = "") -> ClusterFile:
    """Make this folder that of a cluster of one server with the state of a backup, and return its
    record; a refusal leaves nothing. `name`: that of this host's node, by default the host's."""
    newcomer.check_free(where)
    if name:
        node_name.check(name)
    check_lost(where, backup.brokers)
    silent_s = time.monotonic()
    with newcomer.beside(where) as made:
        for file, data in sorted(backup.files.items()):
            if file != backup_file.USERS:
                durable_file.replace(made.root / file, data)
        cluster = own_folder.load_or_create(made, name)
        _take_users(made, backup)
        _begin_behind(made, cluster, backup.state, backup.made_ns)
        time.sleep(max(0.0, silent_s + LEASE_OVER_S - time.monotonic()))
        newcomer.take_place(made, where)
    return cluster


def check_lost(where: StateFolder, brokers: Sequence[FormerBroker]) -> None:
    """Refuse while a broker of the former cluster answers: its nodes would run what the new one
    gives out as well."""
    here = {each.url for each in other_nodes.running(where)}
    for broker in brokers:
        if broker_url(broker.port, broker.host) in here or answers(broker):
            raise Refused(
                f"the cluster of this backup answers at {broker.host}:{broker.port}: it is not"
                " lost",
                hint="`stoker down` on each of its hosts ends it; where one server alone is lost,"
                " `stoker cluster replace` gives it another host",
            )


def answers(broker: FormerBroker) -> bool:
    """True if the broker with this certificate is there; another one at its address is none."""
    try:
        certificate.fetch(broker.host, broker.port, broker.fingerprint, PATIENCE_S)
    except StokerError:
        return False
    return True


def _take_users(made: StateFolder, backup: Backup) -> None:
    """Write the users of the backup, of whom this host's owner has keys that were made here.

    A key that was revoked since it got into the table stays out of it.
    """
    own, revoked = own_users.load(made), revoked_keys.load(made.revoked)
    try:
        former: Users = sealed_json.decode(backup.files[backup_file.USERS], Users)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the table of users in this backup: {error}") from None
    kept = {
        name: row
        for name, row in former.items()
        if row.public_key not in revoked and not name.startswith(f"{ADMIN}-")
    }
    users.save(made.users, {**kept, **_with_own_keys(own, former)})


def _with_own_keys(own: Users, former: Users) -> Users:
    """Return this host's owner as before, where the backup has them, with the keys made here."""
    return {
        name: msgspec.structs.replace(former.get(name, row), public_key=row.public_key)
        for name, row in own.items()
    }


def _begin_behind(made: StateFolder, cluster: ClusterFile, state: Snapshot, backup_ns: int) -> None:
    """Have the log begin behind the state of the backup, by the genesis that names it."""
    accounts = users.accounts(own_users.load(made))
    begins_as = state.config.limits, accounts, state.config.level
    plain = new_cluster.founding(cluster.cluster, cluster.scheduler_public_key, *begins_as)
    begins: Genesis = msgspec.structs.replace(plain, origin=origin.of(state, backup_ns))
    durable_file.replace(made.genesis, sealed_json.encode(begins))
    SnapshotFolder(made.scheduler).save(msgspec.structs.replace(state, cluster=cluster.cluster))
