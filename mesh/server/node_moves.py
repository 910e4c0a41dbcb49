# SPDX-License-Identifier: Apache-2.0
"""The jobs that a drain moves off its node, and those that stay there, with why.

Pure. Owns the words for the core's refusals of a move, and the most jobs that are named.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stoker.mesh.replica import moves
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.schema_cluster import StayingJob
from stoker.scheduler.reasons import Reason

STAYING_MAX: Final = 16
_WHY: Final = {
    Reason.NOT_PREEMPTIBLE: "it may not run again (--restart never)",
    Reason.NO_NODE_FITS: "no other node that takes jobs could run it",
}


class Leaving(NamedTuple):
    """The jobs of a node whose drain moves jobs: how many go, and which stay."""

    moving: int
    staying: tuple[StayingJob, ...]
    staying_more: int


def leaving(node: str, state: ReplicaState) -> Leaving | None:
    """Return which jobs leave a node and which stay; None if its drain moves none."""
    if node not in state.book.moves:
        return None
    refusals = {job: state.core.move_refusal(job) for job in moves.jobs_on(node, state)}
    staying = [StayingJob(job=job, why=_WHY[why]) for job, why in refusals.items() if why in _WHY]
    moving = len(refusals) - len(staying)
    return Leaving(moving, tuple(staying[:STAYING_MAX]), max(0, len(staying) - STAYING_MAX))
