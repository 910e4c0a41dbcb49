# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of the governor of tracing's cost.

Values alone. Shares are in ppm of the job's time: of the life of its threads that use devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PPM = 1_000_000

Kind = Literal["budget", "fall_back", "restore", "sample", "detach", "attach"]
"""budget: give the tracers `value` ppm; fall_back, restore: the tracers' timing ("tracer": `value`
ppm, 0 means launches are counted at most) or the host's spans ("host.spans"); sample: attach the
site in windows, `value` ppm of the time; detach, attach: the site."""

Level = Literal["attached", "sampled", "off"]

State = Literal["waiting", "kept", "reduced", "over"]
"""waiting: nothing measured yet; reduced: something was made cheaper; over: nothing is left
that could be, and the budget is passed."""


@dataclass(frozen=True, slots=True)
class SiteReading:
    """One probe site, all its copies together. Numbers only grow while it is counted."""

    id: str
    hits: int
    hit_ns: int
    """Measured cost of one hit, entry and return together."""
    on_ns: int
    """Time for which it was attached; shorter than real time where it is sampled."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Measurements at one moment; totals since the job's start unless a field says otherwise."""

    job_ns: int
    """Time of the job's threads that use devices: what the budget is a part of."""
    tracer_ns: int = 0
    profiler_ns: int = 0
    """As the vendor's profiler reports its own overhead."""
    bpf_run_ns: int = 0
    """Run time of BPF programs for this job, in the newest measuring window alone."""
    bpf_window_ns: int = 0
    """Length of that window; 0: not measured."""
    sites: tuple[SiteReading, ...] = ()
    """Every site there is, also those that are off; one that is not named is forgotten."""


@dataclass(frozen=True, slots=True)
class GovernorAction:
    """One change. `target`: "tracer", "host.spans" or the id of a site."""

    kind: Kind
    target: str
    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class GovernorLimits:
    """The budget and how patiently it is kept. Shares are in ppm of the job's time."""

    budget_ppm: int = 10_000
    aim: float = 0.8
    """Part of the budget that decisions plan for; the rest is for what is seen too late."""
    calm: float = 0.5
    """Below this part of the budget something may return."""
    calm_periods: int = 4
    period_ns: int = 1_000_000_000
    tracer_floor_ppm: int = 200
    """A tracer with less could not time enough launches for an estimate."""
    tracer_least_ppm: int = 2_000
    """A tracer keeps this much even when others have used up the budget: silencing it would save
    next to nothing and lose the job's counts."""
    duty_floor_ppm: int = 10_000
    """A site is sampled for at least this part of the time, or not at all."""
    quiet_periods: int = 16
    """Periods before something that was taken away is tried again; doubles with each failure."""
    quiet_periods_max: int = 1024
    sites_max: int = 1024


@dataclass(frozen=True, slots=True)
class GovernorRecord:
    """The measured cost and the state, as metrics. Shares in ppm of the job's time, last period."""

    state: State
    budget_ppm: int
    cost_ppm: int
    tracer_ppm: int
    profiler_ppm: int
    bpf_ppm: int
    sites_ppm: int
    granted_ppm: int
    """Share of the job's time that the tracers may take now."""
    host_spans: bool
    sites_sampled: int
    sites_off: int
    periods: int
    periods_over: int
    actions: int
    sites_refused: int
    """Sites beyond `sites_max`, which are not governed."""
