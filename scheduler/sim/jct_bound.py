# SPDX-License-Identifier: Apache-2.0
"""The upper bound, known at its arrival, on a job's wait in strict order of arrival.

A job waits only while too few nodes have room for it. With nodes of g devices, and a job of T tasks
with d devices each, that takes g - d + 1 busy devices on all nodes but T - 1. In strict order of
arrival only earlier work keeps a job waiting. So it waits no longer than that work, in device time,
takes with so few devices busy. The least such number of any job so far counts, because the first
job blocks the others. Orders that let later jobs overtake have no such bound; for them it is the
measure of starvation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.scheduler.sim.jct_cluster import TraceCluster

if TYPE_CHECKING:
    from stoker.scheduler.sim.jct import JobRun


class WaitBound:
    """The remaining device time of all present jobs, and the bound for the next one."""

    def __init__(self, cluster: TraceCluster) -> None:
        self.cluster = cluster
        self.left_ns = 0
        """The device time of all present jobs, as if the running ones had just begun."""
        self.running = 0
        self.begun_ns = 0
        """The sum over busy devices of the start of their job."""
        self.least_busy: int | None = None
        self._busy: dict[tuple[int, int, tuple[str, ...]], int] = {}

    def arrives(self, run: JobRun, now: int) -> int:
        """Add a job; return its longest wait if no later job overtakes it."""
        ahead = self.left_ns - (self.running * now - self.begun_ns)
        busy = self._busy_before(run)
        self.least_busy = busy if self.least_busy is None else min(busy, self.least_busy)
        self.left_ns += run.job.gpus * run.job.run_ns
        return -(-ahead // self.least_busy)

    def starts(self, run: JobRun, now: int) -> None:
        self.running += run.job.gpus
        self.begun_ns += run.job.gpus * now

    def stops(self, run: JobRun, worked_ns: int) -> None:
        """Record that a job released its devices after this much of its work."""
        self.running -= run.job.gpus
        self.begun_ns -= run.job.gpus * run.start_ns
        self.left_ns -= run.job.gpus * worked_ns

    def leaves(self, run: JobRun) -> None:
        """Remove a job that never starts."""
        self.left_ns -= run.job.gpus * run.job.run_ns

    def _busy_before(self, run: JobRun) -> int:
        """Return the number of devices that must be busy for this job to wait."""
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
