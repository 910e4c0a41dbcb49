# SPDX-License-Identifier: Apache-2.0
"""CLOCK_BOOTTIME never goes back or jumps; CLOCK_REALTIME can be set either way."""

from __future__ import annotations

import random

from stoker.mesh.sim.host_clock import DRIFT_PPM_MAX, HostClock
from stoker.mesh.sim.timeline import SECOND, Timeline


def clock_of(seed: int) -> tuple[Timeline, HostClock]:
    timeline = Timeline()
    return timeline, HostClock(timeline, random.Random(seed))


def test_a_step_of_the_date_moves_the_date_alone() -> None:
    timeline, clock = clock_of(1)
    boot, real = clock.boot(), clock.real()
    clock.step(-3600 * SECOND)
    assert (clock.boot(), clock.real()) == (boot, real - 3600 * SECOND)
    timeline.run(100 * SECOND)
    drift = abs(clock.boot() - boot - 100 * SECOND)
    assert 0 < drift <= 100 * SECOND * DRIFT_PPM_MAX // 1_000_000


def test_a_stopped_clock_goes_on_from_where_it_stood() -> None:
    timeline, clock = clock_of(2)
    timeline.run(SECOND)
    clock.stop()
    stood = clock.boot()
    timeline.run(10 * SECOND)
    assert clock.boot() == stood
    clock.go_on()
    assert abs(clock.boot() - stood) <= 10 * SECOND * DRIFT_PPM_MAX // 1_000_000
    timeline.run(12 * SECOND)
    assert clock.boot() > stood + SECOND


def test_a_new_boot_begins_anew() -> None:
    timeline, clock = clock_of(3)
    timeline.run(50 * SECOND)
    clock.reboot()
    assert clock.boot() == SECOND
