# SPDX-License-Identifier: Apache-2.0
"""A thread with a loop attempts again after every failure, and ends when it is told to."""

from __future__ import annotations

import logging

import pytest
from product_node import wait_until

from stoker.agent.process import loop_thread
from stoker.agent.process.loop_thread import LoopThread
from stoker.native.errors import NotFound, Unavailable


@pytest.fixture(autouse=True)
def times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow at once, and an end is waited for."""
    monkeypatch.setattr(loop_thread, "AGAIN_S", 0.0)
    monkeypatch.setattr(loop_thread, "STOP_S", 60.0)


def test_it_attempts_again_after_every_kind_of_failure(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[Exception] = [NotFound("not yet"), Unavailable("gone"), Unavailable("gone")]
    failures += [OSError(28, "full"), RuntimeError("nobody expected this")]
    reached: list[bool] = []

    async def attempt() -> None:
        if failures:
            raise failures.pop(0)
        reached.append(thread.stopping)
        await thread.pause(600)

    thread = LoopThread("test", attempt, "nothing is done")
    with caplog.at_level(logging.WARNING):
        thread.start()
        wait_until(lambda: bool(reached), "an attempt after all failures")
        thread.stop()
    assert reached == [False] and not thread.alive


def test_a_stop_before_there_is_a_loop_counts() -> None:
    async def attempt() -> None:
        raise AssertionError("it was told to end")

    thread = LoopThread("test", attempt, "nothing is done")
    thread._ends = True  # as `stop` leaves it when the thread has no loop yet
    thread.start()
    thread.stop()
    assert not thread.alive


def test_who_gives_up_attempts_no_more() -> None:
    attempts: list[int] = []

    async def attempt() -> None:
        attempts.append(1)
        thread.give_up()

    thread = LoopThread("test", attempt, "nothing is done")
    thread.start()
    wait_until(lambda: not thread.alive, "the thread ends by itself")
    thread.stop()
    assert attempts == [1]
