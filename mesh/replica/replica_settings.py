# SPDX-License-Identifier: Apache-2.0
"""The settings of one replica of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.replica.snapshot_plan import SNAPSHOT_ENTRIES
from stoker.scheduler.core import Limits

Role = Literal["reading", "electing", "leading", "waiting", "halted"]


@dataclass(frozen=True)
class ReplicaSettings:
    """The settings of one replica."""

    cluster: str
    leader: int
    """This replica's id in TERM entries."""
    limits: Limits
    log_max_bytes: int
    seed: int = 0
    snapshot_entries: int = SNAPSHOT_ENTRIES
    budgets: Budgets = field(default_factory=Budgets)
    """The limits of one user."""
    measure: bool = True
    """True to measure decision latencies; without, they are 0 and no byte depends on a clock."""
    known_tail: int = 0
    """An acknowledged entry, which the log must hold; 0 if none is known."""

    @property
    def ended_kept(self) -> int:
        """The number of ended jobs that are kept.

        It is less than the core's limit, so that the leader, which knows the jobs' users, chooses
        which to forget before the core drops the oldest.
        """
        return self.limits.finished * 2 // 3
