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

ASKED = 0.1
"""The part of their time that ranks wait for each other, beyond which it is said why none of them
is named."""

FIGURES = 42
"""The columns of the times and counts behind the name of a rank."""

Object = Mapping[str, Any]


def lines(trace: Object, width: int = text.PAGE) -> Iterator[str]:
    """Return the lines, none for a job without ranks."""
    found = trace.get("collectives") or {}
    ranks = sorted(found.get("ranks") or (), key=lambda rank: (-rank["caused_ns"], rank["rank"]))
    if not any(rank["calls"] for rank in ranks) and not found.get("stuck"):
        return
    operations = sum(row["operations"] for row in found["communicators"])
    title = f"ranks of {units.number(operations)} collective operations"
    names = width - FIGURES
    yield f"{text.fit(title, names)}{'waited':>10}{'':>8}{'waited for':>13}{'came last':>11}"
    for rank in ranks[:RANKS_MAX]:
        yield _rank(rank, names)
    if len(ranks) > RANKS_MAX:
        yield f"  and {len(ranks) - RANKS_MAX} more"
    for sentence in found.get("said") or ():
        yield text.wrap(f"  {text.clean(sentence)}", width, 2)
    if why := _unnamed(found, ranks):
        yield text.wrap(f"  no rank is named as slow: {text.clean(why)}", width, 2)


def _unnamed(found: Object, ranks: list[Object]) -> str:
    """Return why nobody is named, if the ranks waited long enough that somebody may ask."""
    passed = sum(rank["until_ns"] - rank["seen_ns"] for rank in ranks)
    waited = sum(rank["wait_ns"] for rank in ranks)
    return str(found.get("unnamed") or "") if waited > ASKED * passed else ""


def _rank(rank: Object, names: int) -> str:
    life = rank["until_ns"] - rank["seen_ns"]
    share = f"{rank['wait_ns'] / life * 100:.1f} %" if life > 0 else ""
    name = f"  rank {rank['rank']}" + (", ended" if rank["ended"] else "")
    waited, caused = units.duration(rank["wait_ns"]), units.duration(rank["caused_ns"])
    return f"{name:<{names}}{waited:>10}{share:>8}{caused:>13}{units.number(rank['last']):>11}"
