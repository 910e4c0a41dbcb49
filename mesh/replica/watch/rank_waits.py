# SPDX-License-Identifier: Apache-2.0
"""The waits of ranks for each other in one communicator over nodes, and which rank holds all up.

Pure. The judge of gangs relies on it. Invariant: a rank that itself waits for others in another
communicator is not the one that does not come, if at the end of that chain one waits for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stoker.scheduler.nouns import MemberSample


class Heard(NamedTuple):
    """The words of a node about a rank, when they were true, and until when it was frozen."""

    said: MemberSample
    node: str
    at_ns: int
    frozen_ns: int = 0


Members = dict[int, Heard]
"""The ranks of one communicator by their numbers."""


class Stuck(NamedTuple):
    """Ranks that wait in an operation, and since when; those that are missing in it."""

    waits: Mapping[int, int]
    missing: tuple[int, ...]
    number: int
    """The number of the operation; 0: calls were not counted from the beginning."""
    longest_ns: int
    """The longest time of one, by its own node's words."""

    @property
    def since_ns(self) -> int:
        """Return when the first of them began to wait."""
        return min(self.waits.values())


def stuck_of(members: Members) -> Stuck:
    """Return who waits for whom in the newest operation."""
    waits = {
        rank: heard.at_ns - heard.said.waits_ns
        for rank, heard in members.items()
        if heard.said.waits_ns is not None
    }
    counted = all(heard.said.from_start for heard in members.values())
    newest = max((members[rank].said.entered for rank in waits), default=0)
    if counted:
        waits = {rank: ns for rank, ns in waits.items() if members[rank].said.entered == newest}
    missing = tuple(
        rank
        for rank, heard in sorted(members.items())
        if (heard.said.entered < newest if counted else heard.said.waits_ns is None)
    )
    longest_ns = max((members[rank].said.waits_ns or 0 for rank in waits), default=0)
    return Stuck(waits, missing, newest if counted else 0, longest_ns)


def held_ranks(stuck: Iterable[Stuck]) -> set[int]:
    """Return the ranks that wait, if only by others that wait, for one that waits for nobody."""
    waited_for: dict[int, set[int]] = {}
    waiting: set[int] = set()
    for each in stuck:
        waiting |= each.waits.keys()
        for rank in each.missing:
            waited_for.setdefault(rank, set()).update(each.waits)
    held: set[int] = set()
    causes = [rank for rank in waited_for if rank not in waiting]
    while causes:
        new = waited_for.get(causes.pop(), set()) - held
        held |= new
        causes += new
    return held
