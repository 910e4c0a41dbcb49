# SPDX-License-Identifier: Apache-2.0
"""Waiters for changes of a job: all that came before the core knew of the change are woken."""

from __future__ import annotations

import asyncio

from stoker.agent.jobs.job_waiters import JobWaiters


async def test_a_waiter_that_comes_before_the_core_knows_is_woken() -> None:
    loop = asyncio.get_running_loop()
    waiters = JobWaiters(loop)
    known = False
    seen: list[bool] = []

    def know() -> None:
        nonlocal known
        known = True

    async def wait() -> None:
        while not known:
            await waiters.change(5)
        seen.append(known)

    comes = asyncio.ensure_future(
        wait()
    )  # it runs between the change and what the core makes of it
    waiters.changed(5)
    loop.call_soon(know)
    await asyncio.wait_for(comes, 60)
    assert seen == [True]
    assert len(waiters) == 0


async def test_jobs_are_woken_apart() -> None:
    waiters = JobWaiters(asyncio.get_running_loop())
    one, other = waiters.change(1), waiters.change(2)
    waiters.changed(1)
    await asyncio.sleep(0)
    assert (one.done(), other.done()) == (True, False)
    other.cancel()
    await asyncio.sleep(0)
    assert len(waiters) == 0
