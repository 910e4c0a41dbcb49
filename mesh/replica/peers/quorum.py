# SPDX-License-Identifier: Apache-2.0
"""The schedulers that count at the end of one replica's chain, and how many are a majority.

Without I/O; everything that a majority decides is counted here. Guarantees that no scheduler counts
that the newest held entry about the roster has let go, whether or not that entry is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from stoker.mesh.log import roster_change
from stoker.mesh.log.roster_change import Members


class Quorum:
    """The majority of the roster that `members` returns, which may change with every entry."""

    def __init__(self, members: Callable[[], Members]) -> None:
        self._members = members
        self._of: Members | None = None
        self._numbers: frozenset[int] = frozenset()

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the schedulers; the same object until they change."""
        members = self._members()
        if members is not self._of:
            numbers = frozenset(each.number for each in roster_change.present(members))
            self._numbers = self._numbers if numbers == self._numbers else numbers
            self._of = members
        return self._numbers

    @property
    def majority(self) -> int:
        """The number of schedulers that are a majority."""
        return len(self.numbers) // 2 + 1

    def count(self, schedulers: Iterable[int]) -> int:
        """Return how many of these count."""
        return len(self.numbers & {*schedulers})

    def has(self, schedulers: Iterable[int]) -> bool:
        """True if these are a majority."""
        return self.count(schedulers) >= self.majority

    def reached(self, values: Mapping[int, int]) -> int:
        """Return the value that a majority has reached; 0 if there is none."""
        numbers = self.numbers
        found = sorted([values[each] for each in numbers if each in values], reverse=True)
        majority = len(numbers) // 2 + 1
        return found[majority - 1] if len(found) >= majority else 0
