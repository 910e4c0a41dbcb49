# SPDX-License-Identifier: Apache-2.0
"""The words of a reply about the array that a job belongs to, follows, or has a row of a list for.

Values. A row stands for several jobs only where `states` says so.
"""

from __future__ import annotations

from typing import Literal

from stoker.mesh.wire.schema_cluster import Part


class ArrayView(Part, frozen=True):
    """The array that a job belongs to: jobs `first` to `first + size - 1`."""

    first: int
    size: int
    index: int
    """The index that this job finds in STOKER_ARRAY_INDEX."""
    states: dict[str, int] | None = None
    """The number of jobs in each state, in a row that stands for several of the array: the row is
    that of the oldest in the first of these states. Null in the row of one job."""
    waiting: int | None = None
    """The oldest of those jobs that waits, whose reason `waits` has; null if none waits."""


class FollowedView(Part, frozen=True):
    """A job that this one follows: it starts when each of them has ended as wanted."""

    job: int
    wanted: Literal["success", "end", "failure"]
    state: str
    """Empty for a job that is forgotten."""
    last: int | None = None
    """The last job of the array that is followed as a whole, of which `job` is the first; None for
    a single job."""
    left: int | None = None
    """The jobs of that array that have not ended."""
