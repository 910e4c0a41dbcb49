# SPDX-License-Identifier: Apache-2.0
"""The screen of `stoker cluster status`: servers, nodes, and which host may be taken down now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from stoker.tui.render import drains, text

Row = dict[str, Any]
DRAINED_MAX = 8
"""The most nodes whose reason is shown here; `stoker nodes -o wide` shows all."""
INDENT = 9
HEADS = (
    "SERVER",
    "SCHEDULER",
    "ROLE",
    "ENTRY",
    "LOG",
    "NODE",
    "JOBS",
    "DOWN?",
    "LEVELS",
    "VERSION",
)


def lines(found: Row, width: int | None = None) -> Iterator[str]:
    """Yield the screen of a cluster's status; a dash stands for what nobody told.

    Where the servers have no room in `width`, the numbers of their schedulers are left out.
    """
    rows = [HEADS, *map(_cells, found["servers"])]
    if width is not None and any(text.cells(line) > width for line in _table(rows)):
        rows = [(row[0], *row[2:]) for row in rows]
    for line in _lines(found, rows):
        whole = width is None or text.cells(line) <= width
        yield line if whole else text.wrap(line, width or 0, INDENT)


def _lines(found: Row, rows: list[tuple[str, ...]]) -> Iterator[str]:
    servers: list[Row] = found["servers"]
    yield f"cluster  {found['cluster']}"
    yield f"log      entry {found['index']}, term {found['term']}; {_leaders(found)}"
    yield f"level    {_level(found)}"
    yield f"nodes    {_nodes(found['nodes'])}"
    for node, why in sorted(found["drained"].items())[:DRAINED_MAX]:
        left = drains.left(**found["left"][node])
        yield text.clean(f"         {node} takes no new jobs: {why}; {left}")
    yield ""
    yield from _table(rows)
    yield ""
    for row in servers:
        because = f": {row['because']}" if row["because"] else ""
        yield text.clean(f"{_name(row)} {_verdict(row)}{because}")
    if any(row["may_go"] for row in servers):
        yield "One at a time: call this again before you take the next one down."
    yield from map(text.clean, _way_out(servers))


def _way_out(servers: list[Row]) -> Iterator[str]:
    """Yield what to do where too few answer to decide anything; nothing of a single server."""
    away = [_name(row) for row in servers if row["index"] is None]
    majority = len(servers) // 2 + 1
    if len(servers) < 2 or len(servers) - len(away) >= majority:
        return
    yield f"Nothing is decided until {majority} of {len(servers)} answer: start {', '.join(away)}."
    yield "If they are lost for good, call on a host that is left: stoker cluster backup --survivor"


def _leaders(found: Row) -> str:
    leads = f"{found['leader']} leads" if found["leader"] else "no scheduler leads"
    kept = found["log_leader"]
    return f"{leads}, entries go through {kept}" if kept else leads


def _level(found: Row) -> str:
    """Return the feature level, and what may become of it."""
    level, following, lags = found["level"], found["next_level"], found["lags"]
    if following is None:
        return f"{level}, the newest that these servers support"
    if not lags:
        return f"{level}; all servers support {following}: stoker cluster upgrade"
    said = "; ".join(f"{name} {why}" for name, why in sorted(lags.items()))
    return f"{level}; not yet {following}, since {said}"


def _nodes(nodes: dict[str, str] | None) -> str:
    if nodes is None:
        return "not known while no scheduler leads"
    counts = Counter(nodes.values())
    said = [f"{count} {state}" for state, count in sorted(counts.items())]
    others = sorted(name for name, state in nodes.items() if state != "ready")
    names = f" ({', '.join(others[:8])}{', ...' * (len(others) > 8)})" if others else ""
    return ", ".join(said) + names if said else "none yet"


def _verdict(row: Row) -> str:
    if row["index"] is None:
        return "is away"
    return "may go down now" if row["may_go"] else "must stay"


def _name(row: Row) -> str:
    return str(row["server"] or row["scheduler"])


def _cells(row: Row) -> tuple[str, ...]:
    follows = "halted" if row["halted"] else "follows"
    role = "away" if row["index"] is None else "leads" if row["leads"] else follows
    index = "-" if row["index"] is None else str(row["index"])
    jobs = "-" if row["jobs"] is None else str(row["jobs"])
    down = "-" if row["index"] is None else "yes" if row["may_go"] else "no"
    cells = row["server"], row["scheduler"], role, index, row["log"], row["node"], jobs, down
    return *cells, _levels(row), row["version"] or "-"


def _levels(row: Row) -> str:
    if row["newest"] is None:
        return "-"
    one = row["oldest"] == row["newest"]
    return str(row["newest"]) if one else f"{row['oldest']}-{row['newest']}"


def _table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(text.cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (text.fit(cell, width) for cell, width in zip(row, widths, strict=True))
        yield text.clean("  ".join(cells).rstrip())
