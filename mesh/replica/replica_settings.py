# SPDX-License-Identifier: Apache-2.0
"""The settings of one replica of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.log.feature_level import BUILD, FeatureRange
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.mesh.log.held_entries import Rank
from stoker.scheduler.hints import ModelPower

NEVER = -(1 << 62)
"""A time long before every other one."""
SNAPSHOT_ENTRIES = 8192
"""A snapshot is taken after this many entries, which bounds how many a restart reads."""

Role = Literal[
    "following",
    "pledging",
    "reading",
    "fetching",
    "repairing",
    "electing",
    "leading",
    "waiting",
    "halted",
]
"""`following`, `pledging`, `fetching` and `repairing` exist in a cluster of several schedulers."""


@dataclass(frozen=True)
class ReplicaSettings:
    """The settings of one replica."""

    genesis: Genesis
    """The configuration that founds an empty log; any other log must state it."""
    leader: int
    """This replica's number in the roster."""
    log_max_bytes: int
    seed: int = 0
    snapshot_entries: int = SNAPSHOT_ENTRIES
    budgets: Budgets = field(default_factory=Budgets)
    """The limits of one user."""
    measure: bool = True
    """True to measure decision latencies; without, they are 0 and no byte depends on a clock."""
    roster: tuple[RosterMember, ...] = ()
    """The schedulers as this host knows them, whom a replica hears that has read nothing yet; those
    of the genesis if it names none."""
    known_tail: int = 0
    """An acknowledged entry, which the log must hold; 0 if none is known."""

    began_ns: int = NEVER
    """A moment (CLOCK_BOOTTIME) before which an earlier process may have answered nodes; NEVER if
    none can have since the machine booted."""
    promised: int = 0
    """The newest term that this replica has promised to follow, as its disk has it."""
    floor: tuple[int, int] = (0, 0)
    """The term and index of the best chain that this replica has forgotten, as its disk has it."""

    supports: FeatureRange = BUILD
    """The feature levels that this replica takes part in."""

    tells: bool = False
    """True to have each entry of this leader followed by a EntryTold, for telemetry."""

    watts: Mapping[str, ModelPower] = field(default_factory=dict)
    """The watts of device models that an operator has stated, by name."""

    @property
    def vote_floor(self) -> Rank:
        """The floor of the vote, which in a restored cluster is at least the state of its backup:
        a scheduler that has not got it yet leads nobody, and follows only one that has."""
        begins = self.genesis.origin
        return self.floor if begins is None else max(self.floor, (begins.term, begins.index))

    @property
    def cluster(self) -> str:
        """The id of the cluster."""
        return self.genesis.cluster
