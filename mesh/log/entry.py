# SPDX-License-Identifier: Apache-2.0
"""One entry of the replicated log: commands of the core, their blobs, and the chain.

Owns the proofs of an entry: that it is whole (CRC-32), that a scheduler wrote it (Ed25519), and
which entry it follows (blake2b-256). The log engine is trusted for none of them.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import NamedTuple

import msgspec

from stoker.mesh.identity.identity import SIGNATURE_BYTES, Checks, Signs
from stoker.mesh.log.feature_level import BUILD, FORMATS
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.native.errors import Corrupt
from stoker.scheduler.array_indexes import ArrayIndexes
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account, NodeReport, Outcome, Owner, Record

FORMAT = FORMATS[BUILD.newest].entry
_READ = frozenset(each.entry for each in FORMATS.values())
"""The formats of all levels that this build supports."""
HASH_BYTES = 32
NO_HASH = bytes(HASH_BYTES)
ENTRY_BYTES_MAX = 256 * 1024
"""The largest entry, which is the stream's max_msg_size."""
_CRC_BYTES = 4
_DOMAIN = b"stoker.v1.entry\0"


class JobBlob(Record, tag="job", frozen=True):
    """The owner of a submitted job and its encoded JobSpec, which is passed on without decoding."""

    command: int
    owner: Owner
    spec: msgspec.Raw


class ArrayBlob(Record, tag="array", frozen=True):
    """An array of which the command makes the first job; `spec` is that of this job, and `request`
    the core's submit of each one. The commands that make later ones have no blob."""

    command: int
    owner: Owner
    spec: msgspec.Raw
    indexes: ArrayIndexes
    request: bytes


class ArrayCancelBlob(Record, tag="array_cancel", frozen=True):
    """The jobs `low` to `high` of the array from job `first` on are cancelled as far as they wait
    in it, and never become jobs; the reason, and the user who asked for it."""

    first: int
    low: int
    high: int
    reason: str
    user: str = ""


class RangeEndBlob(Record, tag="range_end", frozen=True):
    """The jobs that commands of this entry tell of the end of an array which they follow as a
    whole, each with the number of that range."""

    told: tuple[tuple[int, int], ...]


class OutcomeBlob(Record, tag="outcome", frozen=True):
    """The whole outcome that a node reported; the command has the part that the core needs."""

    command: int
    outcome: Outcome


class CancelBlob(Record, tag="cancel", frozen=True):
    """The reason of a cancel, or of a Forget command, and the user who asked for it."""

    command: int
    reason: str
    user: str = ""


class NodeBlob(Record, tag="node", frozen=True):
    """A node's report, which replaces the one before."""

    report: NodeReport


class QueueBlob(Record, tag="queue", frozen=True):
    """The name of a queue that a command creates, changes or removes."""

    queue: int
    name: str


class NamesBlob(Record, tag="names", frozen=True):
    """The names of labels, taints and models in commands."""

    names: tuple[str, ...]


class DrainBlob(Record, tag="drain", frozen=True):
    """A node gets no new jobs, for this reason; an empty reason ends it."""

    node: str
    why: str


class MoveBlob(Record, tag="move", frozen=True):
    """The drain of this node moves its jobs; from feature level 3 on, behind its DrainBlob."""

    node: str
    grace_s: float | None
    """Seconds between the checkpoint signal of a job and its stop; None: as each job says."""
    by: str
    """The administrator who drains it."""


class EvictBlob(Record, tag="evict", frozen=True):
    """A node was given up: all that ran on it is lost. `instance` is as in `NodeReport`."""

    node: str
    instance: int
    why: str


class NodeRemovedBlob(Record, tag="node_removed", frozen=True):
    """A node leaves the cluster for good. `instance` and `key` are as in `NodeReport`."""

    node: str
    instance: int
    key: str
    why: str


class CordonBlob(Record, tag="cordon", frozen=True):
    """A device gets no new jobs, for this reason; an empty reason ends it."""

    node: str
    device: str
    why: str


class SnapshotBlob(Record, tag="snapshot", frozen=True):
    """A snapshot of the state is durable; among several schedulers a majority has it.

    `seq` is how far its replica had read the log, `digest` blake2b-256 of its file, and `agreed`
    the digest of the state after entry `index`, which is equal in all replicas.
    """

    seq: int
    digest: bytes
    index: int = 0
    agreed: bytes = b""


class SnapshotPointBlob(Record, tag="snapshot_point", frozen=True):
    """Every replica takes a snapshot of the state after this entry."""


class GenesisBlob(Record, tag="genesis", frozen=True):
    """The first configuration of the cluster; only the first entry of a log has one."""

    genesis: Genesis


class TermBlob(Record, tag="term", frozen=True):
    """The sealed pledges with which a leader of several schedulers begins its term."""

    pledges: tuple[bytes, ...]


class LimitsBlob(Record, tag="limits", frozen=True):
    """Other limits of the state, from this entry on."""

    limits: Limits


