# SPDX-License-Identifier: Apache-2.0
"""The fit and the model against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.telemetry import Distribution
from stoker.scheduler.sim.thermal_model import (
    FAULTY_FACTOR,
    TAU_S,
    THROTTLED,
    DeviceTemperatures,
    Fit,
    fit,
)

TELEMETRY = {
    "gpu_util_pct_x": Distribution((0, 50, 51, 100), (0, 0, 90, 100)),
    "gpu_power_w_x": Distribution((0, 50, 51, 100), (50, 50, 250, 250)),
    "gpu_temp_c_x": Distribution((0, 50, 51, 100), (20, 30, 45, 65)),
}
FOUND = fit(TELEMETRY, "x")
STEADY = Fit(50, 50.0, 0.1, TELEMETRY["gpu_power_w_x"], Distribution((0, 100), (25, 25)))


def devices(known: Fit = STEADY, *, warmer_c: float = 0.0, faulty: float = 0.0,
            neighbours: float = 0.0) -> DeviceTemperatures:  # fmt: skip
    return DeviceTemperatures(
        known, 1, 2, Chance(1), warmer_c=warmer_c, faulty=faulty, neighbours=neighbours
    )


def test_the_resistance_is_the_warmth_over_the_power_that_work_adds() -> None:
    assert FOUND.resting == 50
    assert FOUND.idle_w == pytest.approx(50)
    work_w, work_c = 250 - 2, (65 + 45) / 2 - 0.1
    assert FOUND.kelvin_per_w == pytest.approx((work_c - 25) / (work_w - 50), rel=0.01)


def test_parts_go_through_the_resting_and_the_working_samples() -> None:
    assert [FOUND.resting_c(part) for part in (0, 0.5, 1)] == [20, 25, 30]
    assert [FOUND.busy_w(part) for part in (0.5, 1)] == [250, 250]


def test_a_device_at_rest_stays_as_warm_as_it_is() -> None:
    some = devices()
    assert some.celsius == pytest.approx([25, 25])
    some.step(np.array([50.0, 50.0]), 1000, 85)
    assert some.celsius == pytest.approx([25, 25])


def test_work_warms_a_device_to_its_end_temperature_with_one_time_constant() -> None:
    some = devices()
    some.step(np.array([250.0, 50.0]), TAU_S, 85)
    assert some.celsius == pytest.approx([25 + 20 * (1 - np.exp(-1)), 25])
    some.step(np.array([250.0, 50.0]), 100 * TAU_S, 85)
    assert some.celsius == pytest.approx([45, 25])


def test_two_half_steps_are_one_step() -> None:
    one, two = devices(), devices()
    watts = np.array([250.0, 100.0])
    one.step(watts, 60, 85)
    two.step(watts, 30, 85)
    two.step(watts, 30, 85)
    assert one.celsius == pytest.approx(two.celsius)


def test_a_device_warms_the_others_of_its_node() -> None:
    some = devices(neighbours=0.01)
    some.step(np.array([250.0, 50.0]), 100 * TAU_S, 85)
    assert some.celsius == pytest.approx([45, 27])


def test_a_warmer_room_warms_all_by_as_much() -> None:
    assert devices(warmer_c=15).celsius == pytest.approx([40, 40])


def test_faulty_cooling_raises_the_resistance() -> None:
    some = devices(faulty=1.0)
    some.step(np.array([250.0, 50.0]), 100 * TAU_S, 200)
    inlet = 25 - 50 * 0.1
    assert some.celsius == pytest.approx(
        [inlet + 0.1 * FAULTY_FACTOR * 250, inlet + 0.1 * FAULTY_FACTOR * 50]
    )


def test_a_device_at_its_limit_is_slow_until_it_is_well_below() -> None:
    some, watts = devices(), np.array([250.0, 50.0])
    some.step(watts, 100 * TAU_S, 44)
    assert list(some.speed) == [THROTTLED, 1.0] and some.celsius[0] == pytest.approx(45)
    some.step(watts, 20, 44)
    assert 41 < some.celsius[0] < 44 and some.speed[0] == THROTTLED
    some.step(watts, 100 * TAU_S, 44)
    assert some.celsius[0] == pytest.approx(35) and some.speed[0] == 1.0


@pytest.mark.parametrize("gone", sorted(TELEMETRY))
def test_a_metric_that_is_missing_is_named(gone: str) -> None:
    with pytest.raises(BadRequest, match=f"no {gone}"):
        fit({name: each for name, each in TELEMETRY.items() if name != gone}, "x")


@pytest.mark.parametrize(
    ("metric", "flat"),
    [("gpu_util_pct_x", 0.0), ("gpu_util_pct_x", 100.0), ("gpu_power_w_x", 50.0),
     ("gpu_temp_c_x", 30.0)],
)  # fmt: skip
def test_telemetry_that_tells_no_rest_from_work_is_refused(metric: str, flat: float) -> None:
    with pytest.raises(BadRequest, match="no model fits"):
        fit({**TELEMETRY, metric: Distribution((0, 100), (flat, flat))}, "x")
