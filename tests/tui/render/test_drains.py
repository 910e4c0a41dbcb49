# SPDX-License-Identifier: Apache-2.0
"""The sentences about the jobs of a drained node."""

from __future__ import annotations

from typing import Any

from stoker.tui.render import drains


def node(**fields: Any) -> dict[str, Any]:
    return {
        "drained": "on request", "jobs": 0, "moving": None, "staying": (), "staying_more": 0,
        **fields,
    }  # fmt: skip


def test_a_node_without_a_drain_says_nothing() -> None:
    assert list(drains.sentences(node(drained="", jobs=3))) == []


def test_a_drain_counts_what_is_left_and_what_moves() -> None:
    assert list(drains.sentences(node())) == ["no job is left"]
    assert list(drains.sentences(node(jobs=1))) == ["1 job left"]
    staying = ({"job": 12, "why": "it may not run again (--restart never)"},)
    found = node(jobs=20, moving=2, staying=staying, staying_more=17)
    assert list(drains.sentences(found)) == [
        "20 jobs left, 2 of them moving elsewhere",
        "job 12 stays: it may not run again (--restart never)",
        "17 more jobs stay",
    ]
