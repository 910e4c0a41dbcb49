# SPDX-License-Identifier: Apache-2.0
"""Loops of daemons and of their threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stoker.mesh.connection import loop_runner


@pytest.fixture(params=["installed", "plain"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as where uvloop is not installed."""
    if request.param == "plain":
        monkeypatch.setattr(loop_runner, "_runner", asyncio.run)


@pytest.mark.usefixtures("runner")
def test_each_thread_has_a_loop_of_its_own() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> str:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return threading.current_thread().name

    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(loop_runner.run(work())), name=name)
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["a", "b"]
    assert loops[0] is not loops[1]
    assert all(loop.is_closed() for loop in loops)


@pytest.mark.usefixtures("runner")
def test_what_is_cancelled_or_fails_reaches_the_caller() -> None:
    async def cancelled() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.Event().wait()

    async def fails() -> None:
        raise ValueError("a defect")

    with pytest.raises(asyncio.CancelledError):
        loop_runner.run(cancelled())
    with pytest.raises(ValueError, match="a defect"):
        loop_runner.run(fails())
