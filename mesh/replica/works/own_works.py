# SPDX-License-Identifier: Apache-2.0
"""The works that a leader has of itself after each entry: jobs to forget, and what arrays need.

Pure. Owns their order: room is made before it is taken.
"""

from __future__ import annotations

from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import array_next, range_end_work
from stoker.mesh.replica.works.user_room import to_forget
from stoker.mesh.replica.works.work import Work


def due(state: ReplicaState) -> list[Work]:
    """Return them; none if there is nothing to do."""
    forget = to_forget(state.book, state.limits)
    told = range_end_work.due(state)
    return [*([] if forget is None else [forget]), *told, *array_next.due(state)]
