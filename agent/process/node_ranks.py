# SPDX-License-Identifier: Apache-2.0
"""Ranks that keep others waiting, as they are judged while jobs run: each is told once in the log.

Called in the daemon's loop.
"""

from __future__ import annotations

from collections import Counter

import structlog

from stoker.agent.tracing.trace_thread import RankNotice, TraceThread

_log = structlog.get_logger("ranks")


class NodeRanks:
    """The troubled ranks of one node."""

    def __init__(self, tracer: TraceThread) -> None:
        self.counters: Counter[str] = Counter()
        tracer.ranks = self.notice

    def notice(self, notice: RankNotice) -> None:
        """Take in a rank that began or ceased to keep others waiting."""
        found = notice.found
        says = "a rank keeps others waiting" + (" no more" if found.over else "")
        self.counters["ranks_well" if found.over else f"ranks_{found.trouble.kind}"] += 1
        _log.warning(
            says,
            job=notice.starts[0].job if notice.starts else None,
            rank=found.rank,
            devices=notice.devices,
            trouble=found.trouble.kind,
            why=found.trouble.text,
        )
