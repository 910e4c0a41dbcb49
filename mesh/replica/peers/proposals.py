# SPDX-License-Identifier: Apache-2.0
"""The changes of the cluster itself that its leader proposes, each with the rule that lets it.

Owns which event asks for which of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.replica_peers import ReplicaPeers
from stoker.mesh.replica.peers.roster_proposals import RosterProposals
from stoker.mesh.replica.peers.upgrade_proposals import UpgradeProposals
from stoker.mesh.replica.state import ReplicaState


def handlers(
    state: ReplicaState,
    roster: Roster,
    peers: ReplicaPeers,
    appends: AppendPipeline,
    outbox: Outbox,
) -> Mapping[type, Callable[[Any, Instant], None]]:
    """Return what handles each kind of request of an administrator about the cluster."""
    chain = peers.number, state, roster, peers.pledges, peers.applicants
    rosters = RosterProposals(*chain, appends=appends, outbox=outbox)
    upgrades = UpgradeProposals(state, roster, peers.ranges, appends=appends, outbox=outbox)
    return {events.RosterChange: rosters.wanted, events.Upgrade: upgrades.wanted}
