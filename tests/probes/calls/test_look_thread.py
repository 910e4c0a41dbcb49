# SPDX-License-Identifier: Apache-2.0
"""A thread that looks goes on whatever happens, and no more often than it may."""

from __future__ import annotations

import time

import pytest

from stoker.probes.calls import look_thread
from stoker.probes.calls.look_thread import LookThread
from tests.probes.groups import eventually

NEVER = 1 << 62
"""A time on CLOCK_MONOTONIC (ns) that does not come."""


def test_looks_that_are_asked_for_all_the_time_are_apart() -> None:
    looks: list[None] = []

    def look() -> int:
        looks.append(None)
        thread.hurry()
        return NEVER

    thread = LookThread("looks", look)
    begun_s = time.monotonic()
    thread.start()
    eventually(lambda: len(looks) >= 4)
    thread.close()
    # A slow machine makes the time longer and never the looks more.
    assert len(looks) <= (time.monotonic() - begun_s) / look_thread.HURRY_S + 2


def test_it_looks_again_when_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_thread, "PAUSE_S", (0.001, 3600.0))
    asked: list[int] = []

    def look() -> int:
        asked.append(time.monotonic_ns() + 1_000_000 if len(asked) < 2 else NEVER)
        return asked[-1]

    thread = LookThread("looks", look)
    thread.start()
    eventually(lambda: len(asked) >= 3)
    thread.close()
    assert len(asked) == 3


def test_a_look_that_fails_costs_that_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_thread, "AFTER_FAILURE_S", 0.001)
    asked: list[int] = []
    ended: list[int] = []

    def look() -> int:
        asked.append(1)
        if len(asked) < 4:
            raise OSError("once more")
        return NEVER

    thread = LookThread("looks", look, lambda: ended.append(len(asked)))
    thread.start()
    eventually(lambda: len(asked) >= 4)
    thread.close()
    assert thread.failures == 3
    assert ended == [len(asked)]
