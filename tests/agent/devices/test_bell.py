# SPDX-License-Identifier: Apache-2.0
"""What threads that read cards ring for, in C and in Python, and when nobody listens any more."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator

import pytest

from stoker.agent.devices.bell import Bell
from stoker.agent.devices.card import Card
from stoker.agent.devices.readings import Absent, Fields, Reading
from stoker.agent.devices.sampler import Samplers
from stoker.native import _devices

ROUND_NS = 2_000_000
Answer = dict[str, int]


def soon(true: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not true() and time.monotonic() < end:
        time.sleep(0.002)
    return true()


@pytest.fixture
def bell() -> Iterator[Bell]:
    made = Bell()
    yield made
    made.close()


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32))
def still(handle: int, out: ctypes._Pointer[ctypes.c_uint32]) -> int:
    """Always answers the same."""
    return 0


@pytest.fixture
def read() -> Iterator[tuple[_devices.Reader, Answer]]:
    """A thread in C that reads one number, and what that is."""
    answer = {"value": 50, "code": 0}

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32))
    def call(handle: int, out: ctypes._Pointer[ctypes.c_uint32]) -> int:
        out[0] = answer["value"]
        return answer["code"]

    step = (ctypes.cast(call, ctypes.c_void_p).value or 0, (1, 0), 2, 0, 1, 0, 0, 16)
    taps = [(_devices.U32, 0, 0, 0, 1.0, False)]
    reader = _devices.Reader([step], taps, bytes(16), ROUND_NS)
    assert soon(lambda: reader.snapshot()[0] > 0)
    yield reader, answer
    reader.stop()


def rounds(reader: _devices.Reader, more: int) -> None:
    goal = reader.snapshot()[0] + more
    assert soon(lambda: reader.snapshot()[0] >= goal)


def test_a_level_is_rung_for_each_round_and_only_at_it_or_above(
    bell: Bell, read: tuple[_devices.Reader, Answer]
) -> None:
    reader, answer = read
    reader.watch(bell.descriptor, [(0, 90.0)], [])
    rounds(reader, 5)
    assert (reader.rings(), bell.hush()) == (0, 0)
    answer["value"] = 90
    assert soon(lambda: reader.rings() >= 3)
    assert bell.hush() >= 3
    answer["value"] = 89
    rounds(reader, 2)
    before = reader.rings()
    rounds(reader, 5)
    assert reader.rings() == before


def test_a_call_that_answers_otherwise_is_rung_for_once(
    bell: Bell, read: tuple[_devices.Reader, Answer]
) -> None:
    reader, answer = read
    reader.watch(bell.descriptor, [], [])
    for code in (15, 0, 3):
        before = reader.rings()
        answer["code"] = code
        assert soon(lambda b=before: reader.rings() == b + 1)  # type: ignore[misc]
        rounds(reader, 4)
        assert reader.rings() == before + 1


def test_bits_are_rung_for_when_they_change_and_others_are_not(
    bell: Bell, read: tuple[_devices.Reader, Answer]
) -> None:
    reader, answer = read
    reader.watch(bell.descriptor, [], [(0, 0, 0x80)])
    answer["value"] = 50 | 0x80
    assert soon(lambda: reader.rings() == 1)
    answer["value"] = 51 | 0x80
    rounds(reader, 4)
    assert reader.rings() == 1
    answer["value"] = 51
    assert soon(lambda: reader.rings() == 2)


def test_all_that_is_asked_once_a_second_is_news_now_and_then(bell: Bell) -> None:
    step = (ctypes.cast(still, ctypes.c_void_p).value or 0, (1, 0), 2, 0, 1, 0, 0, 16)
    reader = _devices.Reader([step], [], bytes(16), ROUND_NS, 0, 3)
    reader.watch(bell.descriptor, [], [], 1)
    assert soon(lambda: reader.rings() >= 4)
    reader.watch(bell.descriptor, [], [], 100_000)
    rounds(reader, 3)
    before = reader.rings()
    rounds(reader, 9)
    assert reader.rings() == before
    with pytest.raises(ValueError):
        reader.watch(bell.descriptor, [], [], 0)
    reader.stop()


def test_who_listens_no_more_is_not_rung(bell: Bell, read: tuple[_devices.Reader, Answer]) -> None:
    reader, _ = read
    reader.watch(bell.descriptor, [(0, 1.0)], [])
    assert soon(lambda: reader.rings() > 0)
    reader.watch(-1, [], [])
    bell.hush()
    rounds(reader, 4)
    assert bell.hush() == 0
    bell.close()
    bell.ring()  # of a thread that did not know it yet
    assert bell.hush() == 0


@pytest.mark.parametrize(
    ("levels", "bits"),
    [
        ([(1, 9.0)], []),
        ([], [(1, 0, 1)]),
        ([], [(0, 9, 1)]),
        ([(0, 1.0)] * (_devices.GUARDS + 1), []),
    ],
)
def test_guards_that_leave_the_plan_are_refused(
    levels: list[tuple[int, float]],
    bits: list[tuple[int, int, int]],
    read: tuple[_devices.Reader, Answer],
) -> None:
    with pytest.raises(ValueError):
        read[0].watch(-1, levels, bits)


class Fake(Card):
    """Without a plan: a thread in Python reads it."""

    id = "a"

    def __init__(self) -> None:
        super().__init__()
        self.fields: Fields = {"power_w": Reading(5.0), "temperature_c": Reading(50.0)}
        self.slow: Fields = {"ecc_uncorrected": Reading(0)}

    def once(self) -> Fields:
        return {}

    def fast(self) -> Fields:
        return dict(self.fields)

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (lambda: self.slow,)


def heard(samplers: Samplers, bell: Bell, change: Callable[[], None]) -> list[int]:
    """Rounds after which it was rung, of so many as follow a change."""
    sampled = samplers.get("a")
    assert sampled is not None
    found = []
    for number in range(1, 9):  # never the tenth, after which it is rung in any case
        if number == 2:
            change()
        sampled.round(0)
        sampled.counters["rounds"] = number
        before = sampled.rings
        sampled._ring()
        if sampled.rings != before:
            found.append(number)
            assert bell.hush() == 1
    return found


@pytest.mark.parametrize(
    ("change", "rung"),
    [
        ({}, []),
        ({"power_w": Reading(99.0)}, []),
        ({"power_w": Absent("timeout")}, [2]),
        ({"throttle": Reading(["idle"])}, [2]),  # it was not read before
        ({"throttle": Reading(["power brake"])}, [2]),
        ({"temperature_c": Reading(90.0)}, [2, 3, 4, 5, 6, 7, 8]),
        ({"ecc_uncorrected": Reading(1)}, [2]),
    ],
)
def test_a_thread_in_python_rings_for_the_same(
    change: Fields, rung: list[int], bell: Bell, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, samplers = Fake(), Samplers()
    monkeypatch.setattr("stoker.agent.devices.sampled.Sampled.start", lambda self: None)
    samplers.set([card])
    samplers.listen(bell)
    sampled = samplers.get("a")
    assert sampled is not None
    sampled.listen(bell, {"temperature_c": 90.0})
    sampled.round(0)
    sampled._ring()
    bell.hush()

    def happen() -> None:
        for name, value in change.items():
            (card.slow if name in card.slow else card.fields)[name] = value

    assert heard(samplers, bell, happen) == rung
    samplers.listen(None)
    sampled.counters["rounds"] = 10
    sampled._ring()
    assert bell.hush() == 0
