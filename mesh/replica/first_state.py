# SPDX-License-Identifier: Apache-2.0
"""The state with which a replica, or a reader of its log, begins."""

from __future__ import annotations

import msgspec

from stoker.mesh.log import feature_level
from stoker.mesh.log.genesis import Genesis, digest
from stoker.mesh.replica import origin
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import ReplicaState


def first_state(genesis: Genesis, snapshot: Snapshot | None) -> ReplicaState:
    """Return the state of a snapshot, or an unfounded one; Corrupt for a foreign snapshot.

    A state before the genesis of a restored cluster is that of its origin.
    """
    if snapshot is None:
        return ReplicaState(genesis.cluster, digest(genesis))
    origin.check(genesis, snapshot)
    feature_level.check(snapshot.config.level, feature_level.BUILD, "the state has feature level")
    state = ReplicaState.restore(msgspec.structs.replace(snapshot, cluster=genesis.cluster))
    state.genesis = digest(genesis)
    return state
