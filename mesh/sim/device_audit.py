# SPDX-License-Identifier: Apache-2.0
"""The auditor of devices: which task holds what, after every entry of the log.

It keeps books of its own from what entries say: a start takes, a task's own end gives back, and so
does the loss of its node. Owns the rules that no device is given out twice and that no task holds
anything once its job is over or waits for another attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from stoker.mesh.log.entry import Entry, OutcomeBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.raw_start import StartRaw
from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import ENDED, MILLI, Outcome, StartJob, TaskKey

Started = StartJob | StartRaw
"""A start, whether or not its spec is decoded."""


class HeldTask(NamedTuple):
    """A task that was placed and has not ended; `shares` are its devices as (index, milli)."""

    node: str
    shares: tuple[tuple[int, int], ...]


def ends(outcome: Outcome) -> bool:
    """True if a task is over with this outcome: it ended, or its node began nothing."""
    return outcome.is_over


class DeviceAudit:
    """The auditor of one cluster's devices."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self.tasks: dict[int, dict[TaskKey, HeldTask]] = {}
        """The tasks that hold something, by job."""
        self._violated = violated
        self._devices: dict[str, dict[int, dict[TaskKey, int]]] = {}
        """The milli-devices of each task, by node and index of a device."""

    def applied(
        self, state: ReplicaState, entry: Entry, applied: Applied, lost: Iterable[str]
    ) -> None:
        """Enter what one entry gives back and what it gives out; `lost` are the nodes that it says
        to run nothing any more."""
        for blob in entry.blobs:
            if isinstance(blob, OutcomeBlob) and ends(blob.outcome):
                self._give(blob.outcome.key)
        for node in lost:
            self._lose(node)
        seq = entry.prev_index + 1
        for job in applied.changed:
            self._changed(state, job, seq)
        for node, starts in started(applied):
            for start in starts:
                self._take(node, start)
            self.check(state, node, seq)

    def _changed(self, state: ReplicaState, job: int, seq: int) -> None:
        record = state.book.live(job)
        waits = record is None or record.state == "pending"
        if waits and (held := self.tasks.get(job)):
            now = "over" if record is None else "waiting again"
            self._violated(f"job {job} is {now} in entry {seq}, and {list(held)} hold devices")

    # --- books ------------------------------------------------------------------------------------

    def _take(self, node: str, start: Started) -> None:
        key = start.key
        shares = tuple((share.index, share.milli) for share in start.decision.devices)
        self.tasks.setdefault(start.job, {})[key] = HeldTask(node, shares)
        devices = self._devices.setdefault(node, {})
        for index, milli in shares:
            devices.setdefault(index, {})[key] = milli

    def _give(self, key: TaskKey) -> None:
        held = self.tasks.get(key.job)
        if held is None or (task := held.pop(key, None)) is None:
            return
        if not held:
            del self.tasks[key.job]
        devices = self._devices[task.node]
        for index, _ in task.shares:
            del devices[index][key]

    def _lose(self, node: str) -> None:
        """Give back everything that a node held: nothing of it runs any more."""
        for held in list(self.tasks.values()):
            for key in [key for key, task in held.items() if task.node == node]:
                self._give(key)

    # --- checks -----------------------------------------------------------------------------------

    def check(self, state: ReplicaState, node: str, seq: int) -> None:
        """Compare what the tasks of a node hold with the core, and with whole devices."""
        held = self._devices.get(node, {})
        for index, device in enumerate(state.core.devices(name_id(node))):
            holders = held.get(index, {})
            used = sum(holders.values())
            if used > MILLI:
                self._violated(f"entry {seq} gives device {index} of {node} out twice: {holders}")
            if used != device.used_milli:
                counted = f"the core counts {device.used_milli}"
                self._violated(f"entry {seq}: {node}/{index} holds {used} milli, {counted}")

    def acknowledged(self, outcome: Outcome) -> None:
        """A node was told that this outcome is in the log: its task holds nothing any more."""
        if outcome.state in ENDED and outcome.key in self.tasks.get(outcome.job, ()):
            self._violated(f"the end of {outcome.key} was acknowledged and is not in the log")


def started(applied: Applied) -> Iterator[tuple[str, list[Started]]]:
    """Yield the nodes on which an entry starts something, by name, with what it starts there."""
    for node in sorted(applied.actions):
        starts: list[Started] = [
            each for each in applied.actions[node] if isinstance(each, Started)
        ]
        if starts:
            yield node, starts