class AccountBlob(Record, tag="account", frozen=True):
    """A user's account, which replaces the one before; None removes the user."""

    user: str
    account: Account | None


class RosterBlob(Record, tag="roster", frozen=True):
    """The scheduler at a place of the roster, from the next entry on; VACANT if it leaves."""

    place: int
    member: RosterMember


class FeatureLevelBlob(Record, tag="feature_level", frozen=True):
    """A higher feature level, from the next entry on."""

    level: int


class AdminBlob(Record, tag="admin", frozen=True):
    """An administrator's request, which this entry carries out; the state needs nothing of it.

    `request` is its noun and verb, as `queue.set`, and `content` its JSON, cut where it is long.
    """

    user: str
    request: str
    content: str


Setting = QueueBlob | NamesBlob | DrainBlob | MoveBlob | CordonBlob | LimitsBlob | AccountBlob
Blob = (
    JobBlob
    | ArrayBlob
    | ArrayCancelBlob
    | RangeEndBlob
    | OutcomeBlob
    | CancelBlob
    | NodeBlob
    | EvictBlob
    | NodeRemovedBlob
    | SnapshotBlob
    | SnapshotPointBlob
    | GenesisBlob
    | TermBlob
    | RosterBlob
    | FeatureLevelBlob
    | AdminBlob
    | Setting
)


class Entry(Record, frozen=True):
    """One entry; its index is `prev_index` + 1, the number of entries that count up to it.

    (prev_index, prev_hash) name the entry before it; `batch` counts entries of a leader in one
    term. The index identifies an entry for ever. Its sequence in the stream is only a place to
    read it, which changes if the log loses its end and the entry is appended again.
    """

    format: int
    cluster: str
    term: int
    leader: int
    batch: int
    prev_index: int
    prev_hash: bytes
    confirmed: int
    """The index up to which its leader knew entries to be confirmed."""
    now_ns: int
    """The leader's `LogTime`, never less than that of the entry before; `apply` knows no other
    time."""
    commands: bytes
    blobs: tuple[Blob, ...] = ()


class Opened(NamedTuple):
    """An entry that is whole; the replica judges if it may be applied."""

    entry: Entry
    hash: bytes
    signature: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class _Numbered(Record, frozen=True):
    """The beginning of an entry of any format."""

    format: int


_numbered = msgspec.msgpack.Decoder(_Numbered)


class Sealed(NamedTuple):
    """The bytes of an entry in the log, and the hash that the next entry names."""

    data: bytes
    hash: bytes


def seal(entry: Entry, signer: Signs) -> Sealed:
    """Return an entry as CRC, signature and body."""
    body = _encoder.encode(entry)
    digest = hashlib.blake2b(body, digest_size=HASH_BYTES).digest()
    rest = signer.sign(_DOMAIN + digest) + body
    return Sealed(zlib.crc32(rest).to_bytes(_CRC_BYTES, "little") + rest, digest)


def unseal(seq: int, data: bytes) -> Opened:
    """Return the entry at `seq`; Corrupt if its bytes were changed."""
    rest = data[_CRC_BYTES:]
    if int.from_bytes(data[:_CRC_BYTES], "little") != zlib.crc32(rest):
        raise Corrupt(f"log entry {seq}: the checksum of its {len(data)} bytes does not match")
    body = rest[SIGNATURE_BYTES:]
    try:
        found = _numbered.decode(body).format
        if found not in _READ:
            read = ", ".join(map(str, sorted(_READ)))
            raise Corrupt(f"log entry {seq} has format {found}, this version reads {read}")
        entry = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"log entry {seq}: {error}") from None
    digest = hashlib.blake2b(body, digest_size=HASH_BYTES).digest()
    return Opened(entry, digest, rest[:SIGNATURE_BYTES])


def signed_by(opened: Opened, verifier: Checks) -> bool:
    """Return True if the owner of this key signed the entry."""
    return verifier.verify(_DOMAIN + opened.hash, opened.signature)


def signature_of(data: bytes) -> bytes:
    """Return the signature in the bytes of an entry, which are not checked."""
    return data[_CRC_BYTES : _CRC_BYTES + SIGNATURE_BYTES]


def genesis_of(entry: Entry) -> Genesis | None:
    """Return the genesis that an entry states, if it states one."""
    blobs = entry.blobs
    return blobs[0].genesis if blobs and isinstance(blobs[0], GenesisBlob) else None


def level_of(entry: Entry) -> int:
    """Return the feature level that an entry states; 0 if it states none."""
    if (genesis := genesis_of(entry)) is not None:
        return genesis.level
    return next((blob.level for blob in entry.blobs if isinstance(blob, FeatureLevelBlob)), 0)


def chained(before: bytes, data: bytes) -> bytes:
    """Return blake2b-256 of a digest followed by `data`."""
    digest = hashlib.blake2b(before, digest_size=HASH_BYTES)
    digest.update(data)
    return digest.digest()


def encoded_size(blob: Blob) -> int:
    """Return the bytes that a blob adds to an entry."""
    return len(_encoder.encode(blob))
