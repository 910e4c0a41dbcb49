# SPDX-License-Identifier: Apache-2.0
"""The host side of the overhead governor, which keeps the cost of tracing one job under a budget.

Pure: no clock, no file. Owns two invariants. A cost over the budget is reduced in the period after
it was seen. A reduction is reversed only after a quiet time, which grows each time, so that it does
not oscillate. An empty result changes nothing.
"""

from __future__ import annotations

import msgspec

from stoker.probes.cost.cost_budget import (
    PPM,
    GovernorAction,
    GovernorLimits,
    GovernorRecord,
    Kind,
    Level,
    Readings,
    SiteReading,
    State,
)

__all__ = [
    "Governor",
    "GovernorAction",
    "GovernorLimits",
    "GovernorRecord",
    "Readings",
    "SiteReading",
]


class _Quiet(msgspec.Struct):
    """The back-off after a measurement was reduced."""

    due: int = 0
    periods: int = 0

    def take(self, now: int, limits: GovernorLimits) -> None:
        longer = self.periods * 2 if now < self.due + 4 * self.periods else 0
        self.periods = min(max(longer, limits.quiet_periods), limits.quiet_periods_max)
        self.due = now + self.periods


class _Site(msgspec.Struct):
    level: Level = "attached"
    duty_ppm: int = PPM
    full_ppm: float = 0.0
    """The cost of attaching it all the time, by its newest hits."""
    spent_ppm: float = 0.0
    last: SiteReading | None = None
    quiet: _Quiet = msgspec.field(default_factory=_Quiet)


