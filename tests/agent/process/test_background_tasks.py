# SPDX-License-Identifier: Apache-2.0
"""Parts of the agent are started again, and failures are counted."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from stoker.agent.process import background_tasks
from stoker.agent.process.background_tasks import BackgroundTasks


async def test_a_part_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "PART_AGAIN_S", 0.0)
    counters: Counter[str] = Counter()
    third = asyncio.Event()

    async def part() -> None:
        if counters["part_failed"] == 2:
            third.set()
            await asyncio.Event().wait()
        raise ValueError("broken")

    tasks = BackgroundTasks(counters)
    tasks.keep_running(part)
    await third.wait()
    await tasks.cancel()
    assert counters == {"part_failed": 2}


async def test_a_task_that_fails_is_counted() -> None:
    counters: Counter[str] = Counter()

    async def work() -> None:
        raise ValueError("broken")

    task = BackgroundTasks(counters).spawn(work())
    with pytest.raises(ValueError, match="broken"):
        await task
    assert counters == {"task_failed": 1}


async def test_calls_from_threads_run_in_the_loop() -> None:
    called = asyncio.Event()
    tasks = BackgroundTasks(Counter())
    await asyncio.to_thread(tasks.from_thread, called.set)
    await called.wait()
