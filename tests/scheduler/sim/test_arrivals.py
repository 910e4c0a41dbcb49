# SPDX-License-Identifier: Apache-2.0
"""The inflation rule by hand on a few tasks, and that a steady state is one."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.arrivals import NS_PER_S, inflated, steady
from stoker.scheduler.sim.openb import TraceTask

HOST = TraceTask(1000, 0, 0, 0)
ONE = TraceTask(1000, 0, 1, 1000)
EIGHT = TraceTask(1000, 0, 8, 1000)


def demand(tasks: list[TraceTask], order: list[int]) -> int:
    return sum(tasks[at].demand_milli for at in order)


def test_every_task_comes_once_before_any_is_drawn_again() -> None:
    tasks = [ONE, HOST, ONE, ONE]
    order = inflated(tasks, 10_000, 100, 42)
    assert sorted(order[:4]) == [0, 1, 2, 3]
    assert demand(tasks, order) == 10_000


def test_the_draw_that_would_pass_the_mark_ends_it() -> None:
    """8 GPUs of 12 have come; of the next eight none fits in."""
    assert inflated([EIGHT], 10_000, 120, 1) == [0]
    assert inflated([EIGHT], 10_000, 160, 1) == [0, 0]


def test_too_long_a_list_loses_tasks() -> None:
    tasks = [ONE] * 10
    order = inflated(tasks, 4_000, 100, 3)
    assert len(order) == len(set(order)) == 4


def test_a_seed_is_an_order() -> None:
    tasks = [ONE] * 50
    assert inflated(tasks, 50_000, 100, 1) == inflated(tasks, 50_000, 100, 1)
    assert inflated(tasks, 50_000, 100, 1) != inflated(tasks, 50_000, 100, 2)


def test_a_list_without_gpus_would_never_end() -> None:
    with pytest.raises(BadRequest, match="no task asks for a GPU"):
        inflated([HOST], 1_000, 100, 1)


def test_a_steady_state_offers_what_it_says() -> None:
    """Arrivals hold 3 of 4 GPUs on average: one GPU each, 10 or 30 s, so one every 6.7 s."""
    tasks = [ONE._replace(created_s=0, deleted_s=10), ONE._replace(created_s=5, deleted_s=35)]
    there, later = steady(tasks, 4_000, 75, 9, 4000)
    assert len(there) == 3
    assert all(stay.from_ns == 0 and stay.until_ns <= 30 * NS_PER_S for stay in there)
    assert [stay.from_ns for stay in later] == sorted(stay.from_ns for stay in later)
    assert {stay.until_ns - stay.from_ns for stay in later} == {10 * NS_PER_S, 30 * NS_PER_S}
    assert abs(later[-1].from_ns / 4000 / NS_PER_S - 20 / 3) < 0.4


def test_who_is_there_at_the_start_is_drawn_by_length_of_stay() -> None:
    """With stays of 1 s and 99 s an observer finds the long ones 99 times out of 100."""
    tasks = [ONE._replace(created_s=0, deleted_s=1), ONE._replace(created_s=0, deleted_s=99)]
    there, _ = steady(tasks, 1_000_000, 100, 5, 1)
    assert sum(stay.task for stay in there) > 970


def test_tasks_that_do_not_stay_hold_nothing() -> None:
    with pytest.raises(BadRequest, match="no task asks for a GPU and stays"):
        steady([ONE._replace(created_s=3, deleted_s=3)], 1_000, 100, 1, 1)
