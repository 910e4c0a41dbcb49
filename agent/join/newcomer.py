# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster join`: this host asks the registrar of a cluster and becomes one of its nodes, or
one of its servers.

Owns that a join is whole or leaves nothing: the state folder is made beside its place and takes it
in one step, at the end. The node's private key never leaves this host.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nats
import nats.errors

from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import AGENT, ClusterFile, StateFolder
from stoker.agent.supervise import broker_port, own_folder, server_setup
from stoker.mesh.broker.broker_config import GUEST_INBOX
from stoker.mesh.connection.context import broker_url
from stoker.mesh.gossip import gossip_access
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.identity.join_token import JoinToken
from stoker.mesh.log import log_record
from stoker.mesh.wire import cluster_server, join_messages, subjects
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Denied, Refused, Unavailable

CONNECT_S = 10.0
ANSWER_S = 2.0
TRIES = 15
"""The request is sent so often, each time the same: the registrar then answers the same."""
PAUSE_S = 0.5
DENIED_MAX = 3
"""So many refusals of the guest key are believed: a broker that is reloaded may refuse a good one.
"""


@state_folder.disk_errors()
def join(where: StateFolder, token: JoinToken, name: str = "", address: str = "") -> ClusterFile:
    """Make this folder that of a node or server of the token's cluster, and return its record.
    `name`: the name that it wants, by default the host's. `address`: the one at which the others
    reach a server, by default the one from which it reaches the first."""
    check_free(where)
    if address and not token.server:
        raise BadRequest("--address is for a server, and this token makes a node of its host")
    if name:
        subjects.token(name)
    pinned, from_here = certificate.fetch(token.address, token.port, token.fingerprint, CONNECT_S)
    with beside(where) as made:
        own = identity.create(made.key(AGENT))
        durable_file.replace(made.keys / PINS, pinned)
        named = name or own_folder.node_name()
        server = _server(made, named, address or from_here) if token.server else None
        request = JoinRequest(
            join_messages.FORMAT,
            token.key.public,
            named,
            own.public,
            secrets.token_bytes(join_messages.NONCE_BYTES),
            server,
        )
        reply = asyncio.run(_request(token, request, own, made.keys / PINS))
        if server is None:
            cluster = _node(made, reply, from_here, pinned)
        else:
            cluster = _server_record(reply, server, pinned)
            log_record.begin(made.scheduler)
        if reply.gossip:
            gossip_files.store(made, gossip_access.unseal(reply.gossip, own))
        state_folder.write_cluster(made, cluster)
        state_folder.seal_format(made)
        take_place(made, where)
    return cluster


PINS = "brokers.crt"
"""The file with the certificates of the brokers: of the first one, until all are known."""


def _server(made: StateFolder, name: str, address: str) -> ClusterServer:
    """Make the keys and certificates of a server, and return it as the others shall know it."""
    if not broker_port.is_free(0, address):
        raise BadRequest(f"this host has no address {address}", hint="`ip address` lists them")
    own_folder.make_certificate(made)
    server_setup.make_route_certificate(made, address)
    port = broker_port.choose(made.instance, address)
    route_port = broker_port.choose(made.instance, address, beside=port)
    here = ClusterFile("", name, "", port, address=address)
    return server_setup.server_here(made, here, route_port)


def check_free(where: StateFolder) -> None:
    """Refuse a folder that has anything in it."""
    if state_folder.is_set_up(where):
        node = state_folder.read_json(where.cluster, ClusterFile).node
        raise Refused(
            f"{where.root} is that of node {node} already",
            hint="Name a new folder with --state; a node stays in the cluster that it is in",
        )
    if where.root.exists():
        state_folder.check_private(where.root)
        if any(where.root.iterdir()):
            raise Refused(f"{where.root} is not empty", hint=state_folder.CHOOSE)