class Governor:
    """One job's governor.

    `tracer_fixed`: every launch is requested (mode full), so the tracers are measured and reported
    but not reduced, and the budget is for the rest.
    """

    def __init__(self, limits: GovernorLimits | None = None, *, tracer_fixed: bool = False) -> None:
        self._limits = limits or GovernorLimits()
        self._fixed = tracer_fixed
        self._granted = self._most
        self._tracer_quiet = _Quiet()
        self._spans = True
        self._spans_quiet = _Quiet()
        self._sites: dict[str, _Site] = {}
        self._last: Readings | None = None
        self._last_ns = 0
        self._calm = 0
        self._shares: dict[str, float] = {}
        self._periods = self._over = self._actions = self._refused = 0

    @property
    def _most(self) -> int:
        return round(self._limits.budget_ppm * self._limits.aim)

    @property
    def granted_ppm(self) -> int:
        """Return the present budget of the tracers; 0: launches are counted at most."""
        return self._granted

    def step(self, readings: Readings, now_ns: int) -> list[GovernorAction]:
        """Return the changes after this period; none if it is too early or the job used no time."""
        before = self._last
        if before is None or readings.job_ns < before.job_ns:
            self._begin(readings, now_ns)
            return []
        job_ns, real_ns = readings.job_ns - before.job_ns, now_ns - self._last_ns
        if real_ns < self._limits.period_ns // 2 or job_ns <= 0:
            return []
        self._measure(before, readings, job_ns, real_ns)
        self._last, self._last_ns = readings, now_ns
        self._periods += 1
        actions = self._decide()
        self._actions += len(actions)
        return actions

    def record(self) -> GovernorRecord:
        """Return the last period's cost and the present state."""
        levels = [site.level for site in self._sites.values()]
        part = {name: round(share) for name, share in self._shares.items()}
        return GovernorRecord(
            state=self._state(levels),
            budget_ppm=self._limits.budget_ppm,
            cost_ppm=round(self._total),
            tracer_ppm=part.get("tracer", 0),
            profiler_ppm=part.get("profiler", 0),
            bpf_ppm=part.get("bpf", 0),
            sites_ppm=part.get("sites", 0),
            granted_ppm=self._granted,
            host_spans=self._spans,
            sites_sampled=levels.count("sampled"),
            sites_off=levels.count("off"),
            periods=self._periods,
            periods_over=self._over,
            actions=self._actions,
            sites_refused=self._refused,
        )

    def _state(self, levels: list[Level]) -> State:
        if not self._periods:
            return "waiting"
        if self._governed > self._limits.budget_ppm and not self._can_reduce():
            return "over"
        whole = self._spans and self._granted == self._most
        return "kept" if whole and set(levels) <= {"attached"} else "reduced"

    def _can_reduce(self) -> bool:
        tracer = not self._fixed and self._granted > 0
        spans = self._spans and self._spans_over_budget
        return tracer or spans or any(s.level != "off" for s in self._sites.values())

    # --- measuring --------------------------------------------------------------------------------

    @property
    def _total(self) -> float:
        return sum(self._shares.values())

    @property
    def _governed(self) -> float:
        return self._total - self._tracer_share if self._fixed else self._total

    @property
    def _spans_over_budget(self) -> bool:
        return self._shares["bpf"] > self._limits.budget_ppm / 2

    def _begin(self, readings: Readings, now_ns: int) -> None:
        self._last, self._last_ns = readings, now_ns
        for site in self._sites.values():
            site.last = None
        for reading in readings.sites:
            known = self._site(reading)
            if known is not None:
                known.last = reading

    def _site(self, reading: SiteReading) -> _Site | None:
        found = self._sites.get(reading.id)
        if found is None and len(self._sites) < self._limits.sites_max:
            found = self._sites[reading.id] = _Site()
        return found

    def _measure(self, before: Readings, now: Readings, job_ns: int, real_ns: int) -> None:
        scale = PPM / job_ns
        # The kernel's counters are of this moment, and the job's time is of its latest drain. If
        # that is long ago or its device threads are over, the budget is that of one thread.
        kernel_scale = PPM / max(job_ns, real_ns)
        shares = {
            "tracer": max(0, now.tracer_ns - before.tracer_ns) * scale,
            "profiler": max(0, now.profiler_ns - before.profiler_ns) * scale,
            "bpf": 0.0,
            "sites": 0.0,
        }
        if now.bpf_window_ns > 0:
            shares["bpf"] = now.bpf_run_ns / now.bpf_window_ns * real_ns * kernel_scale
        self._refused = 0
        for reading in now.sites:
            site = self._site(reading)
            if site is None:
                self._refused += 1
            else:
                shares["sites"] += _measure_site(site, reading, kernel_scale, real_ns)
        there = {reading.id for reading in now.sites}
        for id in self._sites.keys() - there:
            del self._sites[id]
        self._shares = shares

    # --- deciding ---------------------------------------------------------------------------------

    def _decide(self) -> list[GovernorAction]:
        budget = self._limits.budget_ppm
        if self._governed > budget:
            self._over += 1
            self._calm = 0
            return self._reduce()
        self._calm = self._calm + 1 if self._governed < budget * self._limits.calm else 0
        return self._restore() if self._calm >= self._limits.calm_periods else []

    def _reduce(self) -> list[GovernorAction]:
        actions = []
        bpf = self._shares["bpf"]
        if self._spans and self._spans_over_budget:
            self._spans = False
            self._spans_quiet.take(self._periods, self._limits)
            why = f"the host's programs take {_percent(bpf)}: thread times as totals only"
            actions.append(GovernorAction("fall_back", "host.spans", 0, why))
            bpf = 0.0  # the next period shows the cost of the totals
            if self._governed - self._shares["bpf"] <= self._most:
                return actions
        room = max(0.0, self._most - bpf)
        actions += self._reduce_sites(max(room / 2, room - self._tracer_share))
        if not self._fixed:
            kept = sum(site.full_ppm * site.duty_ppm / PPM for site in self._sites.values())
            actions += self._reduce_tracer(max(0.0, room - kept))
        return actions

    @property
    def _tracer_share(self) -> float:
        return sum(self._shares.get(part, 0.0) for part in ("tracer", "profiler"))

    def _reduce_sites(self, room: float) -> list[GovernorAction]:
        """Keep the cheapest sites; sample the first that does not fit, detach the rest."""
        actions = []
        order = sorted(self._sites.items(), key=lambda item: (item[1].full_ppm, item[0]))
        for id, site in order:
            spent = site.full_ppm * site.duty_ppm / PPM
            if spent <= room:
                room -= spent
                continue
            duty = int(room / site.full_ppm * PPM)
            duty = duty if duty >= self._limits.duty_floor_ppm else 0
            room -= site.full_ppm * duty / PPM
            actions.append(self._shorten(id, site, duty))
        return actions

    def _shorten(self, id: str, site: _Site, duty_ppm: int) -> GovernorAction:
        site.level, site.duty_ppm = ("sampled" if duty_ppm else "off"), duty_ppm
        site.quiet.take(self._periods, self._limits)
        takes = f"always attached it takes {_percent(site.full_ppm)} of the job's time"
        if duty_ppm:
            return GovernorAction(
                "sample", id, duty_ppm, f"{takes}: {_percent(duty_ppm)} of it fits"
            )
        return GovernorAction("detach", id, 0, f"{takes}: off for cost")

    def _reduce_tracer(self, room: float) -> list[GovernorAction]:
        """Scale the tracers' share by its real cost; below the floor they only count launches."""
        spent, left = self._tracer_share, self._left(room)
        room = max(room, self._limits.tracer_least_ppm)
        if spent <= room or not self._granted:
            return []
        self._tracer_quiet.take(self._periods, self._limits)
        floor = self._limits.tracer_floor_ppm
        # Tracers that use less than their share are scaled from what they use: a smaller share
        # that still exceeds it would change nothing.
        used = min(self._granted, self._most, self._shares["tracer"] or self._granted)
        wanted = int(used * room / spent)
        took = f"the tracer took {_percent(spent)} of the job's time, and {left}"
        if wanted >= floor:
            self._granted = wanted
            return [GovernorAction("budget", "tracer", wanted, f"{took}: its windows are shorter")]
        if used > floor:
            self._granted = floor
            return [
                GovernorAction("budget", "tracer", floor, f"{took}: it has the shortest windows")
            ]
        self._granted = 0
        return [
            GovernorAction("fall_back", "tracer", 0, f"{took}: it is off until that has changed")
        ]

    def _left(self, room: float) -> str:
        """Describe how much of the budget is left for the tracer."""
        budget = f"the budget of {_percent(self._limits.budget_ppm)}"
        if room >= self._limits.tracer_least_ppm:
            return f"{budget} has {_percent(room)} left for it"
        return f"{budget} is used up by what the kernel's probes take"

    # --- returning --------------------------------------------------------------------------------

    def _restore(self) -> list[GovernorAction]:
        """Reverse one reduction at a time, then wait: its cost must be measured first."""
        room = self._most - self._governed
        action = self._restore_tracer() or self._restore_site(room) or self._restore_spans()
        if action is None:
            return []
        self._calm = 0
        return [action]

    def _restore_tracer(self) -> GovernorAction | None:
        if self._fixed or self._granted >= self._most or self._periods < self._tracer_quiet.due:
            return None
        kind: Kind = "budget" if self._granted else "restore"
        self._granted = max(self._limits.tracer_floor_ppm, min(self._most, self._granted * 3 // 2))
        return GovernorAction(
            kind, "tracer", self._granted, "quiet for long enough: longer windows"
        )

    def _restore_site(self, room: float) -> GovernorAction | None:
        """Restore one site, the cheapest first.

        The cost of a sampled site is known: it is restored if twice the cost fits. The cost of one
        that is off is not known, so it begins in the shortest windows.
        """
        for id, site in sorted(self._sites.items(), key=lambda each: each[1].full_ppm):
            if site.level == "attached" or self._periods < site.quiet.due:
                continue
            if site.level == "off":
                site.level, site.duty_ppm = "sampled", self._limits.duty_floor_ppm
                return GovernorAction(
                    "sample", id, site.duty_ppm, "quiet for long enough: tried again"
                )
            spare = room + site.spent_ppm
            if site.full_ppm * 2 <= spare:
                site.level, site.duty_ppm = "attached", PPM
                why = f"it would take {_percent(site.full_ppm)} of the job's time"
                return GovernorAction("attach", id, PPM, f"{why}, which fits")
            duty = int(spare / 2 / site.full_ppm * PPM)
            if duty > site.duty_ppm * 3 // 2:
                site.duty_ppm = duty
                return GovernorAction("sample", id, duty, "quiet for long enough: longer windows")
        return None

    def _restore_spans(self) -> GovernorAction | None:
        if self._spans or self._periods < self._spans_quiet.due:
            return None
        self._spans = True
        return GovernorAction(
            "restore", "host.spans", 0, "quiet for long enough: thread timelines again"
        )


def _measure_site(site: _Site, reading: SiteReading, scale: float, real_ns: int) -> float:
    """Take in one site's period; returns its share. A counter that fell began anew."""
    last, site.last = site.last, reading
    if last is None or reading.hits < last.hits or reading.on_ns < last.on_ns:
        last = SiteReading(reading.id, 0, 0, 0)
    hits, on_ns = reading.hits - last.hits, min(reading.on_ns - last.on_ns, real_ns)
    site.spent_ppm = hits * reading.hit_ns * scale
    if on_ns > 0:
        full = site.spent_ppm * real_ns / on_ns
        site.full_ppm = max(full, site.full_ppm * 0.75 + full * 0.25)  # a rise is believed at once
    if site.level == "sampled":  # a window may be longer than a period: what counts is its share
        site.spent_ppm = site.full_ppm * site.duty_ppm / PPM
    return site.spent_ppm


def _percent(ppm: float) -> str:
    return f"{ppm / 1e4:.3g} %"
