# SPDX-License-Identifier: Apache-2.0
"""The work that gives a node up on an operator's word, and the answers to requests for it.

Owns the rule that the only node of a cluster is not given up: its jobs could run nowhere else.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.log.entry import EvictBlob
from stoker.mesh.replica import departed_nodes
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminApplied, EvictWork, Fate
from stoker.native.errors import NotFound, Refused, StokerError

NS = 1_000_000_000


class NodeEvictionWork(EvictWork):
    """The eviction of a node for which an operator waits."""

    __slots__ = ()

    def __init__(self, token: Any, blob: EvictBlob) -> None:
        super().__init__(blob)
        self.token = token

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        if fates[0].rejected is None:
            return AdminApplied(True)
        return defect(self.blob.node, state) or AdminApplied(False)


def defect(node: str, state: ReplicaState) -> StokerError | None:
    """Return why a node cannot be given up by anybody's word; None if it can, or was before."""
    nodes = state.book.nodes
    if node not in nodes:
        left = state.book.departures.newest(node)
        why = departed_nodes.words(left) if left is not None else f"there is no node {node[:80]!r}"
        return NotFound(why, hint="`stoker nodes` names them")
    if len(nodes) == 1:
        return Refused(
            f"node {node} is the only one of this cluster, so its jobs could run nowhere else",
            hint="`stoker up` on its host brings its agent back; `stoker cancel` ends jobs",
        )
    return None


def heard(node: str, silent_ns: int) -> Refused:
    """Return the refusal for a node whose agent requested a lease so long ago."""
    return Refused(
        f"node {node} is not lost: its agent was heard {silent_ns / NS:.1f} s ago",
        hint=f"`stoker drain {node}` moves its jobs; --force gives them up all the same",
    )
