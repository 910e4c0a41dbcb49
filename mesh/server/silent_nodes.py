# SPDX-License-Identifier: Apache-2.0
"""The lines of an explanation about nodes of a job that are not heard.

Pure. Owns that a job which seems to start or run for ever names the node that nobody hears.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works import reason_text
from stoker.mesh.server import cluster_views
from stoker.mesh.wire.schema_explanation import ReasonView
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import ENDED

CODE = "node_silent"


def lines(replica: Replica, job: Job, now_ns: int) -> Iterator[ReasonView]:
    """Yield a line for each node of a placed job that is silent at this CLOCK_BOOTTIME."""
    if job.state in ENDED or job.decision is None:
        return
    decisions = [rank.decision for rank in job.ranks] or [job.decision]
    for node in dict.fromkeys(decision.node for decision in decisions):
        heard_ns = cluster_views.heard_ns(replica, node)
        if now_ns - heard_ns >= cluster_views.SILENT_NS:
            yield ReasonView(code=CODE, text=_words(node, now_ns, heard_ns), node=node)


def _words(node: str, now_ns: int, heard_ns: int) -> str:
    since = f"for {reason_text.span(now_ns - heard_ns)}" if heard_ns else "by this leader yet"
    return (
        f"node {node} was not heard {since}. Where its host is dead it is given up by itself, and"
        " where only its agent is away it is waited for: `stoker up` there goes on, and an"
        f" administrator's `stoker node evict {node}` gives up what it has"
    )
