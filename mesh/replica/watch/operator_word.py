# SPDX-License-Identifier: Apache-2.0
"""The word of an operator about a node whose host is lost: it is evicted, or removed by force.

Pure. Owns the rule that a node whose agent is heard is not evicted by a word without force.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.mesh.log.entry import EvictBlob, NodeRemovedBlob
from stoker.mesh.replica import events
from stoker.mesh.replica.replica_settings import NEVER
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.silence import SILENT_NS
from stoker.mesh.replica.works import node_eviction
from stoker.mesh.replica.works.node_eviction import NodeEvictionWork
from stoker.mesh.replica.works.node_removal import NodeRemovalWork
from stoker.native.errors import Refused

OperatorWord = events.NodeRemoval | events.NodeEviction


def contradicted(
    word: OperatorWord, heard: Iterable[events.NodeHeard], now_ns: int
) -> Refused | None:
    """Return the refusal of a word about a node whose newest lease request is not old (times are
    CLOCK_BOOTTIME); None if it stands. A removal that waits is always by force."""
    if word.force:
        return None
    at_ns = (row.heard_ns for row in heard if row.node == word.node)
    silent_ns = now_ns - max(at_ns, default=NEVER)
    return node_eviction.heard(word.node, silent_ns) if silent_ns < SILENT_NS else None


def work_of(word: OperatorWord, state: ReplicaState) -> NodeEvictionWork | NodeRemovalWork:
    """Return what puts a word about a known node into the log."""
    known = state.book.nodes[word.node]
    if isinstance(word, events.NodeEviction):
        return NodeEvictionWork(word.token, EvictBlob(word.node, known.instance, word.why))
    blob = NodeRemovedBlob(word.node, known.instance, known.key, word.why)
    return NodeRemovalWork(word.token, blob, state, force=word.force)
