# SPDX-License-Identifier: Apache-2.0
"""A plan that is recorded from calls: it answers those, and says of any other that it lacks it."""

from __future__ import annotations

import ctypes

import pytest

from stoker.agent.devices import recorded as module
from stoker.agent.devices.plan import SLOW, Snapshot
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.recorded import Recorded

HANDLE = ctypes.c_void_p(0x7F00_0000_1000)


def of(made: Recorded, *answers: tuple[int, bytes]) -> Snapshot:
    """A round in which the steps answered this, in their order."""
    memory = bytearray(made.plan.memory)
    for step, (_, data) in zip(made.plan.answers.values(), answers, strict=True):
        memory[step.offset : step.offset + len(data)] = data
    return Snapshot(1, 1, [code for code, _ in answers], bytes(memory))


def test_a_recorded_call_is_answered_into_what_it_is_given() -> None:
    made = Recorded(lambda _: 4096)
    seen = ctypes.c_uint32(7)
    made.record("get", (HANDLE, 2, ctypes.byref(seen)))
    made.every = SLOW
    made.record("get", (HANDLE, 3, ctypes.byref(seen)))
    made.record("get", (HANDLE, 3, ctypes.byref(seen)))  # the same: asked for once
    assert [step[1][:2] for step in made.plan.steps] == [(HANDLE.value, 2), (HANDLE.value, 3)]
    assert [step[4] for step in made.plan.steps] == [1, SLOW]
    assert made.plan.memory[:4] == bytes(seen)  # as it was before the call
    answer = made.answers(of(made, (0, b"\x01\0\0\0"), (5, b"\x02\0\0\0")))
    assert answer("get", (HANDLE, 3, ctypes.byref(seen))) == 5
    assert seen.value == 2
    assert answer("get", (HANDLE, 2, ctypes.byref(seen))) == 0
    assert (seen.value, made.lacks) == (1, "")


def test_a_call_that_fills_one_structure_is_answered_with_another() -> None:
    made = Recorded(lambda _: 4096)
    made.record("get", (HANDLE, ctypes.byref(ctypes.c_uint32(7))))
    answers = made.answers(of(made, (5, b"\x02\0\0\0")))
    handle = HANDLE.value or 0
    code, found = answers.filled("get", handle, ctypes.c_uint32) or (0, None)
    assert (code, found.value) == (5, 2)
    assert answers.filled("get", handle, ctypes.c_uint64) is None  # longer than what was filled
    assert answers.filled("get", handle + 1, ctypes.c_uint32) is None
    assert made.lacks == ""


def test_a_call_that_was_not_recorded_is_absent_and_wanted() -> None:
    made = Recorded(lambda _: 4096)
    rows = (ctypes.c_uint32 * 2)()
    made.record("list", (HANDLE, rows))
    answer = made.answers(of(made, (0, bytes(8))))
    longer = (ctypes.c_uint32 * 3)(9, 9, 9)
    for name, arguments in (("list", (HANDLE, longer)), ("other", (HANDLE, rows))):
        made.lacks = ""
        found = answer(name, arguments)
        assert isinstance(found, Absent) and name in found.why
        assert made.lacks == name
    assert list(longer) == [9, 9, 9]


def test_more_calls_than_a_plan_has_room_for_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS_MAX", 2)
    made = Recorded(lambda _: 4096)
    for number in range(3):
        made.record("get", (number, ctypes.byref(ctypes.c_int())))
    assert made.full and len(made.plan.steps) == 2


def test_a_function_that_there_is_not_has_no_step() -> None:
    made = Recorded(lambda _: None)
    made.record("get", (HANDLE, ctypes.byref(ctypes.c_int())))
    assert made.plan.steps == []
