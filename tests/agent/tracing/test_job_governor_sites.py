# SPDX-License-Identifier: Apache-2.0
"""Probe sites count as tracing cost of a job, and requested windows do not."""

from __future__ import annotations

from stoker.agent.tracing.job_governor import HostCost, JobGovernor
from stoker.agent.tracing.tracing_plan import TracingPlan
from stoker.mesh.wire.queries import TracingQuery
from stoker.probes.cost.cost_budget import SiteReading
from stoker.probes.cost.cost_governor import GovernorAction
from stoker.probes.kernels.job_trace import CostRow

S = 1_000_000_000
LAUNCH = "cuda.cuLaunchKernel"


class Job:
    """A job of one thread with a tracer that costs next to nothing and one probe site."""

    def __init__(self) -> None:
        self.plan = TracingPlan("governed")
        self.governor = JobGovernor(self.plan)
        self.seconds = self.hits = self.on_ns = 0

    def run(self, seconds: int, rate: int) -> list[GovernorAction]:
        found = []
        for _ in range(seconds):
            self.seconds += 1
            self.hits += rate
            self.on_ns += S
            now = self.seconds * S
            site = SiteReading(LAUNCH, self.hits, 2_000, self.on_ns)
            cost = CostRow(1, self.seconds, 0.0, 1 / S)
            found += self.governor.step(cost, HostCost(), now, (site,))
        return found


def test_a_cheap_site_is_left_alone() -> None:
    job = Job()
    assert job.run(10, 2_000) == []
    assert job.governor.record.sites_ppm == 4_000


def test_a_site_over_budget_is_reported_to_the_probes() -> None:
    job = Job()
    (action,) = job.run(2, 50_000)
    assert (action.kind, action.target) == ("sample", LAUNCH)
    assert 0 < action.value < 100_000
    assert job.plan.budget_ppm == 10_000  # the tracer is not to blame


def test_what_is_hit_in_a_window_does_not_count() -> None:
    job = Job()
    assert job.run(3, 2_000) == []
    job.plan.take(TracingQuery(1, 1, 0, 0, "open", "alice", "full", 60.0, 5), 3 * S)
    assert job.run(5, 400_000) == []
    job.plan.end(8 * S)
    assert job.plan.window is not None
    job.plan.written(0, 0)
    assert job.run(5, 2_000) == []
    assert job.governor.record.sites_ppm == 4_000
