# SPDX-License-Identifier: Apache-2.0
"""The governor of one job at work: it reads the cost of tracing and puts decisions into the plan.

probes/cost/cost_governor.py decides. The time of a window that a user opened does not count against
the budget, and a job whose mode was set to full is measured but not limited.
"""

from __future__ import annotations

import msgspec

from stoker.agent.tracing.tracing_plan import TracingPlan
from stoker.probes.cost.cost_governor import (
    Governor,
    GovernorAction,
    GovernorLimits,
    GovernorRecord,
    Readings,
    SiteReading,
)
from stoker.probes.kernels.job_trace import CostRow


class HostCost(msgspec.Struct, frozen=True):
    """Run time of the host's programs for one job in a measuring window; 0, 0: not measured."""

    run_ns: int = 0
    window_ns: int = 0


class _Spent(msgspec.Struct):
    job_ns: int = 0
    tracer_ns: int = 0
    profiler_ns: int = 0


class _Sites:
    """Readings of probe sites without the hits in times that do not count."""

    def __init__(self) -> None:
        self._last: dict[str, SiteReading] = {}
        self._excluded: dict[str, tuple[int, int]] = {}

    def take(self, sites: tuple[SiteReading, ...], excluded: bool) -> tuple[SiteReading, ...]:
        """Return the readings that count; with `excluded`, what is new in these does not count."""
        found = []
        for site in sites:
            hits, on_ns = self._excluded.get(site.id, (0, 0))
            last = self._last.get(site.id)
            if excluded and last is not None:
                hits += max(0, site.hits - last.hits)
                on_ns += max(0, site.on_ns - last.on_ns)
                self._excluded[site.id] = hits, on_ns
            found.append(
                msgspec.structs.replace(site, hits=site.hits - hits, on_ns=site.on_ns - on_ns)
            )
        self._last = {site.id: site for site in sites}
        return tuple(found)


class JobGovernor:
    """The governor of one job."""

    def __init__(self, plan: TracingPlan) -> None:
        self._plan = plan
        self._mode = plan.mode
        self._governor = _governor(plan)
        self._last = _Spent()
        self._excluded = _Spent()
        """The cost in windows and while dormant, which does not count against the budget."""
        self._sites = _Sites()

    @property
    def record(self) -> GovernorRecord:
        """The cost of tracing in the last period, and what the governor does about it."""
        return self._governor.record()

    def step(
        self,
        cost: CostRow | None,
        host: HostCost,
        now_ns: int,
        sites: tuple[SiteReading, ...] = (),
    ) -> list[GovernorAction]:
        """Record a cost; return the actions on the host's programs and on probe sites."""
        plan = self._plan
        if cost is None or not cost.share:
            return []
        if plan.mode != self._mode:
            self._mode, self._governor = plan.mode, _governor(plan)
            plan.held, plan.reason = None, ""
        spent = _Spent(round(cost.tracer_ns / cost.share), cost.tracer_ns, cost.profiler_ns)
        last, self._last = self._last, spent
        excluded = plan.active or plan.mode == "dormant"
        sites = self._sites.take(sites, excluded)
        if excluded:
            for name in ("job_ns", "tracer_ns", "profiler_ns"):
                more = max(getattr(spent, name) - getattr(last, name), 0)
                setattr(self._excluded, name, getattr(self._excluded, name) + more)
            return []
        if plan.mode == "full":  # full mode includes the timelines of threads
            host = HostCost()
        readings = Readings(
            job_ns=spent.job_ns - self._excluded.job_ns,
            tracer_ns=spent.tracer_ns - self._excluded.tracer_ns,
            profiler_ns=spent.profiler_ns - self._excluded.profiler_ns,
            bpf_run_ns=host.run_ns,
            bpf_window_ns=host.window_ns,
            sites=sites,
        )
        return [
            action for action in self._governor.step(readings, now_ns) if not self._apply(action)
        ]

    def _apply(self, action: GovernorAction) -> bool:
        """Carry out an action on the tracers by changing the plan; False for other targets."""
        if action.target != "tracer":
            return False
        self._plan.reason = action.reason
        self._plan.held = "dormant" if action.value == 0 else None
        if action.value:
            self._plan.budget_ppm = action.value
        return True


def _governor(plan: TracingPlan) -> Governor:
    limits = GovernorLimits(budget_ppm=plan.budget_ppm)
    return Governor(limits, tracer_fixed=plan.mode == "full")
