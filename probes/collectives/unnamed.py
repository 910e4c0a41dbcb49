# SPDX-License-Identifier: Apache-2.0
"""The reasons for which no rank of a job is named as slow: each condition of a name that does not
hold, with the figures on both sides.

Pure. The rule is `stoker.native.slow_rank`; a test holds that these conditions come to its verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from stoker.native.slow_rank import LEAST_LONGER, LEAST_LOST, LEAST_OPERATIONS
from stoker.probes.collectives.collective_rows import Collectives, CommunicatorRow, RankRow
from stoker.probes.collectives.straggler import judged

S = 1_000_000_000


def unnamed(found: Collectives) -> str:
    """Return why none of these ranks is named since they were first seen; empty if one is, or if
    nobody could wait for another."""
    if len(found.ranks) < 2:
        return ""
    ranks = {row.rank: row for row in found.ranks}
    passed_ns = max(row.until_ns - row.seen_ns for row in found.ranks)
    rows = judged(found, least=0) or found.communicators
    row = max(rows, key=lambda each: each.operations, default=None)
    if row is None:
        return "no operation of all ranks was seen"
    return "; ".join(unmet(row, ranks, passed_ns))


def unmet(found: CommunicatorRow, ranks: Mapping[int, RankRow], passed_ns: int) -> Iterator[str]:
    """Yield each condition of a name that does not hold."""
    if found.operations < LEAST_OPERATIONS:
        yield f"{found.operations} operations, {LEAST_OPERATIONS} are needed"
    times = {each.rank: own_times(ranks.get(each.rank)) for each in found.members}
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


def own_times(row: RankRow | None) -> tuple[int, int]:
    """Return the own time of a rank and that without a CPU, 0 for one of which nothing is known."""
    return (row.own_ns, row.queued_ns) if row is not None else (0, 0)
