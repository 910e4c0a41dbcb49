# SPDX-License-Identifier: Apache-2.0
"""The work that begins an array with one record: its first job, and the numbers of all others.

Owns the rule that such an array is one entry whatever its size, so it is taken whole or not at all,
and that its key is that of its first job.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stoker.mesh.log.entry import ArrayBlob, Blob, encoded_size
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import core_request
from stoker.mesh.replica.works.submit_work import PART_JOBS, SubmitWork, mark_of
from stoker.mesh.replica.works.work import Fate
from stoker.scheduler.array_indexes import RUNS_MAX, ArrayIndexes, of_numbers
from stoker.scheduler.nouns import JobSpec, Owner
from stoker.scheduler.records import Submit, SubmitArray
from stoker.scheduler.wire_fields import Conditions

SINCE = 3
"""The first feature level with such arrays."""


class ArrayWork(SubmitWork):
    """The submit of an array whose jobs become records when their turn comes."""

    __slots__ = ("each", "indexes")

    def __init__(
        self,
        token: Any,
        owner: Owner,
        key: bytes,
        spec: JobSpec,
        indexes: ArrayIndexes,
        *,
        models: tuple[str, ...] = (),
        conditions: Conditions = (),
    ) -> None:
        self.indexes = indexes
        numbers = tuple(indexes)
        ((own, own_key),) = core_request.expand(spec, key, numbers[:1])
        own = msgspec.structs.replace(own, array_size=len(numbers))
        limit = indexes.most.to_bytes(4, "little") if indexes.most else b""
        mark = mark_of(numbers) + limit
        super().__init__(
            token, owner, own_key, own, models=models, conditions=conditions, mark=mark
        )
        first = Submit.unpack(self.requests)
        self.each = first._replace(key=b"", spec_hash=0).pack()
        size = encoded_size(self._blob(0))
        self._pack([SubmitArray(*first, behind=len(numbers) - 1)], size)

    @property
    def tasks(self) -> int:
        """The number of its jobs."""
        return self.indexes.size

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        (fate,) = fates
        if fate.command < 0:
            return []
        return [self._blob(fate.command)]

    def _blob(self, command: int) -> ArrayBlob:
        spec = msgspec.Raw(self.specs[0])
        return ArrayBlob(command, self.owner, spec, self.indexes, self.each)


def wanted(level: int, array: tuple[int, ...], indexes: ArrayIndexes) -> ArrayIndexes:
    """Return the indexes of an array that gets one record at this feature level; none for others:
    they are small, or have too many runs."""
    if level < SINCE:
        return ArrayIndexes()
    found = indexes or of_numbers(array)
    large = found.size > PART_JOBS or found.most
    return found if large and len(found.runs) <= RUNS_MAX else ArrayIndexes()
