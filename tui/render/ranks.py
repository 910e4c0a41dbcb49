# SPDX-License-Identifier: Apache-2.0
"""The ranks of a job in its report: what does not go on, who came last, who waited how long.

Pure: the object `collectives` of a trace in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stoker.tui.render import text, units

RANKS_MAX = 12
"""The most ranks with a line; those that others waited for longest come first."""

Object = Mapping[str, Any]


def lines(trace: Object) -> Iterator[str]:
    """Return the lines, none for a job without ranks."""
    found = trace.get("collectives") or {}
    ranks = sorted(found.get("ranks") or (), key=lambda rank: (-rank["caused_ns"], rank["rank"]))
    if not any(rank["calls"] for rank in ranks) and not found.get("stuck"):
        return
    operations = sum(row["operations"] for row in found["communicators"])
    title = f"ranks of {units.number(operations)} collective operations"
    yield f"{title:<44}{'waited':>12}{'':>10}{'waited for':>16}{'came last':>16}"
    for rank in ranks[:RANKS_MAX]:
        yield _rank(rank)
    if len(ranks) > RANKS_MAX:
        yield f"  and {len(ranks) - RANKS_MAX} more"
    for sentence in found.get("said") or ():
        yield text.wrap(f"  {text.clean(sentence)}", 100, 2)


def _rank(rank: Object) -> str:
    life = rank["until_ns"] - rank["seen_ns"]
    share = f"{rank['wait_ns'] / life * 100:.1f} %" if life > 0 else ""
    name = f"  rank {rank['rank']}" + (", ended" if rank["ended"] else "")
    waited, caused = units.duration(rank["wait_ns"]), units.duration(rank["caused_ns"])
    return f"{name:<44}{waited:>12}{share:>10}{caused:>16}{units.number(rank['last']):>16}"
