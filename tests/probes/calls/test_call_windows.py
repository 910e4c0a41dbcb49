# SPDX-License-Identifier: Apache-2.0
"""Windows of sampled sites: their share is exact, their place is not to be guessed."""

from __future__ import annotations

import pytest

from stoker.probes.calls.call_windows import CYCLE_NS, Windows
from stoker.probes.calls.probe_sites import DUTY_STEPS_PPM
from stoker.probes.cost.cost_budget import PPM


@pytest.mark.parametrize("duty", [PPM, *DUTY_STEPS_PPM])
def test_over_each_cycle_the_share_is_exact(duty: int) -> None:
    windows = Windows(seed=1)
    for cycle in range(5):
        now, open_ns = cycle * CYCLE_NS, 0
        end = now + CYCLE_NS
        while now < end:
            windows.begin(now)
            is_open = windows.is_open(duty, now)
            edge = min(end, windows.next_edge(now))
            assert edge > now
            open_ns += (edge - now) * is_open
            now = edge
        assert open_ns == CYCLE_NS * duty // PPM


def test_the_place_differs_from_cycle_to_cycle() -> None:
    windows = Windows(seed=2)
    at = []
    for cycle in range(200):
        windows.begin(cycle * CYCLE_NS)
        steps = range(0, CYCLE_NS, CYCLE_NS // 50)
        at.append(
            next(i for i, s in enumerate(steps) if windows.is_open(20_000, cycle * CYCLE_NS + s))
        )
    assert len(set(at)) > 40
    assert 20 < sum(at) / len(at) < 30


def test_of_those_that_are_off_nothing_is_open() -> None:
    windows = Windows(seed=3)
    windows.begin(0)
    assert not any(windows.is_open(0, now) for now in range(0, CYCLE_NS, CYCLE_NS // 100))
