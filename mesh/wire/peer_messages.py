# SPDX-License-Identifier: Apache-2.0
"""The signed messages between the schedulers of a cluster, and the pledges that TERM entries carry.

Owns the proof of a sender: a message counts only if a scheduler of this cluster's roster signed it.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.native.errors import BadRequest, Denied
from stoker.scheduler.nouns import Record

FORMAT = 5
PEER_BYTES_MAX = 384 * 1024
"""The largest sealed message, below the broker's max_payload of 512 KB."""
FETCHED_BYTES_MAX = 320 * 1024
"""The most bytes of entries, or of a snapshot, in one message."""


class PledgeRequest(Record, tag="pledge_request", frozen=True):
    """A candidate or leader requests a pledge for its term.

    A leader sends one every RENEW_NS; it tells followers that it is there and what is confirmed.
    """

    term: int
    stamp_ns: int
    """The sender's CLOCK_BOOTTIME, from which it counts the pledge."""
    leads: bool = False
    """True if the sender's TERM entry is confirmed."""
    index: int = 0
    """The index up to which entries are confirmed."""
    hash: bytes = b""
    end_term: int = 0
    """The end of the sender's chain, with `end_index`: a voter that has forgotten what it held
    pledges only to one that holds as much."""
    end_index: int = 0
    level: int = 1
    """The feature level of the sender's state: a voter that does not support it cannot follow."""


class Pledge(Record, tag="pledge", frozen=True):
    """A voter lets no other scheduler lead for PLEDGE_NS from `stamp_ns` of the candidate."""

    cluster: str
    voter: int
    candidate: int
    term: int
    stamp_ns: int
    roster: bytes = b""
    """The digest of the voter's roster (`known_schedulers.digest`), for nodes that do not know the
    candidate."""


class Promised(Record, tag="promised", frozen=True):
    """The answer to a PledgeRequest: a sealed Pledge, and the end of the voter's chain.

    The voter acknowledges entries to no leader of an older term from now on.
    """

    pledge: bytes
    end_term: int
    end_index: int
    end_hash: bytes
    early: bool = False
    """True if the voter's pledge to another would not have run out yet, had that one not
    resigned."""
    oldest: int = 1
    """The oldest feature level that the voter supports, with `newest`."""
    newest: int = 1


class NotPledged(Record, tag="not_pledged", frozen=True):
    """The voter pledged to another, or to a newer term, or has only just started."""

    term: int
    """The newest term that the voter has pledged to."""
    wait_ns: int
    """The time until the voter is free."""


class Resigned(Record, tag="resigned", frozen=True):
    """The sender led or stood in this term, acts in it no more, and never will again.

    The pledges to it in this term bind nobody from now on.
    """

    term: int


class FetchRequest(Record, tag="fetch", frozen=True):
    """Requests the entries behind an index, as the other replica holds them."""

    after: int


class Fetched(Record, tag="fetched", frozen=True):
    """Entries behind `after`, in order; `more` is true if they did not all fit.

    `first` is the lowest index that the sender can send, so a request below it needs a snapshot.
    """

    after: int
    first: int
    entries: tuple[bytes, ...]
    more: bool


class Appended(Record, tag="appended", frozen=True):
    """The leader appended an entry: read the log now."""

    term: int
    index: int
    seq: int


class Held(Record, tag="held", frozen=True):
    """The sender holds the chain up to this entry durably, as it read it in the log or fetched it.

    (`applied`, `trail`) is the digest of all effects up to the last entry that it applied.
    """

    term: int
    index: int
    hash: bytes
    applied: int
    trail: bytes


class Confirmed(Record, tag="confirmed", frozen=True):
    """A majority holds the chain up to this entry."""

    term: int
    index: int
    hash: bytes


class SnapshotTaken(Record, tag="snapshot_taken", frozen=True):
    """The sender has a durable snapshot of the state after `index`, with this digest."""

    index: int
    digest: bytes


class Diverged(Record, tag="diverged", frozen=True):
    """The receiver's state after `index` differs from that of a majority."""

    index: int


class SnapshotRequest(Record, tag="snapshot_request", frozen=True):
    """Requests a part of the newest snapshot file from `offset` on."""

    index: int
    """The snapshot whose other parts the sender has; 0 for any."""
    offset: int


class SnapshotPart(Record, tag="snapshot_part", frozen=True):
    """A part of a snapshot file; `size` is that of the whole file, 0 if there is none."""

    index: int
    offset: int
    size: int
    data: bytes


class ReadIndexRequest(Record, tag="read_index_request", frozen=True):
    """Requests the position that reads which have come by now must reflect; `number` names it."""

    number: int
    term: int
    """The newest term that the sender has promised: it has followed no newer leader until now."""


