# SPDX-License-Identifier: Apache-2.0
"""The work that takes a node out of the cluster for good, and the answers to requests for it.

Owns the rule that a node leaves with its jobs only by force; otherwise it must hold none and get
none.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.log.entry import Blob, NodeRemovedBlob, encoded_size
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import fence
from stoker.mesh.replica.works.work import AdminApplied, Fate, Work
from stoker.native.errors import NotFound, Refused, StokerError
from stoker.scheduler import records
from stoker.scheduler.names import name_id
from stoker.scheduler.reasons import Reason

JOBS_NAMED = 4
"""A refusal names so many jobs."""


class NodeRemovalWork(Work):
    """The removal of a node; with `force` all that ran there is lost, as with an eviction."""

    __slots__ = ("blob", "force", "nouns_size")

    def __init__(
        self, token: Any, blob: NodeRemovedBlob, state: ReplicaState, *, force: bool
    ) -> None:
        self.blob = blob
        self.force = force
        self.nouns_size = encoded_size(blob) + 16
        super().__init__(token, self._made(state), self.nouns_size)

    def _made(self, state: ReplicaState) -> list[records.Request]:
        number = name_id(self.blob.node)
        reason = Reason.NODE_EVICTED if self.force else Reason.NONE
        left = records.NodeDown(number, evict=self.force, remove=True, reason=reason)
        return [left, *fence.taints_without(self.blob.node, state)]

    @property
    def sole(self) -> str:
        return self.blob.node

    def refresh(self, state: ReplicaState) -> None:
        self._pack(self._made(state), self.nouns_size)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [self.blob] if fates[0].command >= 0 else []

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        if fates[0].rejected is None:
            return AdminApplied(True)
        refused = defect(self.blob.node, state, force=self.force)
        return AdminApplied(False) if refused is None else refused


def defect(node: str, state: ReplicaState, *, force: bool) -> StokerError | None:
    """Return why a node cannot be removed now; None if it can, or was before."""
    info = state.core.node(name_id(node))
    if info is None:
        if state.book.departures.newest(node) is not None:
            return None
        return NotFound(f"there is no node {node[:80]!r}", hint="`stoker nodes` names them")
    if force:
        return None
    if info.tasks:
        return Refused(_busy(node, state), hint=_wait_hint(node))
    if info.up:
        return Refused(
            f"node {node} takes jobs", hint=f"drain it first: `stoker node drain {node}`"
        )
    return None


def _busy(node: str, state: ReplicaState) -> str:
    jobs = sorted({task.job for task in state.core.node_tasks(name_id(node))})
    named = ", ".join(map(str, jobs[:JOBS_NAMED])) + (", ..." if len(jobs) > JOBS_NAMED else "")
    return f"node {node} has job{'s' if len(jobs) > 1 else ''} {named}"


def _wait_hint(node: str) -> str:
    return (
        f"`stoker node drain {node}` and wait for them, or cancel them;"
        " where the host is lost, --force gives them up"
    )
