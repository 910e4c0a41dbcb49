# SPDX-License-Identifier: Apache-2.0
"""A simulation of jobs on devices that warm up: the effect of a placement on temperatures and work.

The core places the jobs; this file makes jobs, heat and observations. Time advances in steps: ends
and arrivals within one are reported at its end. Invariant: the same seed gives every placement the
same devices and the same jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Start, StateChanged
from stoker.scheduler.hints import Sample
from stoker.scheduler.policies import Order, Placement
from stoker.scheduler.records import (
    BATCH_REQUESTS_MAX,
    STATE_CODES,
    QueueSet,
    Request,
    TaskOutcome,
    Term,
)
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.jct_cluster import cluster_of
from stoker.scheduler.sim.thermal_model import DeviceTemperatures, Fit, Numbers
from stoker.scheduler.wire_commands import Submit

SECOND: Final = 1_000_000_000
SIZES: Final = ((1, 0.5), (2, 0.2), (4, 0.15), (8, 0.15))
"""(devices of a job, how often): within one node, as most jobs of the published traces."""
_DEGREES_MAX: Final = 200
_TOLD_AGAIN_C: Final = 0.25
"""The least difference from the last reported sample at which a sample is reported."""
_LIVE_MAX: Final = 16_384
Flags = NDArray[np.bool_]
_SUCCEEDED: Final = STATE_CODES["succeeded"]


class ThermalRoom(NamedTuple):
    """The devices and their load."""

    nodes: int = 32
    node_gpus: int = 8
    hours: float = 24.0
    load: float = 0.6
    """The requested device time over the available one."""
    mean_job_s: float = 3600.0
    limit_c: float = 85.0
    """The temperature at which a device slows down; 85 is the highest operating one of an A100."""
    warmer_c: float = 0.0
    """An offset to every inlet temperature, e.g. for a failed chiller."""
    faulty: float = 0.0
    """Share of devices whose cooling is faulty."""
    neighbours: float = 0.0
    """Kelvin by which a device warms the others of its node for each watt that it adds."""
    step_s: float = 30.0
    seed: int = 0


class HeatFigures(NamedTuple):
    """The figures of one placement. Shares are of the device time that jobs held."""

    placement: str
    jobs: int
    """The number of jobs that ended within the time."""
    peak_c: float
    p99_c: float | None
    """The 99th percentile over busy devices; None if none was ever busy."""
    over_limit: float | None
    """Share of held time in which the device was at or above its limit."""
    lost: float | None
    """Share of held time in which no work was done because a device of the job was slow."""
    lost_gpu_hours: float
    allocation: float
    """The mean share of devices that were held."""
    avg_wait_s: float | None
    avg_jct_s: float | None
    on_faulty: float | None
    """Share of held time that was on devices with faulty cooling."""
    kwh: float


class _Job:
    """A pending or running job."""

    __slots__ = ("asked_s", "devices", "gpus", "left_s", "node", "watts")

    def __init__(self, asked_s: float, gpus: int, left_s: float, watts: float) -> None:
        self.asked_s, self.gpus, self.left_s, self.watts = asked_s, gpus, left_s, watts
        self.node = 0
        self.devices = np.zeros(0, dtype=np.intp)


class _Seen:
    """The sums over all steps, in device-seconds."""

    def __init__(self) -> None:
        self.held_s = self.over_s = self.lost_s = self.faulty_s = self.joules = 0.0
        self.peak_c = -273.0
        self.degrees = np.zeros(_DEGREES_MAX + 1)
        """The held seconds by whole degree."""

    def power(self, watts: Numbers, seconds: float) -> None:
        self.joules += float(watts.sum()) * seconds

    def heat(self, celsius: Numbers, held: Flags, faulty: Flags, room: ThermalRoom) -> None:
        self.peak_c = max(self.peak_c, float(celsius.max()))
        self.held_s += float(held.sum()) * room.step_s
        self.faulty_s += float((held & faulty).sum()) * room.step_s
        warm = celsius[held]
        self.over_s += float((warm >= room.limit_c).sum()) * room.step_s
        whole = np.clip(np.ceil(warm), 0, _DEGREES_MAX).astype(np.int64)
        self.degrees += np.bincount(whole, minlength=_DEGREES_MAX + 1) * room.step_s

    def percentile_c(self, part: float) -> float | None:
        """Return the whole degree that this part of the held time did not exceed."""
        if not self.held_s:
            return None
        return float(np.searchsorted(self.degrees.cumsum(), part * self.held_s))


def arrivals(known: Fit, room: ThermalRoom) -> Iterator[_Job]:
    """Yield independent jobs endlessly, at the rate that makes the room's load."""
    chance = Chance(room.seed + 1)
    sizes = [(gpus, often) for gpus, often in SIZES if gpus <= room.node_gpus]
    often_all = sum(often for _, often in sizes)
    mean_gpus = sum(gpus * often for gpus, often in sizes) / often_all
    gap_s = mean_gpus * room.mean_job_s / (room.load * room.nodes * room.node_gpus)
    now = 0.0
    while True:
        now += chance.gap(gap_s)
        drawn, gpus = chance.unit() * often_all, sizes[-1][0]
        for size, often in sizes:
            drawn -= often
            if drawn < 0:
                gpus = size
                break
        yield _Job(now, gpus, chance.gap(room.mean_job_s), known.busy_w(chance.unit()))


def _submit(job: _Job) -> Submit:
    return Submit(1, gpu_milli=job.gpus * 1000, estimate_ns=max(1, round(job.left_s * SECOND)))


def simulate(
    known: Fit,
    room: ThermalRoom,
    placement: Placement,
    progress: Callable[[float], None] | None = None,
) -> HeatFigures:
    """Run one placement through the room's hours; `progress` is called at every step."""
    return _Simulation(known, room, placement).run(progress or (lambda steps: None))


