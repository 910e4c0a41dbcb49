# SPDX-License-Identifier: Apache-2.0
"""Bounded migrations: a task without room may send one running task elsewhere.

Fragmentation is free GPUs that a task cannot use. A move is made only if the core places both tasks
at once, and each move is counted. This file chooses the task to move; the core chooses both places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stoker.scheduler.sim.cluster import Cluster, Placed
from stoker.scheduler.sim.openb import Machine, TraceTask

TRIES_MAX: Final = 8
"""The most running tasks that are tried for one task without room."""


class _Host:
    """One machine's free resources and its tasks."""

    def __init__(self, machine: Machine) -> None:
        self.model = machine.model
        self.cpu, self.memory = machine.cpu_milli, machine.memory_bytes
        self.devices = [1000] * machine.gpus
        self.running: dict[int, tuple[TraceTask, Placed]] = {}

    def take(self, task: TraceTask, placed: Placed) -> None:
        self._change(task, placed, -1)
        self.running[placed.job] = (task, placed)

    def give(self, job: int) -> None:
        self._change(*self.running.pop(job), 1)

    def _change(self, task: TraceTask, placed: Placed, sign: int) -> None:
        self.cpu += sign * task.cpu_milli
        self.memory += sign * task.memory_bytes
        for share in placed.shares:
            self.devices[share.index] += sign * share.milli

    def suits_without(self, task: TraceTask, leaver: TraceTask, placed: Placed) -> bool:
        """Return True if `task` fits once `leaver` is gone."""
        if self.cpu + leaver.cpu_milli < task.cpu_milli:
            return False
        if self.memory + leaver.memory_bytes < task.memory_bytes:
            return False
        free = self.devices.copy()
        for share in placed.shares:
            free[share.index] += share.milli
        return sum(milli >= task.gpu_milli for milli in free) >= task.gpus


class Mover:
    """Makes room by at most `moves_left` migrations. It must be given every placed task."""

    def __init__(self, cluster: Cluster, machines: Sequence[Machine], most: int) -> None:
        self._cluster = cluster
        self._hosts = [_Host(machine) for machine in machines]
        self._hopeless: set[TraceTask] = set()
        self.moves_left = most

    def took(self, task: TraceTask, placed: Placed) -> None:
        self._hosts[placed.machine].take(task, placed)

    def make_room(self, position: int, task: TraceTask) -> Placed | None:
        """Return the task as placed, or None if no single move that was tried helps."""
        shape = task._replace(created_s=None, deleted_s=None)
        if not self.moves_left or not task.gpus or shape in self._hopeless:
            return None
        for leaver, victim in self._victims(task):
            if moved := self._cluster.move(victim, position):
                self._settle(task, leaver, victim, *moved)
                return moved[0]
        self._hopeless.add(shape)
        return None

    def _settle(
        self, task: TraceTask, leaver: TraceTask, victim: Placed, placed: Placed, moved: Placed
    ) -> None:
        self._hosts[victim.machine].give(victim.job)
        self.took(leaver, moved)
        self.took(task, placed)
        self.moves_left -= moved.machine != victim.machine or moved.shares != victim.shares
        self._hopeless.clear()

    def _victims(self, task: TraceTask) -> Iterator[tuple[TraceTask, Placed]]:
        """Return a few tasks whose move would make room, the smallest first."""
        found = [
            (leaver.demand_milli, leaver.cpu_milli, placed.job, leaver, placed)
            for host in self._hosts
            if not task.models or host.model in task.models
            for leaver, placed in host.running.values()
            if host.suits_without(task, leaver, placed)
        ]
        found.sort(key=lambda each: each[:3])
        for *_, leaver, placed in found[:TRIES_MAX]:
            yield leaver, placed
