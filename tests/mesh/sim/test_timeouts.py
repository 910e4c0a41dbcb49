# SPDX-License-Identifier: Apache-2.0
"""A call is late exactly when its wait is over, unless it was answered."""

from __future__ import annotations

import random

from stoker.mesh.sim.timeline import Timeline
from stoker.mesh.sim.timeouts import Timeouts

WAIT_NS = 100


class Calls:
    """Calls that begin and are answered at given times."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.open: set[int] = set()
        self.late: list[tuple[int, int]] = []
        self.timeouts = Timeouts(self.timeline, WAIT_NS, self.open, self._late)

    def _late(self, number: int) -> None:
        self.open.discard(number)
        self.late.append((self.timeline.now, number))

    def begin(self, number: int) -> None:
        self.open.add(number)
        self.timeouts.begin(number)


def test_a_call_is_late_when_its_wait_is_over() -> None:
    calls = Calls()
    for number, at in enumerate((0, 30, 30, 500)):
        calls.timeline.at(at, calls.begin, number)
    calls.timeline.at(60, calls.open.discard, 1)
    calls.timeline.run(1000)
    assert calls.late == [(100, 0), (130, 2), (600, 3)]


def test_calls_are_late_as_if_each_had_an_event_of_its_own() -> None:
    chance = random.Random(7)
    calls, wanted = Calls(), []
    for number in range(300):
        begun = chance.randrange(5000)
        answered = begun + chance.randrange(1, 130)
        calls.timeline.at(begun, calls.begin, number)
        calls.timeline.at(answered, calls.open.discard, number)
        if answered > begun + WAIT_NS:
            wanted.append((begun + WAIT_NS, number))
    calls.timeline.run(10_000)
    assert sorted(calls.late) == sorted(wanted) and wanted
    assert calls.timeline.delivered < 900