@contextlib.contextmanager
def beside(where: StateFolder) -> Iterator[StateFolder]:
    """Make a private folder beside the place of the new one; it is gone afterwards in any case."""
    where.root.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".new-{where.root.name}-", dir=where.root.parent))
    made = StateFolder(root=folder, run=where.run)
    try:
        state_folder.prepare(made)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def take_place(made: StateFolder, where: StateFolder) -> None:
    """Give the complete folder its name, durably; rename(2) replaces an empty folder alone."""
    for folder in (made.keys, made.root):
        durable_file.sync_folder(folder)
    made.root.rename(where.root)
    durable_file.sync_folder(where.root.parent)


async def _request(
    token: JoinToken, request: JoinRequest, own: Identity, pinned: Path
) -> JoinReply:
    """Return the registrar's answer, which grants the request; else Denied or Unavailable.

    Each try has a connection of its own: the broker ends those that connect while it is reloaded.
    """
    sealed = join_messages.seal(request, token.key, own)
    why, denied = "", 0
    for number in range(TRIES):
        if number:
            await asyncio.sleep(PAUSE_S)
        try:
            reply = join_messages.open_reply(await _answer(token, sealed, pinned), request.nonce)
            break
        except nats.errors.NoRespondersError:
            why = "it does not run"
        except (nats.errors.Error, OSError, TimeoutError) as error:
            why = str(error) or repr(error)
            denied += "authorization" in why.lower()
            if denied == DENIED_MAX:
                raise Denied(
                    f"the broker at {token.address} knows no guests with this token's guest key",
                    hint="Ask for another token: `stoker cluster token` on the first node",
                ) from None
    else:
        raise Unavailable(
            f"no answer of the cluster's registrar: {why}",
            hint="Try again; if the token counts as used by then, ask for another one",
        )
    if reply.refused:
        raise Denied(reply.refused, hint=reply.hint)
    return reply


async def _answer(token: JoinToken, sealed: bytes, pinned: Path) -> bytes:
    """Return the bytes of the answer to one request, over a connection of its own."""
    connection = await nats.connect(
        broker_url(token.port, token.address),
        nkeys_seed_str=token.guest.seed,
        inbox_prefix=GUEST_INBOX.encode(),
        allow_reconnect=False,
        connect_timeout=int(CONNECT_S),
        error_cb=_ignore,
        **certificate.connecting(pinned),
    )
    try:
        return (await connection.request(subjects.JOIN_NODE, sealed, timeout=ANSWER_S)).data
    finally:
        await connection.close()


def _server_record(reply: JoinReply, server: ClusterServer, pinned: bytes) -> ClusterFile:
    """Return the record of a server that waits for the founding; BadRequest for another answer."""
    first = reply.first
    if first is None or not reply.cluster or reply.node != server.node or reply.wanted < 2:
        raise BadRequest("the registrar's answer makes no server of this host")
    cluster_server.check(first)
    if first.certificate.encode() != pinned:
        raise BadRequest("the registrar's answer names another broker than the token")
    return ClusterFile(
        reply.cluster,
        server.node,
        server.scheduler,
        server.port,
        address=server.address,
        servers=(first,),
        wanted=reply.wanted,
    )


def _node(made: StateFolder, reply: JoinReply, address: str, pinned: bytes) -> ClusterFile:
    """Return the node's record, and keep the certificates of all brokers; BadRequest for an answer
    that makes no node."""
    if not (reply.node and reply.cluster and reply.schedulers and reply.brokers):
        raise BadRequest("the registrar's answer names no node, scheduler or broker")
    subjects.token(reply.node)
    for public in reply.schedulers:
        identity.Verifier(public)
    for pem in reply.certificates:
        certificate.check_one(pem)
    if pinned not in (pem.encode() for pem in reply.certificates):
        raise BadRequest("the registrar's answer names another broker than the token")
    (made.keys / PINS).unlink()
    durable_file.replace(made.broker_certificate, "".join(reply.certificates).encode())
    return ClusterFile(
        reply.cluster,
        reply.node,
        scheduler_public_key="",
        schedulers=reply.schedulers,
        brokers=reply.brokers,
        address=address,
        joined=True,
    )


async def _ignore(error: Exception) -> None:
    """Ignore errors of the connection, since each shows in its request."""
