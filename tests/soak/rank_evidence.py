# SPDX-License-Identifier: Apache-2.0
"""The account of a judgement of ranks that named nobody, or somebody else: each condition with
the figures on both sides.

Pure. The rule is `stoker.native.slow_rank`; a test holds that this account comes to its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import msgspec

from stoker.native.slow_rank import LEAST_LONGER, LEAST_LOST, LEAST_OPERATIONS
from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
)

S = 1_000_000_000


def account(found: Collectives) -> list[str]:
    """Return a line for each communicator, and one for what was lost."""
    passed_ns = max((rank.until_ns - rank.seen_ns for rank in found.ranks), default=0)
    ranks = {row.rank: row for row in found.ranks}
    lines = [_communicator(row, ranks, passed_ns) for row in found.communicators]
    lost = {name: count for name, count in found.loss.items() if count}
    return [*(lines or ["no communicator was seen"]), *([f"lost records: {lost}"] if lost else [])]


def unmet(found: CommunicatorRow, ranks: dict[int, RankRow], passed_ns: int) -> Iterator[str]:
    """Yield each condition of a name that does not hold, with its figures in seconds."""
    if found.operations < LEAST_OPERATIONS:
        yield f"{found.operations} operations, {LEAST_OPERATIONS} are needed"
    times = {each.rank: _times(ranks.get(each.rank)) for each in found.members}
    own = {rank: own_ns for rank, (own_ns, _) in times.items()}
    if len(own) < 2:
        yield f"{len(own)} ranks, 2 are needed"
        return
    slowest = max(own, key=lambda rank: (own[rank], -rank))
    rest = [ns for rank, ns in own.items() if rank != slowest]
    late_ns, with_cpu_ns = own[slowest] - median(rest), passed_ns - times[slowest][1]
    bounds = {
        f"{LEAST_LONGER * 100:g} % of the others' own time": LEAST_LONGER * median(rest),
        f"{LEAST_LOST * 100:g} % of its time with a CPU": LEAST_LOST * with_cpu_ns,
        "the spread of the others": max(rest) - min(rest),
        "nothing": 1,
    }
    for what, bound in bounds.items():
        if late_ns < bound:
            yield f"rank {slowest} is {late_ns / S:.3f} s behind, {what} is {bound / S:.3f} s"


def since(now: Collectives, before: Collectives) -> Collectives:
    """Return what came to the rows since `before`, as the judge of a running job looks at them."""
    was = {row.rank: row for row in before.ranks}
    ranks = tuple(
        _rank_since(row, was.get(row.rank), now.at_ns - before.at_ns) for row in now.ranks
    )
    earlier = {row.name: row for row in before.communicators}
    rows = tuple(_row_since(row, earlier.get(row.name)) for row in now.communicators)
    return Collectives(now.at_ns, ranks, rows, ())


def _rank_since(now: RankRow, before: RankRow | None, passed_ns: int) -> RankRow:
    own_ns, queued_ns = _times(before)
    return msgspec.structs.replace(
        now,
        seen_ns=0,
        until_ns=passed_ns,
        own_ns=now.own_ns - own_ns,
        queued_ns=now.queued_ns - queued_ns,
    )


def _row_since(now: CommunicatorRow, before: CommunicatorRow | None) -> CommunicatorRow:
    if before is None or before.operations > now.operations:
        return now
    was = {each.rank: each for each in before.members}
    members = tuple(
        MemberRow(
            each.rank, each.last - old.last, each.caused_ns - old.caused_ns,
            each.wait_ns - old.wait_ns,
        )
        if (old := was.get(each.rank)) is not None
        else each
        for each in now.members
    )  # fmt: skip
    operations = now.operations - before.operations
    return msgspec.structs.replace(now, operations=operations, members=members)


def _times(row: RankRow | None) -> tuple[int, int]:
    """Return the own time of a rank and that without a CPU, 0 for one of which nothing is known."""
    return (row.own_ns, row.queued_ns) if row is not None else (0, 0)


def _communicator(found: CommunicatorRow, ranks: dict[int, RankRow], passed_ns: int) -> str:
    rows = "; ".join(
        f"rank {each.rank}: own {row.own_ns / S:.3f} s, no CPU {row.queued_ns / S:.3f} s,"
        f" waited {each.wait_ns / S:.3f} s, last {each.last} times"
        for each in found.members
        if (row := ranks.get(each.rank)) is not None
    )
    missing = [str(each.rank) for each in found.members if each.rank not in ranks]
    unknown = f"; no row of ranks {', '.join(missing)}" if missing else ""
    why = "; ".join(unmet(found, ranks, passed_ns)) or "every condition holds"
    return (
        f"{found.name}: {found.operations} operations in {passed_ns / S:.3f} s"
        f"{'' if found.aligned else ', not aligned'}; {rows}{unknown}. {why}"
    )
