# SPDX-License-Identifier: Apache-2.0
"""A task that fails ends the scheduler, but for one that fails because the scheduler ends."""

from __future__ import annotations

import asyncio

import pytest

from stoker.mesh.server import critical_tasks
from stoker.mesh.server.critical_tasks import CriticalTasks


@pytest.fixture
def deaths(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """The errors of which the process would have died."""
    found: list[BaseException | None] = []
    monkeypatch.setattr(critical_tasks, "die", lambda _, error=None: found.append(error))
    return found


async def fail(started: asyncio.Event) -> None:
    try:
        started.set()
        await asyncio.sleep(600)
    finally:
        raise ConnectionError("the connection is closed")


async def test_a_task_that_fails_ends_the_scheduler(deaths: list[BaseException | None]) -> None:
    tasks, started = CriticalTasks(), asyncio.Event()
    tasks.spawn(fail(started))
    await started.wait()
    (task,) = tasks._tasks
    task.cancel()
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert [str(error) for error in deaths] == ["the connection is closed"]
    assert not tasks._tasks


async def test_a_task_that_fails_by_the_end_changes_no_exit_code(
    deaths: list[BaseException | None],
) -> None:
    tasks, started = CriticalTasks(), asyncio.Event()
    tasks.spawn(fail(started))
    await started.wait()
    (task,) = tasks._tasks
    tasks.ending()
    task.cancel()
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert deaths == [] and not tasks._tasks
