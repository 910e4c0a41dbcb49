# SPDX-License-Identifier: Apache-2.0
"""The schedulers that a node knows, by place in the roster, and how it comes to know others.

Pure. Owns the rule that a node believes a roster only from a scheduler that it knows: one that
signs what states it, or one that pledged to the leader who states it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import overload

from stoker.mesh.identity.identity import Checks, Verifier
from stoker.mesh.wire import peer_messages
from stoker.native.errors import StokerError

Keys = tuple[str, ...]
"""Public keys by place in the roster; empty where a scheduler has left."""


def digest(keys: Keys) -> bytes:
    """Return the digest of a roster, which a voter signs in its pledge."""
    joined = "\n".join(keys).encode()
    return hashlib.blake2b(joined, digest_size=32, person=b"stoker roster").digest()


class KnownSchedulers(Sequence["Checks | None"]):
    """The verifiers of these keys; what reads them in another thread has all old or all new ones.

    `open_key` makes the verifier of a public key.
    """

    def __init__(self, keys: Keys, open_key: Callable[[str], Checks] = Verifier) -> None:
        self.keys = keys
        self._open_key = open_key
        self._members = _opened(keys, open_key)

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, place: int) -> Checks | None: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Checks | None]: ...
    def __getitem__(self, place: int | slice) -> Checks | Sequence[Checks | None] | None:
        return self._members[place]

    def learn(self, keys: Keys) -> bool:
        """Know these from now on; False if they are known, or one of them is no key."""
        if keys == self.keys or not any(keys):
            return False
        try:
            self._members = _opened(keys, self._open_key)
        except StokerError:
            return False
        self.keys = keys
        return True

    def introduced(
        self, keys: Keys, pledges: Sequence[bytes], cluster: str, term: int
    ) -> KnownSchedulers | None:
        """Return the roster that a leader states, if a scheduler that is known here pledged to it
        for this term and has the same roster; else None."""
        meant = (cluster, term, digest(keys))
        if not any(self._vouches(sealed, meant) for sealed in pledges):
            return None
        try:
            return KnownSchedulers(keys, self._open_key)
        except StokerError:
            return None

    def _vouches(self, sealed: bytes, meant: tuple[str, int, bytes]) -> bool:
        try:
            pledge = peer_messages.read_pledge(sealed)
        except StokerError:
            return False
        if (pledge.cluster, pledge.term, pledge.roster) != meant:
            return False
        known = (each for each in self._members if each is not None)
        return any(peer_messages.is_signed(sealed, each) for each in known)


def _opened(keys: Keys, open_key: Callable[[str], Checks]) -> tuple[Checks | None, ...]:
    return tuple(open_key(key) if key else None for key in keys)
