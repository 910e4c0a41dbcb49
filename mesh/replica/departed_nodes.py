# SPDX-License-Identifier: Apache-2.0
"""The node of an earlier decision: still there, or removed, though its name may be another's now.

Pure. Owns the rule that nothing of a host is said about the jobs of one that had its name before.
"""

from __future__ import annotations

import time

from stoker.mesh.replica.state import DECISIONS_PER_ENTRY, ReplicaState
from stoker.native.errors import NotFound
from stoker.scheduler.departures import Departure
from stoker.scheduler.nouns import Decision, NodeReport


def departure(state: ReplicaState, decision: Decision) -> Departure | None:
    """Return when the node of a decision left for good; None if it is still there."""
    return state.book.departures.after(decision.node, entry_of(decision))


def entry_of(decision: Decision) -> int:
    """Return the index of the entry that made a decision."""
    return decision.id // DECISIONS_PER_ENTRY


def report_of(state: ReplicaState, decision: Decision) -> NodeReport | None:
    """Return the newest report of a decision's node; None if that node is not there now."""
    gone = departure(state, decision) is not None
    return None if gone else state.book.nodes.get(decision.node)


def words(left: Departure) -> str:
    """Return when and why a node left, as a person reads it."""
    day = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(left.at_ns // 1_000_000_000))
    return f"node {left.node} was removed from the cluster on {day}: {left.why}"


def missing(left: Departure) -> NotFound:
    """Return the answer to a question that only a removed node could answer."""
    return NotFound(words(left), hint="What its jobs wrote and traced stayed on that host")
