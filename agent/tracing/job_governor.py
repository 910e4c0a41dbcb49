# SPDX-License-Identifier: Apache-2.0
"""One job's governor at work: what tracing cost is read, what it decides is put into the steering.

Decides nothing: that is probes/cost/cost_governor.py. Owns that a window somebody asked for is not
counted against the budget, and that a job whose mode was set to full is measured but not shortened.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class HostCost:
    """Run time of the host's programs for one job in a measuring window; 0, 0: not measured."""

    run_ns: int = 0
    window_ns: int = 0


@dataclass(slots=True)
class _Spent:
    job_ns: int = 0
    tracer_ns: int = 0
    profiler_ns: int = 0


class _Sites:
    """Readings of probe sites without what was hit in times that do not count."""

    def __init__(self) -> None:
        self._last: dict[str, SiteReading] = {}
        self._asked: dict[str, tuple[int, int]] = {}

    def take(self, sites: tuple[SiteReading, ...], asked: bool) -> tuple[SiteReading, ...]:
        """The readings that count, by all so far; `asked`: what is new in these does not."""
        found = []
        for site in sites:
            hits, on_ns = self._asked.get(site.id, (0, 0))
            last = self._last.get(site.id)
            if asked and last is not None:
                hits += max(0, site.hits - last.hits)
                on_ns += max(0, site.on_ns - last.on_ns)
                self._asked[site.id] = hits, on_ns
            found.append(replace(site, hits=site.hits - hits, on_ns=site.on_ns - on_ns))
        self._last = {site.id: site for site in sites}
        return tuple(found)


class JobGovernor:
    """Of one job."""

    def __init__(self, steering: TracingPlan) -> None:
        self._steering = steering
        self._mode = steering.mode
        self._governor = _governor(steering)
        self._last = _Spent()
        self._asked = _Spent()
        """Spent in windows and while dormant: nobody's governor answers for it."""
        self._sites = _Sites()

    @property
    def record(self) -> GovernorRecord:
        """What tracing cost in the last period, and what is done about it."""
        return self._governor.record()

    def step(
        self,
        cost: CostRow | None,
        host: HostCost,
        now_ns: int,
        sites: tuple[SiteReading, ...] = (),
    ) -> list[GovernorAction]:
        """Take in what was spent; what is left to do is for the host's programs and for sites."""
        steering = self._steering
        if cost is None or not cost.share:
            return []
        if steering.mode != self._mode:
            self._mode, self._governor = steering.mode, _governor(steering)
            steering.held, steering.reason = None, ""
        spent = _Spent(round(cost.tracer_ns / cost.share), cost.tracer_ns, cost.profiler_ns)
        last, self._last = self._last, spent
        asked = steering.active or steering.mode == "dormant"
        sites = self._sites.take(sites, asked)
        if asked:
            for name in ("job_ns", "tracer_ns", "profiler_ns"):
                more = max(getattr(spent, name) - getattr(last, name), 0)
                setattr(self._asked, name, getattr(self._asked, name) + more)
            return []
        if steering.mode == "full":  # whoever asked for everything gets the thread timelines too
            host = HostCost()
        readings = Readings(
            job_ns=spent.job_ns - self._asked.job_ns,
            tracer_ns=spent.tracer_ns - self._asked.tracer_ns,
            profiler_ns=spent.profiler_ns - self._asked.profiler_ns,
            bpf_run_ns=host.run_ns,
            bpf_window_ns=host.window_ns,
            sites=sites,
        )
        return [
            action for action in self._governor.step(readings, now_ns) if not self._carry(action)
        ]

    def _carry(self, action: GovernorAction) -> bool:
        """Whether it is done by telling the tracers something else."""
        if action.target != "tracer":
            return False
        self._steering.reason = action.reason
        self._steering.held = "dormant" if action.value == 0 else None
        if action.value:
            self._steering.budget_ppm = action.value
        return True


def _governor(steering: TracingPlan) -> Governor:
    limits = GovernorLimits(budget_ppm=steering.budget_ppm)
    return Governor(limits, tracer_fixed=steering.mode == "full")
