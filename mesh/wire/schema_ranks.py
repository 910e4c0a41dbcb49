# SPDX-License-Identifier: Apache-2.0
"""The public views of how a job runs: what bounds it, and ranks that keep others waiting."""

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


class VerdictView(Part, frozen=True):
    """The bottleneck of a running job in the past 10 to 20 s, or in its life while that is
    shorter."""

    bottleneck: str
    """A name as in `stoker explain`: GPU-bound, copy-bound, launch-bound, host-bound, starved of
    CPU, blocked, paging, waiting for a peer, throttled, idle, not observed."""
    share: float
    """Its part of the time of the job's devices, from 0 to 1."""
    window_ns: int
    """The time that was judged."""
    tasks: int
    """The tasks that it is of: less than all where a node has told nothing of the others."""
    text: str
    """The verdict in words: `starved of CPU 41 %`."""
