# SPDX-License-Identifier: Apache-2.0
"""The governor's decisions reach the tracers of a job, and windows do not count."""

from __future__ import annotations

from typing import Any

from stoker.agent.tracing.job_governor import HostCost, JobGovernor
from stoker.agent.tracing.tracing_plan import TracingPlan
from stoker.mesh.wire.queries import TracingQuery
from stoker.probes.cost.cost_governor import GovernorAction
from stoker.probes.kernels.job_trace import CostRow

S = 1_000_000_000


class Job:
    """A job of one thread, whose tracer takes `share` of its time while tracing is on."""

    def __init__(self, mode: Any = "governed") -> None:
        self.plan = TracingPlan(mode)
        self.governor = JobGovernor(self.plan)
        self.seconds, self.tracer_ns = 0, 0
        self.host = HostCost()

    def second(self, share: float) -> list[GovernorAction]:
        self.seconds += 1
        self.tracer_ns += int(share * S)
        whole = self.seconds * S
        cost = CostRow(1, self.tracer_ns, 0.0, self.tracer_ns / whole)
        return self.governor.step(cost, self.host, whole)

    def run(self, seconds: int, share: float) -> list[GovernorAction]:
        return [action for _ in range(seconds) for action in self.second(share)]


def test_a_cheap_tracer_is_left_alone() -> None:
    job = Job()
    assert job.run(20, 0.001) == []
    assert (job.plan.wanted, job.plan.budget_ppm) == ("governed", 10_000)
    assert job.governor.record.state == "kept"


def test_a_tracer_over_budget_gets_less_and_the_reason_is_kept() -> None:
    job = Job()
    job.run(3, 0.05)
    assert job.plan.budget_ppm < 10_000
    assert "%" in job.plan.reason
    assert job.governor.record.cost_ppm > 40_000


def test_one_that_cannot_be_made_cheap_is_dormant_until_it_is_quiet() -> None:
    job = Job()
    job.run(12, 0.5)
    assert job.plan.wanted == "dormant"
    job.run(40, 0.0)
    assert job.plan.wanted == "governed"


def test_a_window_is_not_counted_against_the_budget() -> None:
    job = Job()
    job.run(5, 0.001)
    job.plan.take(TracingQuery(1, 1, 0, 0, "open", "alice", "full", 60.0, 5), 5 * S)
    assert job.run(10, 0.3) == []
    job.plan.end(15 * S)
    assert job.plan.window is not None
    job.plan.written(0, 0)
    job.run(5, 0.001)
    assert (job.plan.wanted, job.plan.budget_ppm) == ("governed", 10_000)


def test_full_mode_is_not_limited() -> None:
    job = Job("full")
    job.run(10, 0.3)
    assert (job.plan.wanted, job.plan.budget_ppm) == ("full", 10_000)


def test_another_mode_starts_again() -> None:
    job = Job()
    job.run(12, 0.5)
    job.plan.take(TracingQuery(1, 1, 0, 0, "mode", "alice", "full"), 0)
    job.run(2, 0.0)
    assert (job.plan.held, job.plan.reason) == (None, "")


def test_what_the_hosts_programs_take_is_for_the_host() -> None:
    job = Job()
    job.run(2, 0.001)
    job.host = HostCost(run_ns=S // 20, window_ns=S)
    actions = job.run(2, 0.001)
    assert [(action.target, action.kind) for action in actions][:1] == [("host.spans", "fall_back")]
