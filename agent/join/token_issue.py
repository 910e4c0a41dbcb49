# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster token`: a join token is made, and what the registrar must know of it is stored.

Owns that a token's secret is returned once and stored nowhere: the public half of its key and the
end of its life stay.
"""

from __future__ import annotations

import secrets

from stoker.agent.join import growth
from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import own_folder, target_node
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import RAW_BYTES
from stoker.mesh.identity.join_token import JoinToken
from stoker.native.errors import BadRequest, Refused

LIFE_MIN_S, LIFE_MAX_S = 60, 30 * 86_400


@state_folder.disk_errors()
def issue(where: StateFolder, life_s: int, now_s: int, *, server: bool = False) -> JoinToken:
    """Make a token that is good for `life_s` seconds. `now_s`: CLOCK_REALTIME. `server`: the host
    becomes a server beside this one."""
    if not LIFE_MIN_S <= life_s <= LIFE_MAX_S:
        raise BadRequest("a join token is good for 1 minute to 30 days")
    target_node.require(where)
    cluster = state_folder.load_made_here(where)
    if not cluster.takes_hosts:
        raise Refused(
            f"no other host reaches node {cluster.node}",
            hint="`stoker cluster init --address ADDR` lets them, while the node does not run",
        )
    with state_folder.edit_lock(where):
        own_folder.make_door(where)
        if server:
            _make_room(where, cluster)
        token = JoinToken(
            cluster.address,
            cluster.port,
            certificate.fingerprint(certificate.read(where.broker_certificate)),
            identity.load(where.key(state_folder.GUEST)),
            identity.of_raw(secrets.token_bytes(RAW_BYTES)),
            server,
        )
        known = joins.load(where.joins)
        made = joins.with_token(known, token.key.public, now_s + life_s, now_s, server=server)
        joins.save(where.joins, made)
    return token


def _make_room(where: StateFolder, cluster: ClusterFile) -> None:
    """Refuse a token for a server for which the cluster has no place."""
    if not cluster.several:
        cluster = growth.prepare(where, cluster)
    if cluster.waits or growth.room(where, cluster) > 0:
        return
    if cluster.may_grow:
        raise Refused(
            f"two servers have joined {cluster.node}, which make it one of three",
            hint="`stoker up` on both; more may come once they count",
        )
    raise Refused(
        f"the cluster has {growth.SERVERS_MAX} servers, which is the most",
        hint="A host that joins as a node needs no --server",
    )
