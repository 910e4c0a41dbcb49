# SPDX-License-Identifier: Apache-2.0
"""The rank that the others wait for, from what each rank has cost the others.

Pure. Somebody always comes last, so a rank is a straggler only if most of the waiting is for it and
if that takes a share of the others' time that is worth a word.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.probes.collectives.collective_rows import Collectives, CommunicatorRow

LEAST_OPERATIONS = 10
MOST_OF = 0.5
"""The part of all waiting in a communicator that must be for one rank."""
LEAST_SHARE = 0.05
"""The part of the other ranks' time that must be lost to it."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """`share`: the part of the others' time that they waited for it; `last` of `operations`: how
    often it came last."""

    rank: int
    communicator: str
    share: float
    last: int
    operations: int

    @property
    def text(self) -> str:
        """Return one sentence."""
        lost = f"the others waited {self.share * 100:.1f} % of their time for it"
        count = f"rank {self.rank} came last in {self.last} of {self.operations} operations"
        return f"{count}: {lost}"


def straggler(now: Collectives, before: Collectives | None = None) -> Straggler | None:
    """Return the straggler since `before` (None: since the ranks were first seen), or None."""
    earlier = {row.name: row for row in before.communicators} if before is not None else {}
    found = (_in(row, earlier.get(row.name), _passed(now, before)) for row in now.communicators)
    return max((each for each in found if each is not None), key=lambda s: s.share, default=None)


def _passed(now: Collectives, before: Collectives | None) -> int:
    if before is not None:
        return now.at_ns - before.at_ns
    return max((rank.until_ns - rank.seen_ns for rank in now.ranks), default=0)


def _in(row: CommunicatorRow, before: CommunicatorRow | None, passed_ns: int) -> Straggler | None:
    if before is not None and before.operations > row.operations:
        before = None  # another communicator has its name by now
    caused = {member.rank: member.caused_ns for member in row.members}
    last = {member.rank: member.last for member in row.members}
    for member in before.members if before is not None else ():
        caused[member.rank] = caused.get(member.rank, 0) - member.caused_ns
        last[member.rank] = last.get(member.rank, 0) - member.last
    operations = row.operations - (before.operations if before is not None else 0)
    others = len(row.members) - 1
    if operations < LEAST_OPERATIONS or others < 1 or passed_ns <= 0:
        return None
    rank = max(caused, key=lambda each: (caused[each], -each))
    share = caused[rank] / (others * passed_ns)
    if caused[rank] < MOST_OF * sum(caused.values()) or share < LEAST_SHARE:
        return None
    return Straggler(rank, row.name, min(share, 1.0), last[rank], operations)
