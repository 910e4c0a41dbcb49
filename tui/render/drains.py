# SPDX-License-Identifier: Apache-2.0
"""The sentences about the jobs of a drained node: how many move, and which stay and why.

Pure. Guarantees that a node without a drain has none.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.tui.render.columns import Row


def left(jobs: int, moving: int | None) -> str:
    """Return how many jobs a drained node still has, and how many of them its drain moves."""
    if not jobs:
        return "no job is left"
    count = f"{jobs} job{'s' if jobs > 1 else ''} left"
    return count if moving is None else f"{count}, {moving} of them moving elsewhere"


def sentences(node: Row) -> Iterator[str]:
    """Yield how many jobs a drained node has left, and which stay and why."""
    if not node["drained"]:
        return
    yield left(node["jobs"], node["moving"])
    for staying in node["staying"]:
        yield f"job {staying['job']} stays: {staying['why']}"
    if node["staying_more"]:
        yield f"{node['staying_more']} more jobs stay"