class _Simulation:
    def __init__(self, known: Fit, room: ThermalRoom, placement: Placement) -> None:
        self.known, self.room, self.placement = known, room, placement
        self.devices = DeviceTemperatures(
            known, room.nodes, room.node_gpus, Chance(room.seed), warmer_c=room.warmer_c,
            faulty=room.faulty, neighbours=room.neighbours,
        )  # fmt: skip
        self.arrivals = arrivals(known, room)
        self.next = next(self.arrivals)
        self.count = room.nodes * room.node_gpus
        self.watts = np.full(self.count, known.idle_w)
        self.held = np.zeros(self.count, dtype=bool)
        self.told_c = np.full(self.count, -273.0)
        self.jobs: dict[int, _Job] = {}
        self.running: dict[int, _Job] = {}
        self.jcts: list[float] = []
        self.waits: list[float] = []
        self.seen = _Seen()
        self.core = self._core()

    def _core(self) -> Core:
        cluster = cluster_of([("gpu", self.count)], self.room.node_gpus)
        live = _LIVE_MAX
        core = Core(Limits(self.room.nodes, self.count, live, 1, live, 256, 1, 1))
        setup: list[Request] = [Term(1, 1), *cluster.requests({})]
        setup.append(QueueSet(0, order=Order.ANY, placement=self.placement))
        for at in range(0, len(setup), BATCH_REQUESTS_MAX):
            proposal = core.propose(setup[at : at + BATCH_REQUESTS_MAX], SECOND, measure=False)
            core.apply(proposal.commands, SECOND)
        return core

    def run(self, progress: Callable[[float], None]) -> HeatFigures:
        room = self.room
        for step in range(1, math.ceil(room.hours * 3600 / room.step_s) + 1):
            now, speed = step * room.step_s, self.devices.speed
            self.seen.power(self.devices.idle_w + self.devices.added_w(self.watts), room.step_s)
            self.devices.step(self.watts, room.step_s, room.limit_c)
            self.seen.heat(self.devices.celsius, self.held, self.devices.faulty, room)
            self._observe()
            self._decide(now, [*self._worked(now, speed), *self._arrived(now)])
            progress(1)
        return self._figures()

    def _observe(self) -> None:
        """Report the devices whose temperature has changed, as each node's agent would."""
        watts = self.devices.idle_w + self.devices.added_w(self.watts)
        celsius = self.devices.celsius
        changed = np.flatnonzero(np.abs(celsius - self.told_c) >= _TOLD_AGAIN_C)
        self.told_c[changed] = celsius[changed]
        gpus, observe, limit = self.room.node_gpus, self.core.observe_device, self.room.limit_c
        for at in changed.tolist():
            sample = Sample(1, float(watts[at]), float(celsius[at]), limit)
            observe(at // gpus + 1, at % gpus, sample)

    def _worked(self, now: float, speed: Numbers) -> list[Request]:
        """Advance each job at its slowest device's speed; return the outcomes of finished ones."""
        told: list[Request] = []
        for number, job in list(self.running.items()):
            worked = self.room.step_s * float(speed[job.devices].min())
            self.seen.lost_s += (self.room.step_s - worked) * job.gpus
            job.left_s -= worked
            if job.left_s > 0:
                continue
            told.append(TaskOutcome(number, 1, job.node, _SUCCEEDED))
            self.watts[job.devices] = self.known.idle_w
            self.held[job.devices] = False
            self.jcts.append(now - job.asked_s)
            del self.running[number]
        return told

    def _arrived(self, now: float) -> list[_Job]:
        came = []
        while self.next.asked_s <= now:
            came.append(self.next)
            self.next = next(self.arrivals)
        return came

    def _decide(self, now: float, told: list[Request | _Job]) -> None:
        at_ns = SECOND + round(now * SECOND)
        while told:
            batch, told = told[:BATCH_REQUESTS_MAX], told[BATCH_REQUESTS_MAX:]
            requests = [_submit(each) if isinstance(each, _Job) else each for each in batch]
            proposal = self.core.propose(requests, at_ns, self.room.seed, measure=False)
            came = (each for each in batch if isinstance(each, _Job))
            for effect in self.core.apply(proposal.commands, at_ns):
                if isinstance(effect, StateChanged) and effect.state == "pending":
                    self.jobs[effect.job] = next(came)
                elif isinstance(effect, Start):
                    self._start(effect, now)

    def _start(self, effect: Start, now: float) -> None:
        job = self.running[effect.job] = self.jobs.pop(effect.job)
        first = (effect.node - 1) * self.room.node_gpus
        job.node = effect.node
        job.devices = np.array([first + share.index for share in effect.shares])
        self.watts[job.devices] = job.watts
        self.held[job.devices] = True
        self.waits.append(now - job.asked_s)

    def _figures(self) -> HeatFigures:
        seen, total = self.seen, self.count * self.room.hours * 3600
        held = seen.held_s
        return HeatFigures(
            placement=self.placement.name.lower(),
            jobs=len(self.jcts),
            peak_c=seen.peak_c,
            p99_c=seen.percentile_c(0.99),
            over_limit=seen.over_s / held if held else None,
            lost=seen.lost_s / held if held else None,
            lost_gpu_hours=seen.lost_s / 3600,
            allocation=held / total,
            avg_wait_s=sum(self.waits) / len(self.waits) if self.waits else None,
            avg_jct_s=sum(self.jcts) / len(self.jcts) if self.jcts else None,
            on_faulty=seen.faulty_s / held if held else None,
            kwh=seen.joules / 3.6e6,
        )
