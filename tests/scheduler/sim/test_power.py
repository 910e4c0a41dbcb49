# SPDX-License-Identifier: Apache-2.0
"""A machine's draw, computed by hand from the table, and savings at equal allocation."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.sim.cluster import Placed
from stoker.scheduler.sim.openb import Machine, TraceTask
from stoker.scheduler.sim.power import MeanDraw, Meter, check_models, cpu_watts, saving_pct

T4 = Machine("a", 104_000, 1 << 40, 2, "T4")
"""52 cores: 4 sockets of 16."""


@pytest.mark.parametrize(
    ("used_milli", "watts"),
    [
        (0, 4 * 15),
        (1, 120 + 3 * 15),
        (32_000, 120 + 3 * 15),
        (32_001, 2 * 120 + 2 * 15),
        (104_000, 4 * 120),
    ],
)
def test_a_socket_with_any_work_draws_all(used_milli: int, watts: int) -> None:
    assert cpu_watts(T4, used_milli) == watts


def test_a_gpu_with_any_task_draws_all() -> None:
    meter = Meter([T4, Machine("b", 8000, 1, 1, "G3")])
    idle = 60 + 2 * 10 + 15 + 50
    assert meter.watts == idle
    meter.took(TraceTask(1000, 1, 1, 300), Placed(1, 0, (DeviceShare(1, 300),)))
    assert meter.watts == idle + (120 - 15) + (70 - 10)
    meter.took(TraceTask(1000, 1, 1, 300), Placed(2, 0, (DeviceShare(1, 300),)))
    assert meter.watts == idle + (120 - 15) + (70 - 10)
    meter.took(TraceTask(1000, 1, 1, 1000), Placed(3, 1, (DeviceShare(0, 1000),)))
    assert meter.watts == idle + (120 - 15) + (70 - 10) + (120 - 15) + (400 - 50)


def test_the_bound_fills_the_cheapest_gpus_and_sockets_first() -> None:
    meter = Meter([T4, Machine("b", 8000, 1, 1, "G3")])
    assert meter.bound() == meter.watts
    idle = meter.watts
    meter.took(TraceTask(16_000, 1, 1, 500), Placed(1, 1, (DeviceShare(0, 500),)))
    assert meter.bound() == idle + 0.5 * 60 + 0.5 * 105
    for at in (0, 1):
        meter.took(TraceTask(0, 1, 1, 1000), Placed(2, 0, (DeviceShare(at, 1000),)))
    assert meter.bound() == idle + 2 * 60 + 0.5 * 350 + 0.5 * 105
    assert meter.bound() <= meter.watts


def test_a_model_of_unknown_draw_is_refused() -> None:
    check_models([T4, Machine("c", 1000, 1, 0, "")], "nodes.csv")
    with pytest.raises(
        BadRequest, match=r"nodes\.csv: no wattage is known for GPU model 'H200' of b"
    ):
        check_models([T4, Machine("b", 1000, 1, 1, "H200")], "nodes.csv")


def test_savings_are_at_equal_allocation() -> None:
    theirs = MeanDraw([0.0, 10.0, 20.0], [100.0, 200.0, 300.0])
    ours = MeanDraw([0.0, 5.0, 20.0], [100.0, 100.0, 310.0])
    assert saving_pct(ours, theirs, 5.0) == pytest.approx(100 * (1 - 100 / 150))
    assert saving_pct(ours, theirs, 20.0) == pytest.approx(100 * (1 - 310 / 300))
    assert saving_pct(ours, theirs, 21.0) is None