class ReadIndexReply(Record, tag="read_index_reply", frozen=True):
    """The position that reads must reflect: no later leader had confirmed anything when they came.

    `why` says why there is none; it is empty otherwise.
    """

    number: int
    index: int
    why: str = ""


class RecallRequest(Record, tag="recall_request", frozen=True):
    """The sender has lost what it held and promised, and asks what the receiver knows.

    `number` names the question.
    """

    number: int


class Recalled(Record, tag="recalled", frozen=True):
    """The newest term that the sender has promised, the end of the chain that it holds, and the
    roster there, as numbers and public keys by place."""

    number: int
    promised: int
    term: int
    index: int
    roster: tuple[tuple[int, str], ...]


class WitnessRequest(Record, tag="witness_request", frozen=True):
    """The sender has been behind a gap of the log for long, and asks what the receiver has, whether
    or not it leads. `number` names the question."""

    number: int


class Witnessed(Record, tag="witnessed", frozen=True):
    """The entries that the sender can send, and its newest snapshot: `digest` is that of the state
    after `index`, which all replicas have alike. Without one, they are 0 and empty."""

    number: int
    first: int
    last: int
    index: int
    digest: bytes


Message = (
    PledgeRequest
    | Promised
    | NotPledged
    | Resigned
    | FetchRequest
    | Fetched
    | Appended
    | Held
    | Confirmed
    | SnapshotTaken
    | Diverged
    | SnapshotRequest
    | SnapshotPart
    | ReadIndexRequest
    | ReadIndexReply
    | RecallRequest
    | Recalled
    | WitnessRequest
    | Witnessed
)


class PeerEnvelope(Record, frozen=True):
    """A message with its sender and receiver, by their numbers in the roster."""

    format: int
    cluster: str
    sender: int
    receiver: int
    message: Message


_encoder = msgspec.msgpack.Encoder()
_envelopes = msgspec.msgpack.Decoder(PeerEnvelope)
_pledges = msgspec.msgpack.Decoder(Pledge)
_MESSAGE_DOMAIN = b"stoker.v1.peer\0"
_PLEDGE_DOMAIN = b"stoker.v1.pledge\0"
_Sealed = TypeVar("_Sealed")


def seal(envelope: PeerEnvelope, signer: Signs) -> bytes:
    """Return the signature followed by the body of a message."""
    return _seal(_MESSAGE_DOMAIN, _encoder.encode(envelope), signer)


def read_envelope(data: bytes) -> PeerEnvelope:
    """Return a message before the check of its signature; BadRequest if it is none."""
    return _decode(_envelopes, data)


def verified(
    envelope: PeerEnvelope, data: bytes, verifier: Checks, cluster: str, receiver: int
) -> Message:
    """Return the message of a verified sender; Denied, or BadRequest if it is for another.

    `envelope` is what `read_envelope` has read of `data`.
    """
    _check(_MESSAGE_DOMAIN, data, verifier)
    if envelope.format != FORMAT:
        is_read = f"this version reads {FORMAT}"
        raise BadRequest(f"format {envelope.format} of a peer's message, {is_read}")
    if (envelope.cluster, envelope.receiver) != (cluster, receiver):
        raise BadRequest(f"a peer's message for {envelope.cluster}/{envelope.receiver}")
    return envelope.message


def seal_pledge(pledge: Pledge, signer: Signs) -> bytes:
    """Return the signature followed by the body of a pledge."""
    return _seal(_PLEDGE_DOMAIN, _encoder.encode(pledge), signer)


def read_pledge(data: bytes) -> Pledge:
    """Return a sealed pledge without the check of its signature; BadRequest if it is none."""
    return _decode(_pledges, data)


def is_signed(data: bytes, verifier: Checks) -> bool:
    """True if the owner of this key signed a pledge."""
    return verifier.verify(_PLEDGE_DOMAIN + data[SIGNATURE_BYTES:], data[:SIGNATURE_BYTES])


def _seal(domain: bytes, body: bytes, signer: Signs) -> bytes:
    return signer.sign(domain + body) + body


def _check(domain: bytes, data: bytes, verifier: Checks) -> None:
    if not SIGNATURE_BYTES < len(data) <= PEER_BYTES_MAX + SIGNATURE_BYTES:
        raise BadRequest(f"{len(data)} bytes are not a peer's message")
    if not verifier.verify(domain + data[SIGNATURE_BYTES:], data[:SIGNATURE_BYTES]):
        raise Denied("a peer's message has a wrong signature")


def _decode(decoder: msgspec.msgpack.Decoder[_Sealed], data: bytes) -> _Sealed:
    try:
        return decoder.decode(memoryview(data)[SIGNATURE_BYTES:])
    except msgspec.MsgspecError as error:
        raise BadRequest(f"not a peer's message: {error}") from None
