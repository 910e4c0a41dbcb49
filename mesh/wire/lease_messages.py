# SPDX-License-Identifier: Apache-2.0
"""The messages that renew leases: a node's LeaseRequest, and the leader's signed LeaseAnswer.

Owns their bounds: an answer renews at most GRANTS_MAX nodes, each for LEASE_MS_MAX at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.mesh.wire.command import NO_HASH, Position
from stoker.mesh.wire.term_owner import term_owner
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import Record

FORMAT = 2
LEASE_MS_MAX = 5000
"""The longest lease; jobs that must fence freeze when it ends. A scheduler that dies must restart,
read its log, take a term and answer a node within it: 1 s until the node's next request and 1.5 s
for the restart leave half of it for a slow machine."""
GRANTS_MAX = 256
REQUEST_BYTES_MAX = 512
ANSWER_BYTES_MAX = 96 * 1024
"""The largest signed answer: GRANTS_MAX grants with the longest names and the pledges."""
NONCE_BITS = 63
_U63, _U64 = 1 << 63, 1 << 64
_DOMAIN = b"stoker.v1.lease\0"
"""A prefix that is signed with the body, so that no other signature of the key fits an answer."""


class LeaseRequest(Record, frozen=True):
    """A node's request for its lease, sent about once a second and never repeated."""

    format: int
    node: str
    instance: int
    """The node in this boot, as in `NodeReport.instance`; only the one in the log is answered."""
    stamp_ns: int
    """The node's CLOCK_BOOTTIME at which the request was made; its lease is counted from here."""
    nonce: int
    """A random number, by which the node recognises the answer."""
    position: Position = Position()
    frozen: bool = False
    """True while jobs of the node are frozen."""


class LeaseGrant(Record, frozen=True):
    """The answer to one request, whose first four fields it repeats."""

    node: str
    instance: int
    stamp_ns: int
    nonce: int
    seq: int = 0
    """The log sequence of the last command for this node; a node behind it requests its state."""
    hash: bytes = NO_HASH


class LeaseAnswer(Record, tag="lease", frozen=True):
    """One signed message that renews the leases of several nodes."""

    format: int
    cluster: str
    term: int
    extend_only: bool
    """True if it lengthens leases that have not expired and gives no other."""
    lease_ms: int
    """The length of each lease, on the node's CLOCK_BOOTTIME from the stamp of its request."""
    confirmed: int
    """The index up to which the leader knows the log to be confirmed."""
    grants: tuple[LeaseGrant, ...]
    pledges: tuple[bytes, ...] = ()
    """The signed pledges of the other schedulers, which cover the grants."""


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(LeaseRequest)
_answers = msgspec.msgpack.Decoder(LeaseAnswer)


def encode_request(request: LeaseRequest) -> bytes:
    """Return the bytes of a request, which `open_request` reads."""
    return _encoder.encode(request)


def open_request(data: bytes, node: str) -> LeaseRequest:
    """Return a request of `node`; BadRequest if it is another's, too long or out of range."""
    if len(data) > REQUEST_BYTES_MAX:
        raise BadRequest(f"a lease request of {len(data)} bytes, at most {REQUEST_BYTES_MAX}")
    try:
        request = _requests.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"lease request: {error}") from None
    if request.format != FORMAT:
        raise BadRequest(f"lease request of format {request.format}, this scheduler reads {FORMAT}")
    if request.node != node:
        raise BadRequest(f"{node} requests the lease of {request.node[:80]}")
    smallest = min(request.instance, request.stamp_ns, request.nonce)
    if smallest < 0 or max(request.instance, request.stamp_ns, request.nonce) >= _U63:
        raise BadRequest(f"a lease request of {node} has a number out of range")
    return request


def seal_answer(answer: LeaseAnswer, signer: Signs) -> bytes:
    """Return the signature followed by the body."""
    body = _encoder.encode(answer)
    return signer.sign(_DOMAIN + body) + body


def open_answer(data: bytes, members: Sequence[Checks | None]) -> LeaseAnswer:
    """Return an answer that the owner of its term signed.

    `members` are the keys of the roster by position. Denied if another key signed it, BadRequest
    if it is no answer of this version.
    """
    if not SIGNATURE_BYTES < len(data) <= ANSWER_BYTES_MAX:
        raise BadRequest(f"{len(data)} bytes are not a lease answer")
    signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
    try:
        answer = _answers.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"lease answer: {error}") from None
    owner = term_owner(answer.term, members)
    if owner is None or not owner.verify(_DOMAIN + body, signature):
        raise Denied(f"the owner of term {answer.term} did not sign this")
    if answer.format != FORMAT:
        raise BadRequest(f"format {answer.format}, this agent reads {FORMAT}")
    if len(answer.grants) > GRANTS_MAX:
        raise BadRequest(f"{len(answer.grants)} grants, at most {GRANTS_MAX}")
    if not (0 < answer.lease_ms <= LEASE_MS_MAX and 0 <= answer.term < _U64):
        raise BadRequest("a lease answer has a number out of range")
    return answer
