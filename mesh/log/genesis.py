# SPDX-License-Identifier: Apache-2.0
"""The genesis of a cluster: the configuration that the first entry of its log states.

Guarantees that one log has one genesis: a replica takes limits, schedulers, users and formats from
there and from the entries that change them, and never from its own host.
"""

from __future__ import annotations

import hashlib

import msgspec

from stoker.native.errors import BadRequest
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account

SCHEDULERS_MAX = 7
GENESIS_BYTES_MAX = 128 * 1024
"""The largest genesis, half of an entry."""


class RosterMember(msgspec.Struct, frozen=True):
    """One scheduler: its number in entries (`Entry.leader`) and its public nkey."""

    number: int
    public_key: str


VACANT = RosterMember(0, "")
"""A place of the roster whose scheduler has left; the others keep theirs."""


FIRST_LEVEL = 1
"""The feature level of clusters whose genesis names none."""
REPLICATED_SINCE = 4
"""The feature level from which on a genesis may say that its cluster is replicated."""


class Formats(msgspec.Struct, frozen=True):
    """Formats of the records that replicas exchange, as the feature level of a cluster has them."""

    entry: int
    snapshot: int
    command: int


class Origin(msgspec.Struct, frozen=True):
    """The place in the log of another cluster behind which a restored one begins.

    `hash` is that of entry `index`, and `state` the digest of the state behind it, which
    `origin.py` makes. `backup_ns` is when the backup was taken (CLOCK_REALTIME).
    """

    cluster: str
    term: int
    index: int
    hash: bytes
    state: bytes
    backup_ns: int


class Genesis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first configuration of a cluster. One that was restored from a backup has an `origin`."""

    cluster: str
    limits: Limits
    schedulers: tuple[RosterMember, ...]
    formats: Formats
    accounts: dict[str, Account]
    origin: Origin | None = None
    level: int = FIRST_LEVEL
    """The feature level with which the cluster begins."""
    replicated: bool = False
    """True if one scheduler, too, works by the rules of several, so that others may enter beside
    it, and leave it alone again."""

    @property
    def alone(self) -> bool:
        """True if its one scheduler leads by rules of its own, for ever."""
        return len(self.schedulers) == 1 and not self.replicated


class ClusterConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """The configuration after an entry: the genesis, and what entries have changed since."""

    genesis: bytes
    """The digest of the genesis."""
    limits: Limits
    schedulers: tuple[RosterMember, ...]
    formats: Formats
    accounts: dict[str, Account]
    restored_ns: int = 0
    """The time of the entry with which a restored cluster began; 0 for any other cluster."""
    level: int = FIRST_LEVEL
    """The feature level, by which all replicas judge."""
    replicated: bool = False
    """True if the genesis says that one scheduler, too, works by the rules of several."""


_encoder = msgspec.msgpack.Encoder(order="deterministic")


def member_number(public_key: str) -> int:
    """Return the number of a scheduler, which its public nkey determines."""
    return int.from_bytes(public_key.encode()[1:9], "little")


def digest(genesis: Genesis) -> bytes:
    """Return blake2b-256 of a genesis."""
    data = _encoder.encode(genesis)
    return hashlib.blake2b(data, digest_size=32, person=b"stoker genesis").digest()


def size(genesis: Genesis) -> int:
    """Return the bytes that a genesis takes in its entry."""
    return len(_encoder.encode(genesis))


def check(genesis: Genesis) -> None:
    """Raise BadRequest if the genesis cannot found a cluster."""
    numbers = [member.number for member in genesis.schedulers]
    if not 1 <= len(numbers) <= SCHEDULERS_MAX or len(set(numbers)) != len(numbers):
        raise BadRequest(f"a genesis names 1 to {SCHEDULERS_MAX} different schedulers")
    if genesis.replicated and genesis.level < REPLICATED_SINCE:
        raise BadRequest(f"one scheduler is a replica from feature level {REPLICATED_SINCE} on")
    if min(genesis.limits) < 1:
        raise BadRequest(f"a limit is 0: {genesis.limits}")
    if size(genesis) > GENESIS_BYTES_MAX:
        raise BadRequest(f"the genesis has {size(genesis)} bytes, at most {GENESIS_BYTES_MAX}")


def first_config(genesis: Genesis) -> ClusterConfig:
    """Return the configuration that this genesis begins."""
    return ClusterConfig(
        digest(genesis),
        genesis.limits,
        genesis.schedulers,
        genesis.formats,
        genesis.accounts,
        level=genesis.level,
        replicated=genesis.replicated,
    )
