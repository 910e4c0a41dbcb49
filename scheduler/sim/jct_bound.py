# SPDX-License-Identifier: Apache-2.0
"""How long a job can wait at most under policies that promise it, known when it arrives.

Relied on by the job simulator. A job waits only while too few nodes have room for it. With nodes of
g devices, and tasks of d devices of which T are asked for, that takes g - d + 1 busy devices on all
nodes but T - 1. Where only work that was there before keeps a job waiting, it waits no longer than
that work, in device time, takes with so few devices busy. This holds for strict order of arrival
(with the least such number of any job so far, as the one in front blocks) and for conservative
backfill, whose reservations are never moved back while estimates are not too low. Other policies
let later jobs go first and promise nothing of the kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.scheduler.policies import Order
from stoker.scheduler.sim.jct_cluster import Cluster
from stoker.scheduler.sim.jct_policy import Policy

if TYPE_CHECKING:
    from stoker.scheduler.sim.jct import JobRun


class WaitBound:
    """Device time that is left of all jobs that are there, and the bound for the next one."""

    def __init__(self, cluster: Cluster, policy: Policy, *, exact: bool) -> None:
        self.cluster = cluster
        self.strict = policy.order == Order.FIFO
        self.on = not policy.by_tenant and not policy.preempts and (
            self.strict or (policy.order == Order.CONSERVATIVE and exact)
        )  # fmt: skip
        self.left_ns = 0
        """Device time of all that is there, as if what runs had just begun."""
        self.running = 0
        self.begun_ns = 0
        """Sum over running devices of when they began."""
        self.least_busy: int | None = None
        self._busy: dict[tuple[int, int, tuple[str, ...]], int] = {}

    def arrives(self, run: JobRun, now: int) -> int | None:
        """The longest it can wait, or None where nothing is promised."""
        if not self.on:
            return None
        ahead = self.left_ns - (self.running * now - self.begun_ns)
        busy = self._busy_while_waiting(run)
        self.least_busy = busy if self.least_busy is None else min(busy, self.least_busy)
        self.left_ns += run.job.gpus * run.job.run_ns
        return -(-ahead // (self.least_busy if self.strict else busy))

    def starts(self, run: JobRun, now: int) -> None:
        self.running += run.job.gpus
        self.begun_ns += run.job.gpus * now

    def stops(self, run: JobRun, now: int) -> None:
        """It ended; what a faster device spared is not left either."""
        self.running -= run.job.gpus
        self.begun_ns -= run.job.gpus * run.start_ns
        self.leaves(run)

    def leaves(self, run: JobRun) -> None:
        self.left_ns -= run.job.gpus * run.job.run_ns

    def _busy_while_waiting(self, run: JobRun) -> int:
        """Devices that must be busy for this job to wait."""
        models = tuple(model for model, _ in run.job.by_model)
        key = (run.tasks, run.gpus, models)
        if key not in self._busy:
            fits = [
                node.gpus - run.gpus + 1
                for node in self.cluster.nodes
                if node.gpus >= run.gpus and (not models or node.model in models)
            ]
            full = sorted(fits)[: max(0, len(fits) - run.tasks + 1)]
            self._busy[key] = max(1, sum(full))
        return self._busy[key]
