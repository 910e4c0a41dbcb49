# SPDX-License-Identifier: Apache-2.0
"""The efficiency of a job: what its use comes to, and why a value is not known."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.probes.kernels.trace_summary import THROTTLED
from stoker.tui.calls.efficiency import Efficiency, efficiency

SECOND = 1_000_000_000
BUSY = {"id": "gpu-0", "window_ns": 10, "causes": {"kernel_ns": 8, "held_idle_ns": 2}}


def job(**fields: object) -> dict[str, Any]:
    made: dict[str, Any] = {
        "times": {"started_ns": SECOND, "ended_ns": 5 * SECOND},
        "spec": {"gpu_milli": 1000, "cpu_milli": 2000, "memory_bytes": 1 << 30},
        "usage": {"cpu_ns": 6 * SECOND, "memory_peak_bytes": 1 << 29},
        "trace": {"devices": [BUSY], "kernels": []},
    }
    return made | fields


def found(**fields: object) -> Efficiency:
    made = efficiency(job(**fields), (), 9 * SECOND)
    assert made is not None
    return made


def test_an_ended_job_has_all_of_it() -> None:
    made = found()
    assert made.bottleneck is not None and made.bottleneck.name == "GPU-bound"
    assert (made.ran_ns, made.cpus, made.cpus_asked) == (4 * SECOND, 1.5, 2.0)
    assert (made.memory_peak_bytes, made.memory_asked_bytes) == (1 << 29, 1 << 30)
    assert made.absent == ""


def test_the_energy_of_all_devices_is_added_up_or_has_its_reason() -> None:
    assert found().energy_absent == "its node does not tell it"
    one = BUSY | {"energy": {"joules": 40.0, "read_ns": 9, "absent": ""}}
    lost = BUSY | {"energy": {"joules": None, "read_ns": 0, "absent": "GPU is lost"}}
    made = found(trace={"devices": [one, one]})
    assert (made.energy_j, made.energy_absent) == (80.0, "")
    made = found(trace={"devices": [one, lost]})
    assert (made.energy_j, made.energy_absent) == (None, "GPU is lost")
    rank = {"rank": 0, **one, "energy": [one["energy"], one["energy"]]}
    gang = efficiency(job(), [rank, rank], 9 * SECOND)
    assert gang is not None and gang.energy_j == 160.0


def test_a_part_of_a_device_wastes_that_part_and_has_no_energy() -> None:
    made = found(spec={"gpu_milli": 500})
    assert made.wasted_ns == 1 and made.energy_j is None
    assert made.energy_absent == "a part of a device has no counter of its own"
    assert found().wasted_ns == 2
    plain = found(spec={"gpu_milli": 0}, trace=None)
    assert (plain.energy_j, plain.energy_absent, plain.wasted_ns) == (None, "", None)


def test_a_running_job_has_no_use_of_cpu_and_memory_yet() -> None:
    made = found(times={"started_ns": SECOND, "ended_ns": None}, usage=None)
    assert made.ran_ns == 8 * SECOND
    assert made.cpus is None and made.memory_peak_bytes is None and made.bottleneck is not None


def test_the_start_of_a_very_short_run_is_not_its_use_of_cpus() -> None:
    short = found(times={"started_ns": SECOND, "ended_ns": SECOND + 75_000})
    assert short.cpus is None and short.memory_peak_bytes == 1 << 29


def test_a_job_that_never_started_has_none() -> None:
    never = job(times={"started_ns": None, "ended_ns": SECOND})
    assert efficiency(never, (), SECOND) is None


@pytest.mark.parametrize(
    ("fields", "absent"),
    [
        ({"trace": None, "trace_absent": "node n1 does not answer"}, "node n1 does not answer"),
        ({"trace": None}, "it was not traced"),
        ({"trace": {"devices": []}}, "no device time is known yet"),
        ({"trace": None, "spec": {"gpu_milli": 0}}, ""),
    ],
)
def test_what_is_not_known_has_its_reason(fields: dict[str, Any], absent: str) -> None:
    made = found(**fields)
    assert (made.bottleneck, made.absent) == (None, absent)


def test_a_gang_is_judged_over_its_ranks() -> None:
    waits = {"rank": 1, "window_ns": 90, "causes": {"peer_ns": 90}, "absent": ""}
    runs = {"rank": 0, "window_ns": 90, "causes": {"kernel_ns": 80, "peer_ns": 10}, "absent": ""}
    made = efficiency(job(), (runs, waits), SECOND)
    assert made is not None and made.bottleneck is not None
    assert (made.bottleneck.name, made.bottleneck.devices) == ("waiting for a peer", 2)


def test_throttled_devices_come_with_what_the_trace_says_the_worst_first() -> None:
    power = {"source": "counter", "busy_ns": 4, "error_ns": 1, "causes": []}
    much = {"id": "gpu-1", "window_ns": 10, "causes": {"throttled_ns": 4}, "throttle": power}
    little = {"id": "gpu-2", "window_ns": 10, "causes": {"throttled_ns": 1}}
    made = found(trace={"devices": [BUSY, little, much], "kernels": []})
    assert [(row.device, row.ns, row.share) for row in made.throttled] == [
        ("gpu-1", 4, 0.4),
        ("gpu-2", 1, 0.1),
    ]
    assert [row.throttle for row in made.throttled] == [power, None]
    assert made.throttled_absent == ""


@pytest.mark.parametrize("key", THROTTLED.values())
def test_why_throttling_is_not_known_is_what_the_trace_says(key: str) -> None:
    made = found(trace={"devices": [BUSY], "kernels": [], "absent": {key: "no counters"}})
    assert (made.throttled, made.throttled_absent) == ((), "no counters")
