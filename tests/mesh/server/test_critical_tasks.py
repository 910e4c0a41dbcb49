# SPDX-License-Identifier: Apache-2.0
"""A task that fails ends the scheduler, but for one that fails because the scheduler ends."""

from __future__ import annotations

import asyncio
import contextlib

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


async def test_a_task_that_outlives_one_cancellation_is_ended_as_well_as_what_it_spawns() -> None:
    tasks, started, ended = CriticalTasks(), asyncio.Event(), []

    async def spawned() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.append("spawned")

    async def stubborn() -> None:
        try:
            started.set()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            tasks.spawn(spawned())
            await asyncio.sleep(600)
        finally:
            ended.append("stubborn")

    tasks.spawn(stubborn())
    await started.wait()
    await tasks.end()
    assert sorted(ended) == ["spawned", "stubborn"] and not tasks._tasks


async def test_a_task_that_cannot_be_ended_holds_the_end_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(critical_tasks, "END_S", 0.01)
    tasks, go_on, started = CriticalTasks(), asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        while not go_on.is_set():
            started.set()
            with contextlib.suppress(asyncio.CancelledError):
                await go_on.wait()

    tasks.spawn(deaf())
    await started.wait()
    await tasks.end()
    (left,) = tasks._tasks
    go_on.set()
    await asyncio.wait({left})
