# SPDX-License-Identifier: Apache-2.0
"""What differs between replicas of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.replica.snapshot_plan import SNAPSHOT_ENTRIES
from stoker.scheduler.core import Limits

Role = Literal["reading", "electing", "leading", "waiting", "halted"]


@dataclass(frozen=True)
class ReplicaSettings:
    """Of one replica."""

    cluster: str
    leader: int
    """This replica's id in TERM entries."""
    limits: Limits
    log_max_bytes: int
    seed: int = 0
    snapshot_entries: int = SNAPSHOT_ENTRIES
    budgets: Budgets = field(default_factory=Budgets)
    """What one user may take."""
    measure: bool = True
    """False in simulations: decision latencies are 0, so bytes do not depend on a clock."""
    known_tail: int = 0
    """An entry that was acknowledged: a log without it is cut."""

    @property
    def ended_kept(self) -> int:
        """Ended jobs that are kept: fewer than the core has room for, so that the leader, which
        knows whose they are, has time to choose before the core drops the oldest of all."""
        return self.limits.finished * 2 // 3
