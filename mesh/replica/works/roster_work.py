# SPDX-License-Identifier: Apache-2.0
"""The work that takes one scheduler into the roster, or out of it.

Owns its answer: one change is in an entry, so of two that came at once the second one is refused.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import AdminBlob, Blob, RosterBlob, encoded_size
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminApplied, Fate, Work
from stoker.native.errors import Refused


class RosterWork(Work):
    """A change of the roster, which the leader has found to be possible."""

    __slots__ = ("blob", "says")

    def __init__(self, token: Any, blob: RosterBlob, says: AdminBlob | None = None) -> None:
        self.blob = blob
        self.says: tuple[Blob, ...] = (says,) if says is not None else ()
        super().__init__(token, (), sum(encoded_size(each) for each in (blob, *self.says)) + 16)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        kept = roster_change.kept_min(state.config)
        why = roster_change.defect(state.schedulers, self.blob, kept)
        return [] if state.config is None or why else [*self.says, self.blob]

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        members = state.config.schedulers if state.config is not None else ()
        if (self.blob.member,) == members[self.blob.place : self.blob.place + 1]:
            return AdminApplied(True)
        return Refused("another change of the roster came first: look at it, and ask again")
