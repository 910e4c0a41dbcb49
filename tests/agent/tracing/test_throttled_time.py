# SPDX-License-Identifier: Apache-2.0
"""The throttled part of a device's work: bounds against a device whose every ns is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from stoker.agent.tracing.throttled_time import (
    ANY,
    HELD,
    POINTS_MAX,
    DeviceThrottle,
    ThrottleCount,
    Totals,
    WorkDone,
    with_throttles,
)
from stoker.probes.kernels.trace_summary import (
    Causes,
    DeviceRow,
    ThrottleRow,
    TimeWindow,
    TraceSummary,
)

S = 1_000_000_000


def work(at_s: float, kernel_s: float, copy_s: float = 0, runnable_s: float = 0) -> WorkDone:
    return WorkDone(int(at_s * S), int(kernel_s * S), int(copy_s * S), int(runnable_s * S))


def counted(at_s: float, **ns_s: float) -> ThrottleCount:
    return ThrottleCount(int(at_s * S), {name: int(ns * S) for name, ns in ns_s.items()})


def settled(points: Sequence[WorkDone | ThrottleCount]) -> Totals:
    throttle = DeviceThrottle()
    for point in points:
        if isinstance(point, WorkDone):
            throttle.work(point)
        else:
            throttle.count(point)
    throttle.end()
    return throttle.totals


def test_a_device_that_worked_all_the_time_is_throttled_for_what_was_counted() -> None:
    totals = settled([work(0, 0), counted(0, power=5), counted(2, power=6.5), work(2, 2)])
    assert (totals.kernel_ns, totals.error_ns) == (1.5 * S, 0)
    assert totals.causes == {"power": (1.5 * S, 0)}


def test_a_counter_that_stands_still_says_that_nothing_was_throttled() -> None:
    totals = settled([work(0, 0), counted(0, power=5), counted(2, power=5), work(2, 1)])
    assert (totals.ns, totals.bound_ns()) == (0, 0)


def test_what_was_throttled_at_rest_is_in_the_error() -> None:
    """Half of the time it worked and half it was throttled: both halves may be the same or not."""
    totals = settled([work(0, 0), counted(0, thermal=0), counted(2, thermal=1), work(2, 1)])
    assert (totals.kernel_ns, totals.error_ns) == (S, S)


def test_two_throttles_count_once_and_may_overlap() -> None:
    points = [counted(0, power=0, thermal=0), counted(4, power=2, thermal=1)]
    totals = settled([work(0, 0), *points, work(4, 4)])
    assert (totals.kernel_ns, totals.error_ns) == (2 * S, S)
    assert {name: ns for name, (ns, _) in totals.causes.items()} == {"power": 2 * S, "thermal": S}


def test_a_driver_that_adds_its_causes_up_knows_the_whole() -> None:
    points = [counted(0, any=0, power=0), counted(4, any=3, power=2)]
    totals = settled([work(0, 0), *points, work(4, 4)])
    assert (totals.kernel_ns, totals.error_ns) == (3 * S, 0)
    assert list(totals.causes) == ["power"]
    alone = settled([work(0, 0), counted(0, any=0), counted(4, any=3), work(4, 4)])
    assert alone.causes == {ANY: (3 * S, 0)}


def test_work_before_the_first_reading_is_not_read() -> None:
    points = [work(0, 0), work(1, 1), counted(1, power=0), counted(2, power=1), work(2, 2)]
    totals = settled(points)
    assert (totals.kernel_ns, totals.unread_ns) == (S, S)
    assert totals.bound_ns() == S


def test_the_end_is_guessed_by_the_last_rate_and_said_to_be() -> None:
    points = [work(0, 0), counted(0, power=0), counted(2, power=1), work(2, 2), work(3, 3)]
    totals = settled(points)
    assert (totals.kernel_ns, totals.error_ns) == (1.5 * S, S)


def test_a_quota_stops_threads_that_could_run_as_well() -> None:
    points = [ThrottleCount(0, {"q": 0}, "quota"), ThrottleCount(4 * S, {"q": 2 * S}, "quota", 0.5)]
    totals = settled([work(0, 0), *points, work(4, 2, 1, 1)])
    assert (totals.kernel_ns, totals.copy_ns, totals.runnable_ns) == (S, S // 2, S // 2)
    assert totals.bound_ns() == S  # the counter itself may be wrong by half


def test_reasons_that_were_sampled_have_the_error_of_samples() -> None:
    points: list[WorkDone | ThrottleCount] = [work(0, 0)]
    for second in range(101):
        now = {"power": 1} if second < 50 else {}
        points.append(ThrottleCount(second * S, now, "sampled"))
        points.append(work(second, second))
    totals = settled(points)
    assert totals.kernel_ns == pytest.approx(49.5 * S)
    assert totals.bound_ns() == pytest.approx(totals.error_ns + 9.75 * S, rel=0.05)
    calm = settled([*(ThrottleCount(i * S, {}, "sampled") for i in range(101)), work(0, 0)])
    assert calm.ns == 0


@pytest.mark.parametrize("lost", ["readings", "work"])
def test_points_that_wait_are_bounded_and_what_is_left_out_is_not_read(lost: str) -> None:
    throttle = DeviceThrottle()
    throttle.work(work(0, 0))
    throttle.count(counted(0, power=0))
    for second in range(1, 2 * POINTS_MAX):
        if lost == "readings":
            throttle.work(work(second, second))
        else:
            throttle.count(counted(second, power=second))
    throttle.count(counted(2 * POINTS_MAX, power=2 * POINTS_MAX))
    throttle.work(work(2 * POINTS_MAX, 2 * POINTS_MAX))
    throttle.end()
    totals = throttle.totals
    assert totals.unread_ns > 0
    assert totals.kernel_ns + totals.bound_ns() >= 2 * POINTS_MAX * S


def test_what_an_earlier_agent_counted_goes_on() -> None:
    first = DeviceThrottle()
    for point in (counted(0, power=0), counted(2, power=2)):
        first.count(point)
    first.work(work(0, 0))
    first.work(work(2, 2))
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(first.totals), type=Totals)
    then = DeviceThrottle(kept)
    then.count(counted(5, power=5))
    then.work(work(5, 5))
    then.count(counted(6, power=6))
    then.work(work(6, 6))
    assert (then.totals.kernel_ns, then.totals.unread_ns) == (3 * S, 3 * S)


def known(seed: int) -> Callable[[], tuple[Totals, int]]:
    """A device of which every step of 10 ms is known, read at times that fit nothing."""

    def run() -> tuple[Totals, int]:
        chance = random.Random(seed)
        throttle, worked, held, both = DeviceThrottle(), 0, 0, 0
        throttle.count(ThrottleCount(0, {"power": 0}))
        throttle.work(WorkDone(0, 0, 0, 0))
        working = slow = False
        for step in range(1, 600):
            working = working ^ (chance.random() < 0.1)
            slow = slow ^ (chance.random() < 0.1)
            worked += working
            held += slow
            both += working and slow
            at_ns, ms = step * 10_000_000, 10_000_000
            if chance.random() < 0.03:
                throttle.count(ThrottleCount(at_ns, {"power": held * ms}))
            if chance.random() < 0.03:
                throttle.work(WorkDone(at_ns, worked * ms, 0, 0))
        throttle.work(WorkDone(6 * S, worked * 10_000_000, 0, 0))
        throttle.end()
        return throttle.totals, both * 10_000_000

    return run


@pytest.mark.parametrize("seed", range(200))
def test_the_true_time_lies_within_the_error(seed: int) -> None:
    totals, truth = known(seed)()
    # Rounding loses less than a ns in each step.
    assert abs(totals.ns - truth) <= totals.bound_ns() + 600


def summary(**causes: int) -> TraceSummary:
    row = DeviceRow("d", sum(causes.values()), Causes(**causes))
    return TraceSummary(
        "full",
        TimeWindow(0, row.window_ns),
        devices=(row,),
        absent={"causes.throttled_ns": "nobody looks", "spans": "none"},
    )


def test_the_causes_add_up_and_the_device_stays_as_busy_as_it_was() -> None:
    before = summary(kernel_ns=500, copy_ns=100, host_runnable_ns=50, held_idle_ns=350)
    totals = Totals("quota", 300, 20, 90, 7, causes={"CPU quota": (410, 7)})
    found = with_throttles(before, {"d": totals}, {})
    (row,) = found.devices
    assert sum(msgspec.structs.astuple(row.causes)) == row.window_ns == 1000
    assert (row.causes.kernel_ns, row.causes.copy_ns, row.causes.host_runnable_ns) == (200, 80, 0)
    assert row.causes.throttled_ns == 300 + 20 + 50
    assert row.busy_ns == before.devices[0].busy_ns == 600
    assert row.throttle is not None
    assert row.throttle.causes == (ThrottleRow("CPU quota", 410, 7),)
    assert found.absent == {"spans": "none"}


def test_launches_that_were_held_back_are_a_throttle_beside_the_devices_own() -> None:
    before = summary(kernel_ns=500, throttled_ns=100, held_idle_ns=400)
    found = with_throttles(before, {"d": Totals(kernel_ns=50, causes={"power": (50, 0)})}, {})
    (row,) = found.devices
    assert row.causes.throttled_ns == 150
    assert row.throttle is not None and row.throttle.busy_ns == 50
    assert [each.cause for each in row.throttle.causes] == [HELD, "power"]


def test_a_device_of_which_nothing_is_known_has_a_reason() -> None:
    found = with_throttles(summary(kernel_ns=10), {}, {"d": "Not Supported"})
    assert found.absent["causes.throttled_ns"].startswith("d: Not Supported. What it runs slower")
    assert found.devices[0].throttle is None
    held = with_throttles(summary(kernel_ns=10, throttled_ns=5), {}, {"d": "Not Supported"})
    assert "causes.throttled_ns" not in held.absent and "clocks_lowered" in held.absent
    assert with_throttles(summary(kernel_ns=10), {}, {}).absent["causes.throttled_ns"]
