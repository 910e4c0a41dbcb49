# SPDX-License-Identifier: Apache-2.0
"""A driver whose device is the CPU has threads that a caller waits for; a gap shows them whole."""

from __future__ import annotations

from stoker.native import _trace


def locked(causes: _trace.Causes) -> None:
    """A driver's thread, 8, wakes its caller, 7, and keeps a lock of which the caller then waits
    until 88: it has lost its CPU. From 95 on the caller sleeps for a reason of its own."""
    causes.span(0, 20, 7, 1)
    causes.span(20, 52, 7, 3)
    causes.span(52, 60, 7, 2)
    causes.span(60, 61, 7, 1)
    causes.span(61, 90, 7, 3)
    causes.span(90, 95, 7, 1)
    causes.span(95, 120, 7, 3)
    causes.span(120, 130, 7, 1)
    causes.span(0, 30, 8, 3)
    causes.span(30, 40, 8, 2)
    causes.span(40, 53, 8, 1)
    causes.span(53, 88, 8, 2)
    causes.span(88, 97, 8, 1)
    causes.span(97, 125, 8, 3)
    causes.span(125, 127, 8, 2)
    causes.span(127, 160, 8, 1)
    causes.busy(45, 50, 7, 0, 0, called_ns=15)
    causes.busy(130, 150, 7, 0, 0, called_ns=121)


def test_a_caller_that_sleeps_again_for_the_drivers_thread_waits_for_that_thread() -> None:
    causes = _trace.Causes(0)
    locked(causes)
    causes.sweep(150)
    # 7 until 30, 8 until 45; 8 until 52, 7 until 61, 8 until 90, 7 until 125, 8 until 130
    on_cpu, runnable, blocked = 20 + 5 + 2 + 1 + 2 + 5 + 5 + 3, 10 + 8 + 27 + 2, 10 + 25
    assert causes.read(0) == (25, 0, on_cpu, runnable, blocked, 0, 0, 0, 0, 0)
    assert causes.check()


def test_a_gap_that_is_swept_as_a_whole_is_divided_in_the_same_way() -> None:
    """Whoever asks where a sweep may end gets the same causes from many sweeps as from one."""
    once, often = _trace.Causes(0), _trace.Causes(0)
    locked(once)
    once.sweep(150)
    locked(often)
    for frontier in (50, 70, 100, 150):
        often.sweep(often.whole(frontier, 1000))
    assert often.read(0) == once.read(0)


def test_a_gap_is_divided_when_it_is_old_or_no_drivers_thread_is_known() -> None:
    causes = _trace.Causes(0)
    causes.span(0, 60, 7, 1)
    causes.busy(45, 50, 7, 0, 0)
    assert causes.whole(60, 1000) == 60, "no thread of a driver"
    causes = _trace.Causes(0)
    locked(causes)
    causes.sweep(50)
    assert causes.whole(90, 41) == 50
    assert causes.whole(90, 40) == 90, "it is 40 old"
    assert causes.whole(140, 1000) == 140, "the device works"
    causes.sweep(90)
    assert causes.whole(100, 1000) == 90, "it is divided already"
