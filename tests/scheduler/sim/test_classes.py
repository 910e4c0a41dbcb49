# SPDX-License-Identifier: Apache-2.0
"""Target classes: the most frequent shapes, as many as cover the share asked for."""

from __future__ import annotations

from stoker.scheduler.hints import RequestClass
from stoker.scheduler.names import name_id
from stoker.scheduler.sim.classes import CLASSES_MAX, TaskClass, target_classes
from stoker.scheduler.sim.openb import TraceTask


def test_the_most_frequent_shapes_cover_the_share() -> None:
    tasks = (
        [TraceTask(2000, 1, 1, 500)] * 6
        + [TraceTask(1000, 1, 0, 0)] * 3
        + [TraceTask(9000, 1, 8, 1000)]
    )
    assert target_classes(tasks, 90) == [
        TaskClass(2000, 1, 500, (), 6, 1),
        TaskClass(1000, 0, 0, (), 3, 1),
    ]
    assert len(target_classes(tasks, 91)) == 3


def test_the_core_is_told_of_all_devices_together() -> None:
    told = TaskClass(9000, 8, 1000, ("T4",), 3, 7).request()
    assert told == RequestClass(3, 8000, 9000, 7, (name_id("T4"),))


def test_models_make_a_shape_and_memory_does_not() -> None:
    tasks = [
        TraceTask(1, 5, 1, 500, ("T4",)),
        TraceTask(1, 6, 1, 500, ("T4",)),
        TraceTask(1, 5, 1, 500),
    ]
    assert target_classes(tasks, 100) == [
        TaskClass(1, 1, 500, ("T4",), 2, 5),
        TaskClass(1, 1, 500, (), 1, 5),
    ]


def test_there_are_never_more_than_the_core_takes() -> None:
    assert len(target_classes([TraceTask(cpu, 1, 0, 0) for cpu in range(300)], 100)) == CLASSES_MAX
