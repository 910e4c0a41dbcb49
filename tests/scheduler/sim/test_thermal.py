# SPDX-License-Identifier: Apache-2.0
"""Rooms small enough to be worked out by hand, and what a placement that knows heat must gain."""

from __future__ import annotations

import itertools

import pytest

from stoker.scheduler.policies import Placement
from stoker.scheduler.sim import thermal
from stoker.scheduler.sim.telemetry import Distribution
from stoker.scheduler.sim.thermal import ThermalRoom, simulate
from stoker.scheduler.sim.thermal_model import Fit

POWER = Distribution((0, 50, 51, 100), (50, 50, 250, 250))
FLAT = Fit(50, 50.0, 0.1, POWER, Distribution((0, 100), (25, 25)))
"""Every device at 25 degrees at rest, 45 at work."""
VARIED = Fit(50, 50.0, 0.1, POWER, Distribution((0, 50, 100), (20, 40, 60)))
"""Devices at 20 to 40 degrees at rest, 40 to 60 at work."""
SMALL = ThermalRoom(nodes=4, node_gpus=4, hours=6, mean_job_s=900)


def test_the_end_temperature_of_work_is_the_peak() -> None:
    told = simulate(FLAT, SMALL._replace(mean_job_s=3600), Placement.BEST)
    assert told.peak_c == pytest.approx(45, abs=0.1)
    assert (told.over_limit, told.lost, told.lost_gpu_hours) == (0, 0, 0)


def test_nothing_is_lost_below_the_limit_and_half_the_speed_above() -> None:
    """Devices that are too hot even when slow: every second at work counts half."""
    hot = SMALL._replace(limit_c=26)
    told = simulate(FLAT, hot, Placement.BEST)
    assert told.lost is not None and 0.4 < told.lost < 0.5
    cool = simulate(FLAT, SMALL, Placement.BEST)
    assert told.avg_jct_s is not None and cool.avg_jct_s is not None
    assert told.avg_jct_s > 1.5 * cool.avg_jct_s


def test_held_time_is_what_was_asked_for() -> None:
    told = simulate(FLAT, SMALL._replace(hours=100, load=0.3), Placement.BEST)
    assert told.allocation == pytest.approx(0.3, abs=0.05)


def test_a_room_without_jobs_is_at_rest() -> None:
    told = simulate(FLAT, SMALL._replace(load=1e-9), Placement.BEST)
    assert (told.jobs, told.peak_c, told.p99_c, told.over_limit) == (0, 25, None, None)
    assert told.kwh == pytest.approx(16 * 50 * 6 / 1000)


def test_every_placement_is_asked_for_the_same_jobs() -> None:
    first = [list(itertools.islice(thermal.arrivals(FLAT, SMALL), 50)) for _ in range(2)]
    seen = [[(job.asked_s, job.gpus, job.left_s, job.watts) for job in jobs] for jobs in first]
    assert seen[0] == seen[1]
    assert {gpus for _, gpus, _, _ in seen[0]} == {1, 2, 4}


def test_the_same_seed_gives_the_same_figures_and_another_gives_others() -> None:
    one, two = (simulate(VARIED, SMALL, Placement.THERMAL) for _ in range(2))
    assert one == two
    assert one != simulate(VARIED, SMALL._replace(seed=1), Placement.THERMAL)


def test_cool_places_are_taken_first() -> None:
    """At a low load the thermal placement keeps to the cool half of the room."""
    room = SMALL._replace(nodes=16, node_gpus=1, load=0.2, hours=24)
    warm, cool = (simulate(VARIED, room, each) for each in (Placement.BEST, Placement.THERMAL))
    assert cool.p99_c is not None and warm.p99_c is not None and cool.p99_c < warm.p99_c - 2


def test_time_on_devices_with_faulty_cooling_is_told() -> None:
    none, some, every = (
        simulate(FLAT, SMALL._replace(faulty=part), Placement.BEST).on_faulty
        for part in (0, 0.5, 1)
    )
    assert some is not None and none == 0 and 0 < some < 1 and every == 1


def test_less_work_is_lost_where_heat_is_known() -> None:
    room = SMALL._replace(load=0.4, hours=24, limit_c=50)
    warm, cool = (simulate(VARIED, room, each) for each in (Placement.BINPACK, Placement.THERMAL))
    assert cool.lost is not None and warm.lost is not None and cool.lost < warm.lost


def test_progress_is_told_of_every_step() -> None:
    told: list[float] = []
    simulate(FLAT, SMALL._replace(hours=1), Placement.BEST, told.append)
    assert told == [1] * 120
