# SPDX-License-Identifier: Apache-2.0
"""Launches as the setter of a device without a limit: a fake device, fake jobs, a fake clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.power.setters.launch_limit import LEAST_SHARE, LaunchLimit, OnDevice, on_device
from stoker.agent.tracing.launch_throttle import LaunchThrottle
from stoker.probes.kernels.job_trace import HOLD_WHOLE, TracerAnswer
from stoker.scheduler.nouns import TaskKey

DRAWS_W = 200.0
KEY = TaskKey(7, 1, 0)
TICK_S = 0.1


class Plant:
    """A device whose power follows the share late; `ahead`: how far launches are sent ahead."""

    def __init__(self, holds: LaunchThrottle, idle_w: float = 40.0, ahead: float = 1.0) -> None:
        self.now_s = 100.0
        self.measured_w: float | None = DRAWS_W
        self._holds, self._idle_w, self._ahead = holds, idle_w, ahead

    def advance(self) -> None:
        self.now_s += TICK_S
        share = min(1.0, self._ahead * self._holds.share(["gpu-0"]) / HOLD_WHOLE)
        goal = self._idle_w + share * (DRAWS_W - self._idle_w)
        if self.measured_w is not None:
            self.measured_w += (goal - self.measured_w) * TICK_S / 0.3


@pytest.fixture
def holds() -> LaunchThrottle:
    return LaunchThrottle()


def made(holds: LaunchThrottle, plant: Plant, *jobs: OnDevice) -> LaunchLimit:
    return LaunchLimit(
        "gpu-0",
        DRAWS_W,
        holds,
        jobs=lambda: jobs,
        power_w=lambda: plant.measured_w,
        now_s=lambda: plant.now_s,
    )


def run(hold: LaunchLimit, plant: Plant, seconds: float) -> float | Absent:
    found: float | Absent = DRAWS_W
    for _ in range(round(seconds / TICK_S)):
        plant.advance()
        found = hold.power_limit_w()
    return found


def told(gates: LaunchThrottle, **answer: object) -> None:
    """The tracing thread drains the job, of which one process runs."""
    share = gates.share(["gpu-0"])
    held = {"hold_share": share, "hold_until_ns": 1 << 62} if share < HOLD_WHOLE else {}
    fields = {"holds": True, **held, **answer}
    gates.answered(KEY, share, [TracerAnswer(1, "x", "opencl", "dormant", True, **fields)])  # type: ignore[arg-type]


@pytest.mark.parametrize("ahead", [1.0, 4.0])
def test_measured_power_comes_to_the_limit(holds: LaunchThrottle, ahead: float) -> None:
    """The limit is reached even by a program that sends four windows of work in one."""
    plant = Plant(holds, ahead=ahead)
    hold = made(holds, plant, OnDevice(KEY, ""))
    for limit in (120.0, 80.0, 150.0):
        assert hold.set_power_limit(limit) is None
        assert run(hold, plant, 15.0) == limit
        assert plant.measured_w == pytest.approx(limit, abs=4.0)
    assert hold.set_power_limit(DRAWS_W) is None
    assert holds.share(["gpu-0"]) == HOLD_WHOLE
    assert run(hold, plant, 5.0) == DRAWS_W
    assert plant.measured_w == pytest.approx(DRAWS_W, abs=1.0)


def test_without_a_sensor_the_declared_power_goes_with_the_time(holds: LaunchThrottle) -> None:
    plant = Plant(holds)
    plant.measured_w = None
    hold = made(holds, plant, OnDevice(KEY, ""))
    assert hold.set_power_limit(50.0) is None
    assert holds.share(["gpu-0"]) == HOLD_WHOLE // 4
    assert holds.share(["other"]) == HOLD_WHOLE
    assert holds.share(["other", "gpu-0"]) == HOLD_WHOLE // 4
    assert hold.power_limit_w() == 50.0


def test_power_that_does_not_follow_counts_whole(holds: LaunchThrottle) -> None:
    plant = Plant(holds, idle_w=120.0)
    hold = made(holds, plant, OnDevice(KEY, ""))
    assert hold.set_power_limit(60.0) is None
    found = run(hold, plant, 10.0)
    assert isinstance(found, Absent) and "it draws" in found.why
    assert hold.share == LEAST_SHARE
    assert hold.set_power_limit(150.0) is None
    assert run(hold, plant, 10.0) == 150.0


def test_an_idle_device_winds_up_to_no_more_than_all(holds: LaunchThrottle) -> None:
    plant = Plant(holds, idle_w=10.0, ahead=0.0)
    hold = made(holds, plant, OnDevice(KEY, ""))
    hold.set_power_limit(60.0)
    assert run(hold, plant, 60.0) == 60.0
    assert hold.share == 1.0


@pytest.mark.parametrize(
    ("job", "answer", "words"),
    [
        (OnDevice(KEY, "tracing is off"), {}, "job 7 launches without a tracer"),
        (OnDevice(KEY, ""), {"holds": False}, "tracer of process 1 cannot hold"),
    ],
)
def test_a_job_that_nobody_holds_counts_whole(
    holds: LaunchThrottle, job: OnDevice, answer: dict[str, object], words: str
) -> None:
    plant = Plant(holds)
    hold = made(holds, plant, job)
    hold.set_power_limit(100.0)
    told(holds, **answer)
    found = hold.power_limit_w()
    assert isinstance(found, Absent) and words in found.why and "counts whole" in found.why
    holds.forget(KEY)
    assert (hold.power_limit_w() == 100.0) == (not job.untraced)


def test_a_word_that_the_job_has_changed_is_noticed(
    holds: LaunchThrottle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noticed within the second that a process has which was just begun."""
    now = [1_000_000_000]
    monkeypatch.setattr("stoker.agent.tracing.launch_throttle.time.monotonic_ns", lambda: now[0])
    plant = Plant(holds)
    hold = made(holds, plant, OnDevice(KEY, ""))
    hold.set_power_limit(100.0)
    told(holds)
    assert hold.power_limit_w() == 100.0
    open_words: tuple[dict[str, object], ...] = (
        {"hold_share": 0},
        {"hold_share": HOLD_WHOLE - 1},
        {"hold_until_ns": 0},
    )
    for word in open_words:
        told(holds)
        told(holds, **word)
        assert hold.power_limit_w() == 100.0
        now[0] += 1_500_000_000
        told(holds, **word)
        found = hold.power_limit_w()
        assert isinstance(found, Absent) and "process 1 has changed" in found.why


