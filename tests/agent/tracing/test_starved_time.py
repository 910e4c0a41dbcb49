# SPDX-License-Identifier: Apache-2.0
"""The time in which a process had no CPU: of all its threads that were awake, and of real ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stoker.agent.tracing import starved_time
from stoker.agent.tracing.starved_time import ThreadTime, starved_ns, thread_times

S = 1_000_000_000


def thread(ran_s: float, waited_s: float, *, ready: bool = True) -> ThreadTime:
    return ThreadTime(ready, int(ran_s * S), int(waited_s * S))


@pytest.mark.parametrize(
    ("before", "now", "starved_s"),
    [
        ({1: thread(1, 1)}, {1: thread(1, 1)}, 4),
        ({1: thread(1, 1)}, {1: thread(1.5, 4)}, 3),
        ({1: thread(1, 1)}, {1: thread(1.5, 9)}, 3.5),
        ({1: thread(1, 1)}, {1: thread(5, 1)}, 0),
        ({1: thread(1, 1, ready=False)}, {1: thread(1, 1, ready=False)}, 0),
        ({}, {1: thread(0.5, 3)}, 3),
        ({}, {}, 0),
        ({1: thread(1, 1), 2: thread(1, 1)}, {1: thread(1, 1), 2: thread(2, 2)}, 1),
        ({1: thread(1, 1), 2: thread(1, 1)}, {1: thread(1, 1), 2: thread(1, 1, ready=False)}, 4),
    ],
    ids=[
        "it waits still",
        "it waited and ran",
        "its wait began before",
        "it ran",
        "it sleeps",
        "it is new",
        "it is gone",
        "another one ran",
        "another one sleeps",
    ],
)
def test_it_is_starved_while_no_thread_that_is_awake_has_a_cpu(
    before: dict[int, ThreadTime], now: dict[int, ThreadTime], starved_s: float
) -> None:
    assert starved_ns(before, now, 4 * S) == starved_s * S


def test_threads_of_a_process_are_as_the_kernel_counts_them() -> None:
    mine = thread_times(os.getpid())[os.getpid()]
    assert mine.ready and mine.ran_ns > 0
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert list(thread_times(other.pid)) == [other.pid]
        other.communicate(b"\n", timeout=60)
    assert thread_times(other.pid) == {}


def test_a_process_of_too_many_threads_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starved_time, "THREADS_MAX", 0)
    assert thread_times(os.getpid()) == {}
