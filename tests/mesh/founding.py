# SPDX-License-Identifier: Apache-2.0
"""Genesis records and founded states for tests that do not go through a log."""

from __future__ import annotations

from stoker.mesh.log import entry, feature_level
from stoker.mesh.log.feature_level import BUILD
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.mesh.log.genesis import digest as digest_of
from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account

LEVEL = BUILD.newest
FORMATS = feature_level.FORMATS[LEVEL]


def genesis_of(
    cluster: str,
    limits: Limits,
    public_key: str = "U",
    number: int = 77,
    accounts: dict[str, Account] | None = None,
    *,
    level: int = LEVEL,
) -> Genesis:
    """A genesis with one scheduler."""
    member, formats = RosterMember(number, public_key), feature_level.FORMATS[level]
    return Genesis(cluster, limits, (member,), formats, accounts or {}, level=level)


def replay(state: ReplicaState, seq: int, data: bytes) -> None:
    """Apply an entry of a log to a state that has read all before it."""
    opened = entry.unseal(seq, data)
    assert opened.entry.prev_index == state.index
    state.apply(opened.entry, opened.hash)
    state.seen = seq


def founded(cluster: str, limits: Limits) -> ReplicaState:
    """A state right after its genesis, without a log."""
    made = genesis_of(cluster, limits)
    state = ReplicaState(cluster, digest_of(made))
    state._found(made, 0)
    return state