def test_a_trace_that_was_given_up_holds_nobody(holds: LaunchThrottle) -> None:
    hold = made(holds, Plant(holds), OnDevice(KEY, ""))
    hold.set_power_limit(100.0)
    holds.answered(KEY, 512, (), "its trace was given up")
    found = hold.power_limit_w()
    assert isinstance(found, Absent) and "given up" in found.why


@pytest.mark.parametrize("watts", [-1.0, 0.0, 19.0, 201.0, float("nan")])
def test_what_cannot_be_kept_is_refused_with_the_range(holds: LaunchThrottle, watts: float) -> None:
    hold = made(holds, Plant(holds))
    refused = hold.set_power_limit(watts)
    assert refused is not None and "20 to 200 W" in refused.why
    assert hold.power_limit_w() == DRAWS_W
    assert hold.found() == []


def test_which_jobs_may_launch_without_a_tracer() -> None:
    begun: Callable[..., StartRecord] = lambda **more: StartRecord(7, 1, 0, 0, 0, 0, 1.0, **more)  # noqa: E731
    assert on_device(begun(trace="dormant")) == OnDevice(KEY, "")
    assert on_device(begun(trace="off")).untraced == "tracing is off"
    assert on_device(begun(trace="full", aside=(("opencl", "its own"),))).untraced == "its own"
