# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster rotate`: a node that joined gets another key while its jobs and its agent go on.

Owns the order: both keys are in force from the registrar's answer on; the new one takes its place
on disk once the broker takes it; the former is given up last, which cuts the agent's connections,
and the agent comes back with the new one. It can be repeated from wherever it was interrupted.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import nats
import nats.errors

from stoker.agent.join import newcomer
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import AGENT, ClusterFile, StateFolder
from stoker.mesh.gossip import gossip_access
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import join_messages, subjects
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native import durable_file
from stoker.native.errors import Denied, Refused, Unavailable

NEXT = "agent-next"
"""The name of the new key's file until it takes the place of the old one."""

_OF_A_SERVER = (
    "A server gets others when it leaves and joins again: `stoker cluster remove`, `stoker down`,"
    " `stoker cluster revoke`, then `join` in a new folder; the first one by a backup and a restore"
)
_OF_AN_ONLY_ONE = (
    "`stoker cluster backup` and `restore` begin a cluster with other keys and the same state"
)


@state_folder.disk_errors()
def rotate(where: StateFolder) -> tuple[str, str]:
    """Give this node another key; return the node's name and the public half of the new key."""
    cluster = state_folder.load(where)
    if not cluster.joined:
        raise Refused(
            f"{cluster.node} is {'a server' if cluster.several else 'the only server'}: this gives"
            " another key to a host that runs jobs alone",
            hint=_OF_A_SERVER if cluster.several else _OF_AN_ONLY_ONE,
        )
    with state_folder.edit_lock(where):
        own = identity.load(where.key(AGENT))
        fresh = identity.load_or_create(where.key(NEXT))
        asyncio.run(_request(cluster, where.broker_certificate, own, fresh))
        where.key(NEXT).replace(where.key(AGENT))
        durable_file.sync_folder(where.keys)
        reply = asyncio.run(_request(cluster, where.broker_certificate, fresh, fresh))
        if reply.gossip:
            gossip_files.store(where, gossip_access.unseal(reply.gossip, fresh))
    return cluster.node, fresh.public


async def _request(
    cluster: ClusterFile, pinned: Path, present: Identity, fresh: Identity
) -> JoinReply:
    """Have the registrar take a key, and wait until the broker does; Denied or Unavailable."""
    nonce = secrets.token_bytes(join_messages.NONCE_BYTES)
    names = (present.public, cluster.node, fresh.public)
    sealed = join_messages.seal(JoinRequest(join_messages.FORMAT, *names, nonce), present, fresh)
    reply = join_messages.open_reply(await _answer(cluster, pinned, present, sealed), nonce)
    if reply.refused:
        raise Denied(reply.refused, hint=reply.hint)
    await _answer(cluster, pinned, fresh, b"")
    return reply


async def _answer(cluster: ClusterFile, pinned: Path, key: Identity, data: bytes) -> bytes:
    """Return the registrar's answer to a request of a key, or nothing to no request, which only
    shows that the broker takes the key. The broker may be reloaded meanwhile."""
    why = ""
    for number in range(newcomer.TRIES):
        if number:
            await asyncio.sleep(newcomer.PAUSE_S)
        try:
            return await _once(cluster, pinned, key, data)
        except nats.errors.NoRespondersError:
            why = "the registrar does not run"
        except (nats.errors.Error, OSError, TimeoutError) as error:
            why = str(error) or repr(error)
    raise Unavailable(
        f"the cluster at {cluster.url} does not take the key {key.public}: {why}",
        hint="The node goes on with the key that it has; try again",
    )


async def _once(cluster: ClusterFile, pinned: Path, key: Identity, data: bytes) -> bytes:
    connection = await nats.connect(
        cluster.url,
        nkeys_seed_str=key.seed,
        inbox_prefix=subjects.inbox(f"agent.{cluster.node}").encode(),
        allow_reconnect=False,
        connect_timeout=int(newcomer.CONNECT_S),
        error_cb=_ignore,
        **certificate.connecting(pinned),
    )
    try:
        if not data:
            return b""
        subject = subjects.rotation(cluster.node)
        return (await connection.request(subject, data, timeout=newcomer.ANSWER_S)).data
    finally:
        await connection.close()


async def _ignore(error: Exception) -> None:
    """Ignore errors of the connection, since each shows in its request."""
