# SPDX-License-Identifier: Apache-2.0
"""One entry of the replicated log: commands of the core, the nouns that belong to them, the chain.

Owns what an entry proves about itself: whole (CRC-32), written by a scheduler (Ed25519), and the
one that follows a named entry (blake2b-256). The log engine is trusted for none of these.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import NamedTuple

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.native.errors import Corrupt
from stoker.scheduler.nouns import NodeReport, Outcome, Owner, Record

FORMAT = 2
HASH_BYTES = 32
NO_HASH = bytes(HASH_BYTES)
ENTRY_BYTES_MAX = 256 * 1024
"""Largest entry, and the stream's max_msg_size."""
_CRC_BYTES = 4
_DOMAIN = b"stoker.v1.entry\0"


class JobBlob(Record, tag="job", frozen=True):
    """What a Submit means: who asked, and for what (an encoded JobSpec, passed through unread)."""

    command: int
    owner: Owner
    spec: msgspec.Raw


class OutcomeBlob(Record, tag="outcome", frozen=True):
    """What a node said, in full; the command holds what the core needs of it."""

    command: int
    outcome: Outcome


class CancelBlob(Record, tag="cancel", frozen=True):
    """Who cancelled and why; with a Forget command, who removed the job."""

    command: int
    reason: str


class NodeBlob(Record, tag="node", frozen=True):
    """A node's report; replaces the one before."""

    report: NodeReport


class QueueBlob(Record, tag="queue", frozen=True):
    """The name of a queue that a command creates, changes or removes."""

    queue: int
    name: str


class NamesBlob(Record, tag="names", frozen=True):
    """Labels, taints and models that commands speak of."""

    names: tuple[str, ...]


class DrainBlob(Record, tag="drain", frozen=True):
    """This node gets no new jobs, for this reason; an empty one ends it."""

    node: str
    why: str


class CordonBlob(Record, tag="cordon", frozen=True):
    """This device gets no new jobs, for this reason; an empty one ends it."""

    node: str
    device: str
    why: str


class SnapshotBlob(Record, tag="snapshot", frozen=True):
    """A snapshot of the state after `seq` is durable; `digest` is blake2b-256 of its file."""

    seq: int
    digest: bytes


Setting = QueueBlob | NamesBlob | DrainBlob | CordonBlob
Blob = JobBlob | OutcomeBlob | CancelBlob | NodeBlob | SnapshotBlob | Setting


class Entry(Record, frozen=True):
    """(prev_seq, prev_hash) is the entry accepted before; `batch` counts a leader's in one term."""

    format: int
    cluster: str
    term: int
    leader: int
    batch: int
    prev_seq: int
    prev_hash: bytes
    now_ns: int
    """The leader's `LogTime`: never less than that of the entry before; the only time that apply
    knows."""
    commands: bytes
    blobs: tuple[Blob, ...] = ()


class Opened(NamedTuple):
    """An entry that is whole; whether it may be applied is the replica's to say."""

    entry: Entry
    hash: bytes
    signature: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class Sealed(NamedTuple):
    """An entry as it goes into the log, and its hash for the next one."""

    data: bytes
    hash: bytes


def seal(entry: Entry, signer: Signs) -> Sealed:
    """CRC, signature, body."""
    body = _encoder.encode(entry)
    digest = hashlib.blake2b(body, digest_size=HASH_BYTES).digest()
    rest = signer.sign(_DOMAIN + digest) + body
    return Sealed(zlib.crc32(rest).to_bytes(_CRC_BYTES, "little") + rest, digest)


def unseal(seq: int, data: bytes) -> Opened:
    """The entry at `seq`; Corrupt when its bytes are not what was written."""
    rest = data[_CRC_BYTES:]
    if int.from_bytes(data[:_CRC_BYTES], "little") != zlib.crc32(rest):
        raise Corrupt(f"log entry {seq}: the checksum of its {len(data)} bytes does not match")
    body = rest[SIGNATURE_BYTES:]
    try:
        entry = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"log entry {seq}: {error}") from None
    if entry.format != FORMAT:
        raise Corrupt(f"log entry {seq} has format {entry.format}, this version reads {FORMAT}")
    digest = hashlib.blake2b(body, digest_size=HASH_BYTES).digest()
    return Opened(entry, digest, rest[:SIGNATURE_BYTES])


def signed_by(opened: Opened, verifier: Checks) -> bool:
    """Whether this scheduler wrote the entry."""
    return verifier.verify(_DOMAIN + opened.hash, opened.signature)


def encoded_size(blob: Blob) -> int:
    """Bytes a blob adds to an entry, to keep a batch within ENTRY_BYTES_MAX."""
    return len(_encoder.encode(blob))
