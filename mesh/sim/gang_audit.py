# SPDX-License-Identifier: Apache-2.0
"""The auditor of gangs: all tasks or none, after every entry of the log.

It knows what entries start, release, stop and report of each task. Owns the rules that a gang is
placed whole, released when all of its tasks were ready, stopped whole when one of them failed, and
that its tasks share one attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.mesh.log.entry import Entry, OutcomeBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.sim.device_audit import Started, ends
from stoker.scheduler.nouns import Outcome, ReleaseJob, StopJob


class PlacedGang:
    """One attempt of a gang, its tasks by number."""

    def __init__(self, attempt: int, placing: int, size: int) -> None:
        self.attempt = attempt
        self.placing = placing
        self.size = size
        self.nodes: dict[int, str] = {}
        """The node of each task that has not ended."""
        self.ready: set[int] = set()
        self.told: set[int] = set()
        """The tasks that were stopped."""
        self.broken = ""
        """The end of the first task that did not succeed; empty if there is none."""

    def ended(self, task: int, state: str) -> None:
        """Note the end of a task."""
        if self.nodes.pop(task, None) is not None and state != "succeeded" and not self.broken:
            self.broken = f"task {task} is {state}"


class GangAudit:
    """The auditor of one cluster's gangs."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.placed = 0
        """The number of attempts of gangs."""
        self._violated = violated
        self._gangs: dict[int, PlacedGang] = {}
        self._lost: dict[int, set[int]] = {}
        """The tasks of each gang that this entry loses with their nodes."""

    def applied(self, entry: Entry, applied: Applied, lost: Iterable[str]) -> None:
        """Check what one entry does to gangs; `lost` are the nodes that it says to run nothing any
        more."""
        for blob in entry.blobs if self._gangs else ():
            if isinstance(blob, OutcomeBlob):
                self._reported(blob.outcome)
        self._lost.clear()
        for node in lost:
            self._lose(node)
        seq = entry.prev_index + 1
        self._act(applied, seq)
        for job, gang in self._gangs.items():
            if gang.broken and (left := gang.nodes.keys() - gang.told):
                self._violated(
                    f"entry {seq}: of the gang {job} {gang.broken}, and the tasks {sorted(left)}"
                    " are not stopped"
                )
                gang.told |= left

    def over(self, job: int, state: str) -> None:
        """Check the end of a job: a gang succeeds only if all of its tasks do."""
        gang = self._gangs.pop(job, None)
        if gang is not None and state == "succeeded" and (gang.broken or gang.nodes):
            self._violated(f"the gang {job} is {state}, and {gang.broken or gang.nodes}")

    # --- reports ----------------------------------------------------------------------------------

    def _reported(self, outcome: Outcome) -> None:
        gang = self._gangs.get(outcome.job)
        if gang is None or (outcome.attempt, outcome.placing) != (gang.attempt, gang.placing):
            return
        if ends(outcome):
            gang.ended(outcome.task, outcome.state)
        elif outcome.task in gang.nodes:  # ready, or running, which it was ready for
            gang.ready.add(outcome.task)

    def _lose(self, node: str) -> None:
        for job, gang in self._gangs.items():
            for task in [task for task, where in gang.nodes.items() if where == node]:
                gang.ended(task, "lost")
                self._lost.setdefault(job, set()).add(task)

    # --- actions ----------------------------------------------------------------------------------

    def _act(self, applied: Applied, seq: int) -> None:
        begun: dict[int, PlacedGang] = {}
        released: dict[int, set[int]] = {}
        for node, actions in applied.actions.items():
            for action in actions:
                if isinstance(action, StopJob):
                    if (gang := self._gangs.get(action.job)) is not None:
                        gang.told.add(action.task)
                elif isinstance(action, ReleaseJob):
                    released.setdefault(action.job, set()).add(action.task)
                elif isinstance(action, Started) and action.gang is not None:
                    self._start(node, action, begun, seq)
        for job, gang in begun.items():
            self._begun(job, gang, seq)
        for job, tasks in released.items():
            self._released(job, tasks, seq)

    def _start(self, node: str, start: Started, begun: dict[int, PlacedGang], seq: int) -> None:
        assert start.gang is not None
        fresh = PlacedGang(start.attempt, start.placing, len(start.gang.places))
        gang = begun.setdefault(start.job, fresh)
        names = (start.attempt, start.placing)
        if names != (gang.attempt, gang.placing) or start.task in gang.nodes:
            self._violated(f"entry {seq} starts {start.key} beside another attempt of its gang")
        gang.nodes[start.task] = node

    def _begun(self, job: int, gang: PlacedGang, seq: int) -> None:
        self.placed += 1
        if sorted(gang.nodes) != list(range(gang.size)):
            self._violated(
                f"entry {seq} places the tasks {sorted(gang.nodes)} of the gang {job},"
                f" which has {gang.size}"
            )
        before = self._gangs.get(job)
        if before is not None and before.nodes:
            self._violated(f"entry {seq} places the gang {job} again, and {before.nodes} holds on")
        self._gangs[job] = gang

    def _released(self, job: int, tasks: set[int], seq: int) -> None:
        gang = self._gangs.get(job)
        if gang is None:
            self._violated(f"entry {seq} releases the gang {job}, which is not placed")
        elif len(gang.ready) < gang.size or len(tasks | self._lost.get(job, set())) < gang.size:
            self._violated(
                f"entry {seq} releases the tasks {sorted(tasks)} of {gang.size} of the gang {job},"
                f" and {sorted(gang.ready)} are ready"
            )
