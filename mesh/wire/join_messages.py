# SPDX-License-Identifier: Apache-2.0
"""The messages between a host that joins and the registrar: a JoinRequest and its JoinReply.

Owns the proof of a request: the join token's key and the new node's key have both signed it, so
nobody can name a key that is not theirs, and no private key travels.
"""

from __future__ import annotations

import msgspec

from stoker.mesh.identity.identity import Signs, Verifier
from stoker.mesh.wire import cluster_server
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import Record

FORMAT = 2
REQUEST_BYTES_MAX = 4096
REPLY_BYTES_MAX = 16 * 1024
NONCE_BYTES = 16
_DOMAIN = b"stoker.v1.join\0"
"""A prefix that is signed with the body, so that no other signature of a key fits a request."""


class JoinRequest(Record, frozen=True):
    """A host requests to become a node."""

    format: int
    token: str
    """The public half of the join token's key."""
    name: str
    """The short name that it wants."""
    agent: str
    """The public key of the new node's agent, whose private half it keeps."""
    nonce: bytes
    """Bytes of chance, which the reply repeats."""
    server: ClusterServer | None = None
    """The server that the host becomes besides, with a token for one."""


class _Sealed(Record, frozen=True):
    body: bytes
    by_token: bytes
    by_agent: bytes


class JoinReply(Record, frozen=True):
    """The answer: the node that the host becomes, or in `refused` why it does not join."""

    format: int
    nonce: bytes
    node: str = ""
    cluster: str = ""
    schedulers: tuple[str, ...] = ()
    """The public keys of the schedulers, in the order of the roster."""
    brokers: tuple[str, ...] = ()
    """The addresses of the brokers."""
    refused: str = ""
    hint: str = ""
    certificates: tuple[str, ...] = ()
    """The certificates of the brokers, in the order of `brokers`."""
    first: ClusterServer | None = None
    """The first server, for a host that becomes one beside it."""
    wanted: int = 1
    """The number of servers of the cluster."""
    gossip: bytes = b""
    """The access to the gossip mesh, sealed to the new node's key, since other guests may hear the
    answer; empty where there is no mesh."""


def seal(request: JoinRequest, token: Signs, agent: Signs) -> bytes:
    """Return the request as it travels, signed by both keys."""
    body = msgspec.msgpack.encode(request)
    signed = _DOMAIN + body
    return msgspec.msgpack.encode(_Sealed(body, token.sign(signed), agent.sign(signed)))


def open_request(data: bytes) -> JoinRequest:
    """Return a request that the keys which it names have signed; BadRequest or Denied."""
    if len(data) > REQUEST_BYTES_MAX:
        raise BadRequest(f"a join request has {len(data)} bytes, at most {REQUEST_BYTES_MAX}")
    try:
        sealed = msgspec.msgpack.decode(data, type=_Sealed)
        request = msgspec.msgpack.decode(sealed.body, type=JoinRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadRequest("this is not a join request") from None
    if request.format != FORMAT or len(request.nonce) != NONCE_BYTES:
        raise BadRequest(
            f"a join request of format {request.format}, this cluster reads {FORMAT}",
            hint="Use the stoker that the cluster uses",
        )
    if request.server is not None:
        cluster_server.check(request.server)
    signed = _DOMAIN + sealed.body
    for public, signature in ((request.token, sealed.by_token), (request.agent, sealed.by_agent)):
        if not Verifier(public).verify(signed, signature):
            raise Denied("a key that the join request names has not signed it")
    return request


def open_reply(data: bytes, nonce: bytes) -> JoinReply:
    """Return the reply to the request with this nonce, or BadRequest."""
    if len(data) > REPLY_BYTES_MAX:
        raise BadRequest(f"a reply to a join request has {len(data)} bytes")
    try:
        reply = msgspec.msgpack.decode(data, type=JoinReply)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadRequest("this is not the reply to a join request") from None
    if reply.format != FORMAT or reply.nonce != nonce:
        raise BadRequest("this is the reply to another join request")
    return reply


def encode(reply: JoinReply) -> bytes:
    return msgspec.msgpack.encode(reply)
