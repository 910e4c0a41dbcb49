# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of the governor of tracing's cost.

Plain values. Shares are in ppm of the job's time: of the life of its threads that use devices.
"""

from __future__ import annotations

from typing import Literal

import msgspec

PPM = 1_000_000

Kind = Literal["budget", "fall_back", "restore", "sample", "detach", "attach"]
"""budget: give the tracers `value` ppm; fall_back, restore: the tracers' timing ("tracer": `value`
ppm, 0 means launches are counted at most) or the host's spans ("host.spans"); sample: attach the
site in windows, `value` ppm of the time; detach, attach: the site."""

Level = Literal["attached", "sampled", "off"]

State = Literal["waiting", "kept", "reduced", "over"]
"""waiting: nothing measured yet; reduced: something was made cheaper; over: the budget is exceeded
and nothing can be made cheaper.
"""


class SiteReading(msgspec.Struct, frozen=True):
    """One probe site, with all its copies. Numbers only grow while it is counted."""

    id: str
    hits: int
    hit_ns: int
    """The measured cost of one hit, entry and return together."""
    on_ns: int
    """The time for which it was attached; shorter than real time if it is sampled."""


class Readings(msgspec.Struct, frozen=True):
    """Measurements at one moment; totals are since the job's start unless stated otherwise."""

    job_ns: int
    """The time of the job's threads that use devices, of which the budget is a part."""
    tracer_ns: int = 0
    profiler_ns: int = 0
    """The overhead that the vendor's profiler reports."""
    bpf_run_ns: int = 0
    """The run time of BPF programs for this job in the newest measuring window alone."""
    bpf_window_ns: int = 0
    """The length of that window; 0: not measured."""
    sites: tuple[SiteReading, ...] = ()
    """All sites, including those that are off; a missing one is dropped."""


class GovernorAction(msgspec.Struct, frozen=True):
    """One change. `target`: "tracer", "host.spans" or the id of a site."""

    kind: Kind
    target: str
    value: int
    reason: str


class GovernorLimits(msgspec.Struct, frozen=True):
    """The budget and the delays of its control. Shares are in ppm of the job's time."""

    budget_ppm: int = 10_000
    aim: float = 0.8
    """The part of the budget that decisions plan for; the rest is for late measurements."""
    calm: float = 0.5
    """Below this part of the budget a reduction may be reversed."""
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
    """The periods before a reduction is reversed; they double with each failure."""
    quiet_periods_max: int = 1024
    sites_max: int = 1024


class GovernorRecord(msgspec.Struct, frozen=True):
    """The measured cost and the state as metrics. Shares are ppm of the job's time, last period."""

    state: State
    budget_ppm: int
    cost_ppm: int
    tracer_ppm: int
    profiler_ppm: int
    bpf_ppm: int
    sites_ppm: int
    granted_ppm: int
    """The share of the job's time that the tracers may take now."""
    host_spans: bool
    sites_sampled: int
    sites_off: int
    periods: int
    periods_over: int
    actions: int
    sites_refused: int
    """The number of sites beyond `sites_max`, which are not governed."""
