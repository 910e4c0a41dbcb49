# SPDX-License-Identifier: Apache-2.0
"""The bottleneck of a job: each cause in turn, the launches of short kernels, idle devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.wire.bottleneck import BY_CAUSE, LAUNCHES_LEAST, Bottleneck, bottleneck
from stoker.probes.kernels.trace_summary import Causes


def device(id: str = "gpu-0", **causes: int | None) -> dict[str, Any]:
    return {"id": id, "window_ns": sum(each or 0 for each in causes.values()), "causes": causes}


def kernel(count: int, mean_ns: int, unseen: int = 0) -> dict[str, Any]:
    return {"name": "k", "count": count, "total_ns": mean_ns * (count + unseen), "unseen": unseen}


def judged(*devices: dict[str, Any], kernels: tuple[dict[str, Any], ...] = ()) -> Bottleneck:
    found = bottleneck(devices, kernels)
    assert found is not None
    return found


def test_every_cause_of_a_device_has_a_bottleneck() -> None:
    assert set(BY_CAUSE) == set(msgspec.structs.asdict(Causes()))


@pytest.mark.parametrize("cause", BY_CAUSE)
def test_the_largest_cause_is_the_bottleneck(cause: str) -> None:
    causes = dict.fromkeys(BY_CAUSE, 10) | {cause: 110}
    found = judged(device(**causes))
    assert (found.name, found.share, found.held_ns) == (BY_CAUSE[cause], 0.55, 200)
    assert (found.second_share, found.devices) == (0.05, 1)
    assert found.busy == (0.6 if cause in ("kernel_ns", "copy_ns") else 0.1)


def test_devices_are_judged_together() -> None:
    busy = device("gpu-0", kernel_ns=60, host_blocked_ns=40)
    found = judged(busy, device("gpu-1", held_idle_ns=90, host_blocked_ns=10))
    assert (found.name, found.share, found.idle_ns) == ("idle", 0.45, 90)
    assert found.idle_devices == ()  # the name says it already
    found = judged(busy, busy, device("gpu-1", held_idle_ns=90, host_blocked_ns=10))
    assert (found.name, found.idle_devices) == ("GPU-bound", ("gpu-1",))


@pytest.mark.parametrize(
    ("kernels", "name", "launches"),
    [
        ((kernel(LAUNCHES_LEAST, 8_000),), "launch-bound", LAUNCHES_LEAST),
        ((kernel(60, 8_000, unseen=60), kernel(20, 4_000)), "launch-bound", 140),
        ((kernel(LAUNCHES_LEAST - 1, 8_000),), "host-bound", 0),
        ((kernel(LAUNCHES_LEAST, 250_000),), "host-bound", 0),
        ((), "host-bound", 0),
    ],
)
def test_a_host_that_only_launches_is_told_from_one_that_computes(
    kernels: tuple[dict[str, Any], ...], name: str, launches: int
) -> None:
    found = judged(device(host_on_cpu_ns=80, kernel_ns=20), kernels=kernels)
    assert (found.name, found.launches) == (name, launches)
    assert judged(device(host_on_cpu_ns=20, kernel_ns=80), kernels=kernels).launches == 0


def test_a_cause_that_is_not_measured_counts_as_nothing() -> None:
    found = judged(device(kernel_ns=5, throttled_ns=None))
    assert (found.name, found.share, found.second) == ("GPU-bound", 1.0, None)


@pytest.mark.parametrize("devices", [(), (device(),)])
def test_no_time_has_no_bottleneck(devices: tuple[dict[str, Any], ...]) -> None:
    assert bottleneck(devices, ()) is None
