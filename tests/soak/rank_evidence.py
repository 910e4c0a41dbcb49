# SPDX-License-Identifier: Apache-2.0
"""The account of a judgement of ranks that named nobody, or somebody else: what was seen of each
rank, and each condition that did not hold.

Pure.
"""

from __future__ import annotations

import msgspec

from stoker.probes.collectives.collective_rows import (
    Collectives,
    CommunicatorRow,
    MemberRow,
    RankRow,
)
from stoker.probes.collectives.unnamed import own_times, unmet

S = 1_000_000_000


def account(found: Collectives) -> list[str]:
    """Return a line for each communicator, and one for what was lost."""
    passed_ns = max((rank.until_ns - rank.seen_ns for rank in found.ranks), default=0)
    ranks = {row.rank: row for row in found.ranks}
    lines = [_communicator(row, ranks, passed_ns) for row in found.communicators]
    lost = {name: count for name, count in found.loss.items() if count}
    return [*(lines or ["no communicator was seen"]), *([f"lost records: {lost}"] if lost else [])]


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
    own_ns, queued_ns = own_times(before)
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
