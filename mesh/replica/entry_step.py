# SPDX-License-Identifier: Apache-2.0
"""One entry while the replicated state applies it: what its blobs say, and what it has changed."""

from __future__ import annotations

from stoker.mesh.log.entry import ArrayBlob, Entry, JobBlob, NodeRemovedBlob
from stoker.mesh.replica.changes import Applied
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import Action, Decision, Outcome, placing_of


class EntryStep:
    """One entry while it is applied: its blobs by command, and its changes."""

    def __init__(self, entry: Entry, digest: bytes) -> None:
        self.index = entry.prev_index + 1
        self.placing = placing_of(digest)
        self.entry = entry
        self.jobs: dict[int, JobBlob] = {}
        self.arrays: dict[int, ArrayBlob] = {}
        """The arrays that begin here, by the commands of their first jobs."""
        self.outcomes: dict[int, Outcome] = {}
        self.cancels: dict[int, str] = {}
        self.evicted: dict[int, str] = {}
        """The reasons why this entry gives nodes up, by their ids."""
        self.gangs: dict[int, list[Decision]] = {}
        """The decisions of gangs that this entry places, by job, in the order of their ranks."""
        self.removed: list[NodeRemovedBlob] = []
        self.applied = Applied()

    def changed(self, record: Job) -> None:
        self.applied.changed.append(record.job)
        self.applied.changes.changed(record)

    def act(self, node: str, action: Action) -> None:
        self.applied.actions.setdefault(node, []).append(action)
