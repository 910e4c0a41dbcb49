# SPDX-License-Identifier: Apache-2.0
"""The fence: jobs that may run once only stay off nodes that cannot freeze them.

Pure. A node that cannot freeze what runs on it has the taint FENCE_TAINT as soon as there is
another node, which could be given its jobs. Jobs that may run again tolerate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.scheduler import records
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import JobSpec, NodeReport
from stoker.scheduler.wire_names import JOB_LABELS_MAX

if TYPE_CHECKING:
    from stoker.mesh.replica.state import ReplicaState

FENCE_TAINT = "stoker/fence=none"
FENCE_ID = name_id(FENCE_TAINT)


def taints(report: NodeReport, state: ReplicaState) -> Iterator[records.NodeLabel]:
    """Yield the changes of the taint at all nodes that follow from a node's new report."""
    yield from _changes({**state.book.nodes, report.node: report}, state)


def taints_without(gone: str, state: ReplicaState) -> Iterator[records.NodeLabel]:
    """Yield the changes of the taint at all other nodes that follow from a node's removal."""
    yield from _changes({k: v for k, v in state.book.nodes.items() if k != gone}, state)


def _changes(nodes: dict[str, NodeReport], state: ReplicaState) -> Iterator[records.NodeLabel]:
    for name, node in sorted(nodes.items()):
        wanted = bool(node.unfenced) and len(nodes) > 1
        if wanted != _is_tainted(name, state):
            yield records.NodeLabel(name_id(name), FENCE_ID, taint=wanted, clear=not wanted)


def _is_tainted(node: str, state: ReplicaState) -> bool:
    return any(each.label == FENCE_ID and each.taint for each in state.core.labels(name_id(node)))


def tolerations(spec: JobSpec) -> tuple[str, ...]:
    """Return the taints that a job tolerates; its own go first where there is no room for all."""
    tolerated = (*spec.tolerate, FENCE_TAINT) if spec.may_run_again else spec.tolerate
    return tolerated[:JOB_LABELS_MAX]
