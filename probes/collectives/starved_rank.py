# SPDX-License-Identifier: Apache-2.0
"""The rank that others wait for because it gets no CPU, as by a limit of its own or a neighbour on
its CPU.

Pure. On busy CPUs all ranks lack one for a part of the time, and each loses in proportion to its
work, so that is what a rank is held against. Invariant: such a rank is told, and no rule acts on it
as on a slow one, because neither its program nor its device is the reason.
"""

from __future__ import annotations

from statistics import median

import msgspec

from stoker.native.slow_rank import LEAST_OPERATIONS
from stoker.probes.collectives.collective_rows import Collectives, CommunicatorRow, RankRow

LEAST_LOST = 0.1
"""The part of the time for which it lacks a CPU longer than the others would for its work."""
SPREADS = 2
"""That is as many times more than the others differ among each other."""
LEAST_LAST = 0.5
"""The part of the operations into which it comes last."""


class StarvedRank(msgspec.Struct, frozen=True):
    """It had no CPU for `queued_ns` of `passed_ns`, `more_ns` longer than the others would have
    been without one for the same work."""

    rank: int
    last: int
    operations: int
    queued_ns: int
    passed_ns: int
    more_ns: int

    @property
    def text(self) -> str:
        """Return one sentence."""
        count = f"rank {self.rank} came last in {self.last} of {self.operations} operations"
        none = f"it had none for {self.queued_ns / self.passed_ns * 100:.0f} % of the time"
        more = f"{self.more_ns / self.passed_ns * 100:.0f} points more than its work explains"
        return f"{count} for want of a CPU: {none}, {more}"


def starved_rank(found: Collectives) -> StarvedRank | None:
    """Return the rank for whose want of a CPU others wait, since the ranks were first seen."""
    passed_ns = max((rank.until_ns - rank.seen_ns for rank in found.ranks), default=0)
    ranks = {row.rank: row for row in found.ranks if row.own_ns > 0}
    named = (_in(row, ranks, passed_ns) for row in found.communicators)
    return max((each for each in named if each), key=lambda each: each.more_ns, default=None)


def _in(row: CommunicatorRow, ranks: dict[int, RankRow], passed_ns: int) -> StarvedRank | None:
    late = max(row.members, key=lambda each: each.last, default=None)
    among = {each.rank: ranks[each.rank] for each in row.members if each.rank in ranks}
    if late is None or late.rank not in among or len(among) < 2 or passed_ns <= 0:
        return None
    if row.operations < LEAST_OPERATIONS or late.last < LEAST_LAST * row.operations:
        return None
    one = among.pop(late.rank)
    usual = [each.queued_ns / each.own_ns * one.own_ns for each in among.values()]
    more_ns = one.queued_ns - median(usual)
    if more_ns < max(LEAST_LOST * passed_ns, SPREADS * (max(usual) - min(usual))):
        return None
    queued_ns = one.queued_ns
    return StarvedRank(one.rank, late.last, row.operations, queued_ns, passed_ns, round(more_ns))
