# SPDX-License-Identifier: Apache-2.0
"""State of the oracle, read by lists and full scans; nothing is stored twice."""

from __future__ import annotations

from copy import copy
from typing import Self

from stoker.scheduler import records as rec
from stoker.scheduler.core import Limits
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_nouns import FINAL, M64, ROOT, Job, No, Node, Queue, Task
from tests.scheduler.oracle_speeds import Speeds


class State:
    """The whole state; effects are appended to `told` as comparable tuples."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.term = 0
        self.leader = 0
        self.next_job = 1
        self.now = 0
        self.nodes: list[Node] = []
        self.jobs: dict[int, Job] = {}
        self.tasks: list[Task] = []
        self.ended: list[int] = []
        self.models: list[int] = []
        self.traits: list[tuple[int, ...]] = []
        self.trial = False
        self.insists = 0
        """Preferences that are insisted on at the moment."""
        self.near: tuple[int, ...] | None = None
        """The domain in which all tasks must be at the moment, if one is tried."""
        self.queues: dict[int, Queue] = {ROOT: Queue(ROOT, 1, None), 0: Queue(0, 2, ROOT)}
        self.last_starts: dict[tuple[int, int], int] = {}
        """(queue with the order FAIR, user) -> tasks placed up to the user's last start there."""
        self.keys: list[tuple[int, bytes, int, int]] = []
        self.speeds = Speeds()
        self.counts = {"retried": 0, "preempted": 0, "placed": 0, "forgotten": 0, "refused": 0}
        self.told: list[tuple[object, ...]] = []
        self.command = 0

    def clone(self) -> Self:
        other = copy(self)
        other.nodes = [node.clone() for node in self.nodes]
        other.jobs = {id: copy(job) for id, job in self.jobs.items()}
        other.tasks = [copy(task) for task in self.tasks]
        other.queues = {id: queue.clone() for id, queue in self.queues.items()}
        other.ended, other.models, other.keys = [*self.ended], [*self.models], [*self.keys]
        other.counts, other.told = dict(self.counts), []
        other.traits, other.last_starts = [*self.traits], dict(self.last_starts)
        other.speeds = self.speeds.clone()
        return other

    # -- looking ---------------------------------------------------------------------------

    def node(self, id: int) -> Node:
        for node in self.nodes:
            if node.id == id:
                return node
        raise No(R.UNKNOWN_NODE)

    def on_node(self, node: Node) -> list[Task]:
        return [task for task in self.tasks if task.node == node.id]

    def of_job(self, job: Job) -> list[Task]:
        return sorted((t for t in self.tasks if t.job == job.id), key=lambda t: t.number)

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state not in FINAL]

    def holders(self, node: Node, index: int) -> list[tuple[Task, int]]:
        return [
            (task, share.milli)
            for task in self.tasks
            if task.node == node.id
            for share in task.shares
            if share.index == index
        ]

    def used(self, node: Node, index: int) -> int:
        return sum(milli for _, milli in self.holders(node, index))

    def free(self, node: Node, index: int) -> int:
        device = node.devices[index]
        return device.capacity - self.used(node, index) if device.available else 0

    def device_memory_used(self, node: Node, index: int) -> int:
        return sum(
            self.jobs[t.job].request.device_memory_bytes for t, _ in self.holders(node, index)
        )

    def device_memory_free(self, node: Node, index: int) -> int:
        return max(0, node.devices[index].memory - self.device_memory_used(node, index))

    def cpu_free(self, node: Node) -> int:
        used = sum(self.jobs[t.job].request.cpu_milli for t in self.on_node(node))
        return max(0, node.cpu - used)

    def memory_free(self, node: Node) -> int:
        used = sum(self.jobs[t.job].request.memory_bytes for t in self.on_node(node))
        return max(0, node.memory - used)

    def held_ns(self, job: Job, task: Task) -> int:
        """Device time by shares and wall time."""
        wall = max(0, self.now - job.place_ns)
        return min(M64, wall // 1000 * task.milli + wall % 1000 * task.milli // 1000)

    @staticmethod
    def spend(job: Job, ns: int) -> None:
        job.spent = min(M64, job.spent + ns)

    # -- telling ---------------------------------------------------------------------------

    def tell_state(self, job: Job, node: int) -> None:
        state = rec.STATES[job.state - 1]
        self.told.append(
            ("state", self.command, job.id, job.attempt, state, job.reason, node, job.exit_code,
             job.signal)
        )  # fmt: skip

    def tell_stops(self, job: Job, reason: int) -> None:
        for t in self.of_job(job):
            self.told.append(
                ("stop", self.command, job.id, job.attempt, t.number, t.node, "cancelled", reason)
            )
