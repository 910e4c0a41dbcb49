# SPDX-License-Identifier: Apache-2.0
"""The rank whose own work takes longer than that of the others, so that they wait for it.

Pure. Somebody always comes last, and on busy CPUs a rank comes last because it had to wait for one.
So ranks are compared by their own time: what passes between their calls, without the time in which
they had no CPU. A rank is a straggler if its own time is longer than that of each other rank by
more than these differ, and if what the others lose by it is worth a word.
"""

from __future__ import annotations

import msgspec

from stoker.native.slow_rank import LEAST_OPERATIONS, slow_rank
from stoker.probes.collectives.collective_rows import (
    MESSAGES,
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
    exchange,
)


class Straggler(msgspec.Struct, frozen=True):
    """`longer`: the part by which its own time is longer than that in the middle of the others;
    `share`: the part of the others' time that they waited for it; `last` of `operations`: how often
    it came last. By messages, `share` is what the others waited for any, in so many calls at
    least."""

    rank: int
    communicator: str
    longer: float
    share: float
    last: int
    operations: int

    @property
    def text(self) -> str:
        """Return one sentence."""
        if self.communicator == MESSAGES:
            waited = f"the others waited {self.share * 100:.1f} % of their time for messages"
            work = f"its own work takes {self.longer * 100:.0f} % longer"
            return f"rank {self.rank} works longest between messages: {waited}, and {work}"
        count = f"rank {self.rank} came last in {self.last} of {self.operations} operations"
        lost = f"the others waited {self.share * 100:.1f} % of their time for it"
        return f"{count}: {lost}, and its own work takes {self.longer * 100:.0f} % longer"


def straggler(
    now: Collectives, before: Collectives | None = None, *, least: int = LEAST_OPERATIONS
) -> Straggler | None:
    """Return the straggler since `before` (None: since the ranks were first seen), or None.

    `least`: the operations without which nothing is said.
    """
    passed_ns = _passed(now, before)
    if passed_ns <= 0:
        return None
    ranks = _ranks_since(now, before)
    found = (_in(row, ranks, passed_ns) for row in judged(now, before, least=least))
    return max((each for each in found if each is not None), key=lambda s: s.longer, default=None)


def judged(
    now: Collectives, before: Collectives | None = None, *, least: int = LEAST_OPERATIONS
) -> list[CommunicatorRow]:
    """Return the communicators that have had enough operations since `before`; without one, all
    ranks as those that exchange messages, if these are enough."""
    earlier = {row.name: row for row in before.communicators} if before is not None else {}
    rows = [_since(row, earlier.get(row.name)) for row in now.communicators]
    if any(row.operations >= max(least, 1) for row in rows):
        return [row for row in rows if row.operations >= least]
    if any(len(row.members) < row.size for row in rows):
        return []  # some ranks are not seen here, or not yet
    messages = exchange(_exchanging_since(now, before))
    return [messages] if messages is not None and messages.operations >= least else []


def _exchanging_since(now: Collectives, before: Collectives | None) -> tuple[RankRow, ...]:
    """Return the ranks with the messages since `before` that they waited for."""
    earlier = {row.rank: row for row in before.ranks} if before is not None else {}
    return tuple(
        msgspec.structs.replace(
            row, messages=row.messages - was.messages, message_ns=row.message_ns - was.message_ns
        )
        if (was := earlier.get(row.rank)) is not None
        else row
        for row in now.ranks
    )


def _passed(now: Collectives, before: Collectives | None) -> int:
    if before is not None:
        return now.at_ns - before.at_ns
    return max((rank.until_ns - rank.seen_ns for rank in now.ranks), default=0)


def _ranks_since(now: Collectives, before: Collectives | None) -> dict[int, tuple[int, int]]:
    """Return by rank its own time and that without a CPU."""
    earlier = {row.rank: row for row in before.ranks} if before is not None else {}
    return {row.rank: _times(row, earlier.get(row.rank)) for row in now.ranks}


def _times(row: RankRow, before: RankRow | None) -> tuple[int, int]:
    if before is None:
        return row.own_ns, row.queued_ns
    return row.own_ns - before.own_ns, row.queued_ns - before.queued_ns


def _since(row: CommunicatorRow, before: CommunicatorRow | None) -> CommunicatorRow:
    """Return a row less what it was before; all of it if another communicator had its name."""
    if before is None or before.operations > row.operations:
        return row
    was = {member.rank: member for member in before.members}
    members = tuple(_member_since(each, was.get(each.rank)) for each in row.members)
    operations = row.operations - before.operations
    return CommunicatorRow(row.name, row.size, row.aligned, operations, 0, members)


def _member_since(row: MemberRow, before: MemberRow | None) -> MemberRow:
    if before is None:
        return row
    last, caused = row.last - before.last, row.caused_ns - before.caused_ns
    return MemberRow(row.rank, last, caused, row.wait_ns - before.wait_ns)


def _in(
    row: CommunicatorRow, ranks: dict[int, tuple[int, int]], passed_ns: int
) -> Straggler | None:
    times = {each.rank: ranks.get(each.rank, (0, 0)) for each in row.members}
    own = {rank: float(ns) for rank, (ns, _) in times.items()}
    with_cpu = {rank: float(passed_ns - queued_ns) for rank, (_, queued_ns) in times.items()}
    slow = slow_rank(own, with_cpu)
    if slow is None:
        return None
    member = next(each for each in row.members if each.rank == slow.rank)
    lost_ns = row.wait_ns - member.wait_ns if row.name == MESSAGES else member.caused_ns
    share = lost_ns / ((len(own) - 1) * passed_ns)
    return Straggler(slow.rank, row.name, slow.longer, min(share, 1.0), member.last, row.operations)
