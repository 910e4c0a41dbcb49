# SPDX-License-Identifier: Apache-2.0
"""Wakeups by threads that read cards, in C and in Python, also after the listener has gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from stoker.agent.devices.card import PolledCard
from stoker.agent.devices.readings import Absent, Fields, Reading
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.agent.devices.samplers.wakeup import Wakeup


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    made = Wakeup()
    yield made
    made.close()


def test_who_listens_no_more_is_not_woken(wakeup: Wakeup) -> None:
    wakeup.wake()
    wakeup.wake()
    assert wakeup.take() == 2
    wakeup.close()
    wakeup.wake()  # of a thread that did not know it yet
    assert wakeup.take() == 0


class Fake(PolledCard):
    """A card that a thread in Python reads."""

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


def heard(samplers: Samplers, wakeup: Wakeup, change: Callable[[], None]) -> list[int]:
    """Number of wakeups in the rounds that follow a change."""
    sampled = samplers.get("a")
    assert sampled is not None
    found = []
    for number in range(1, 9):  # never the tenth, after which it is rung in any case
        if number == 2:
            change()
        sampled.round(0)
        sampled.counters["rounds"] = number
        before = sampled.wakeups
        sampled._after_round()
        if sampled.wakeups != before:
            found.append(number)
            assert wakeup.take() == 1
    return found


@pytest.mark.parametrize(
    ("change", "woken"),
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
def test_a_thread_in_python_wakes_for_the_same(
    change: Fields, woken: list[int], wakeup: Wakeup, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, samplers = Fake(), Samplers()
    monkeypatch.setattr("stoker.agent.devices.samplers.sampled.Sampled.start", lambda self: None)
    samplers.set([card])
    samplers.listen(wakeup)
    sampled = samplers.get("a")
    assert sampled is not None
    sampled.listen(wakeup, {"temperature_c": 90.0})
    sampled.round(0)
    sampled._after_round()
    wakeup.take()

    def happen() -> None:
        for name, value in change.items():
            (card.slow if name in card.slow else card.fields)[name] = value

    assert heard(samplers, wakeup, happen) == woken
    samplers.listen(None)
    sampled.counters["rounds"] = 10
    sampled._after_round()
    assert wakeup.take() == 0
