# SPDX-License-Identifier: Apache-2.0
"""The nodes that were removed for good: whom a name meant before, and who comes back no more.

The job book keeps them, so all replicas know the same. Bounded: the newest KEPT are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stoker.scheduler.nouns import NodeReport

KEPT = 1024
NONE = (0, 0)
"""The mark of no departures."""


class Departure(msgspec.Struct, array_like=True, frozen=True):
    """One node that was removed; another host may have its name since."""

    node: str
    key: str
    """The public key of its agent; empty if it never told."""
    instance: int
    """Its number in the boot in which it was removed, as in `NodeReport`."""
    index: int
    """The log entry that removed it."""
    at_ns: int
    """The time of that entry."""
    why: str


class Departures:
    """The removed nodes, the oldest first."""

    def __init__(self, rows: Iterable[Departure] = ()) -> None:
        self._rows = list(rows)

    def __iter__(self) -> Iterator[Departure]:
        return iter(self._rows)

    @property
    def mark(self) -> tuple[int, int]:
        """The number of rows and the newest one's entry, which change with every departure."""
        return (len(self._rows), self._rows[-1].index) if self._rows else NONE

    def note(self, row: Departure) -> None:
        """Keep one more; beyond KEPT the oldest is forgotten."""
        self._rows.append(row)
        del self._rows[:-KEPT]

    def after(self, node: str, index: int) -> Departure | None:
        """Return the departure of the node that had this name at a log entry; None if it is still
        there."""
        return next((row for row in self._rows if row.node == node and row.index > index), None)

    def of(self, report: NodeReport) -> Departure | None:
        """Return the departure of the node that reports itself; None for one that is not removed.

        A key is one node's for ever, and an instance until its host boots again.
        """
        for row in reversed(self._rows):
            if row.node == report.node and _is_same(row, report):
                return row
        return None

    def newest(self, node: str) -> Departure | None:
        """Return the last departure of a node of this name."""
        return next((row for row in reversed(self._rows) if row.node == node), None)


def _is_same(row: Departure, report: NodeReport) -> bool:
    return row.instance == report.instance or bool(row.key and row.key == report.key)
