# SPDX-License-Identifier: Apache-2.0
"""Compares signed checkpoints with a trail, entry by entry.

Owns whom a reader trusts: the schedulers of the roster at that entry, or a key that the reader has
from elsewhere and pins. A trail is its own witness for its roster; a pinned key is not.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker.mesh.identity.identity import Verifier
from stoker.mesh.log.signed_checkpoint import SignedCheckpoint
from stoker.mesh.replica.snapshots import agreement
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Corrupt


class CheckpointFindings(msgspec.Struct, frozen=True):
    """The result of a comparison of which none disagreed."""

    agree: int = 0
    """The checkpoints of trusted keys, all of which agree with the trail."""
    newest: int = 0
    """The entry of the newest of them."""
    t_ns: int = 0
    """The time of the newest of them, as its signer had it."""
    keys: tuple[str, ...] = ()
    """The public keys that signed them."""
    unknown: int = 0
    """Checkpoints of keys that are neither in the roster nor pinned; they prove nothing."""
    pinned: bool = False
    """True if a pinned key has signed some of them."""


class CheckpointChecks:
    """The checkpoints that an audit compares; `pinned` are public keys."""

    def __init__(self, found: Iterable[SignedCheckpoint], pinned: Iterable[str] = ()) -> None:
        self._pinned = frozenset(pinned)
        for key in self._pinned:
            Verifier(key)  # a key that is none is refused before anything is read
        self._waiting: dict[int, list[SignedCheckpoint]] = {}
        self._agree: list[SignedCheckpoint] = []
        self._unknown = 0
        self.add(found)

    def add(self, found: Iterable[SignedCheckpoint]) -> None:
        """Add checkpoints of entries that are still to come; Corrupt for a bad signature."""
        for each in found:
            each.check()
            self._waiting.setdefault(each.index, []).append(each)

    def take(self, state: ReplicaState) -> None:
        """Compare those of the entry that was applied last; Corrupt if one disagrees."""
        for each in self._waiting.pop(state.index, ()):
            if self._trusts(each, state):
                self._compare(each, state)
                self._agree.append(each)
            else:
                self._unknown += 1

    def _trusts(self, each: SignedCheckpoint, state: ReplicaState) -> bool:
        return each.key in self._pinned or each.key in {
            member.public_key for member in state.schedulers
        }

    def _compare(self, each: SignedCheckpoint, state: ReplicaState) -> None:
        found = (state.cluster, state.hash.hex(), state.trail.hex())
        for what, signed, made in zip(
            ("cluster", "hash", "effects"),
            (each.cluster, each.hash, each.trail),
            found,
            strict=True,
        ):
            if signed != made:
                raise _rewritten(each, what, signed, made)
        if each.state and each.state != (made := agreement(state.snapshot()).hex()):
            raise _rewritten(each, "state", each.state, made)

    def over(self, state: ReplicaState) -> CheckpointFindings:
        """Return the findings; Corrupt if a trusted checkpoint is beyond the end of the trail, or a
        pinned key has signed none."""
        for index in sorted(self._waiting):
            for each in self._waiting[index]:
                if self._trusts(each, state) and index > state.index:
                    raise Corrupt(
                        f"the trail ends at entry {state.index}, and {each.key} signed a checkpoint"
                        f" of entry {index}: the log lost its end"
                    )
                self._unknown += 1
        keys = {each.key for each in self._agree}
        for key in sorted(self._pinned - keys):
            raise Corrupt(
                f"no checkpoint of the pinned key {key} is about this trail",
                hint="Give its scheduler's archive/checkpoints with --signed",
            )
        newest = max(self._agree, key=lambda each: each.index, default=None)
        return CheckpointFindings(
            agree=len(self._agree),
            newest=newest.index if newest is not None else 0,
            t_ns=newest.t_ns if newest is not None else 0,
            keys=tuple(sorted(keys)),
            unknown=self._unknown,
            pinned=bool(self._pinned),
        )


def _rewritten(each: SignedCheckpoint, what: str, signed: str, made: str) -> Corrupt:
    return Corrupt(
        f"the {what} of entry {each.index} is {made[:16]}, and {each.key} signed {signed[:16]}:"
        " the log was rewritten"
    )
