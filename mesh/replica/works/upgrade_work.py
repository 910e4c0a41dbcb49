# SPDX-License-Identifier: Apache-2.0
"""The work that raises the feature level of the cluster.

Owns its answer: of two that came at once, the second one changes nothing.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.log.entry import AdminBlob, Blob, FeatureLevelBlob, encoded_size
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminApplied, Fate, Work


class UpgradeWork(Work):
    """A raise of the feature level, which every scheduler of the roster supports."""

    __slots__ = ("level", "says")

    def __init__(self, token: Any, level: int, says: AdminBlob | None = None) -> None:
        self.level = level
        self.says: tuple[Blob, ...] = (says,) if says is not None else ()
        stated = FeatureLevelBlob(level)
        super().__init__(token, (), sum(encoded_size(each) for each in (stated, *self.says)) + 16)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        return [*self.says, FeatureLevelBlob(self.level)] if state.level < self.level else []

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        return AdminApplied(True)
