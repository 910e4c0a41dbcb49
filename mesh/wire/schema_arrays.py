# SPDX-License-Identifier: Apache-2.0
"""The words of a reply about the array that a job belongs to, or that a row of a list stands for.

Values. A row stands for several jobs only where `states` says so.
"""

from __future__ import annotations

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
