# SPDX-License-Identifier: Apache-2.0
"""The public view of ranks that keep others of their job waiting."""

from __future__ import annotations

from typing import Literal

from stoker.mesh.wire.schema_cluster import Part


class RankTroubleView(Part, frozen=True):
    """A rank that keeps others waiting now: it is slow, or it does not come into an operation."""

    rank: int
    """Its number among those that were started together: with mpirun, that of MPI."""
    kind: Literal["slow", "hung"]
    text: str
    node: str
    task: int | None
    """The task of the job that it is in; null: it is not known."""
    devices: tuple[str, ...]
    """The devices of that task."""
    sim: bool
    """True if one of these is simulated."""
    longer: float | None
    """The part by which its own work takes longer than that of the others; null if it is hung."""
    since_ns: int
    """The time since which it is known to be so."""
    named_ns: int
    """The time of the judgement."""
    lag_ns: int
    """The part of the time between these two in which whoever judges had no CPU for it."""
