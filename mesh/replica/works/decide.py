# SPDX-License-Identifier: Apache-2.0
"""The core's decisions on a batch of works, before any of it is in the log.

Guarantees that deciding changes nothing: an exception here has harmed no state, so the replica can
look for the work that caused it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stoker.mesh.log.entry import Blob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import request_defects
from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.work import Fate, Work, WorkBatch
from stoker.native.errors import Refused, StokerError
from stoker.scheduler.reasons import Reason


class DecidedBatch(NamedTuple):
    """The decisions of one entry."""

    batch: WorkBatch
    blobs: tuple[Blob, ...]
    back: list[Work]
    """Arrays for which this entry has no room; they come first in the next one."""
    refused: dict[Work, StokerError]
    """Arrays of which only a part could be taken, with the reason."""


def decide(state: ReplicaState, works: list[Work], now_ns: int, *, measure: bool) -> DecidedBatch:
    """Decide on these works together; an array is taken completely or not at all."""
    back: list[Work] = []
    refused: dict[Work, StokerError] = {}
    for work in works:
        work.refresh(state)
    while True:
        batch = propose(state, works, now_ns, measure=measure)
        torn = batch.torn()
        if not torn:
            return DecidedBatch(batch, batch.blobs(state), back, refused)
        for work, why in torn.items():
            if why is None and len(works) > 1:  # the batch is full
                back.append(work)
            else:
                refused[work] = why or Refused("this array does not fit into one batch")
        works = [work for work in works if work not in torn]


def propose(state: ReplicaState, works: list[Work], now_ns: int, *, measure: bool) -> WorkBatch:
    """Return the works as a batch, with the fate of each request."""
    batch = WorkBatch(works)
    proposal = state.core.propose(batch.requests, now_ns, state.index + 1, measure=measure)
    batch.decided(proposal)
    return batch


def repeats(state: ReplicaState, work: SubmitWork, now_ns: int, *, measure: bool) -> bool:
    """Return True if all jobs of this work were taken before under the same keys."""
    (fates,) = propose(state, [work], now_ns, measure=measure).fates
    return all(f.rejected is not None and f.rejected.reason == Reason.DUPLICATE for f in fates)


def answer_of(work: Work, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
    """Return the answer to a work whose entry is applied; a defect in making it is the answer."""
    try:
        return work.answer(fates, applied, state)
    except Exception as error:
        return request_defects.answer(error)
