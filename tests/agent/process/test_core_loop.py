# SPDX-License-Identifier: Apache-2.0
"""The loop around the core: events become one batch of effects, and an error ends the agent."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from stoker.agent.jobs import steps
from stoker.agent.jobs.steps import Effect, Event
from stoker.agent.process.core_loop import CoreLoop


class Core:
    """Answers each event with one note, and wants one tick."""

    status = "ok"
    caught_up = False

    def __init__(self) -> None:
        self.events: list[Event] = []

    def step(self, event: Event, now_s: float) -> list[Effect]:
        self.events.append(event)
        return [steps.LogNote(type(event).__name__)]

    def deadline(self) -> float | None:
        return 0.0 if len(self.events) == 2 else None


class Status:
    def status(self, text: str, ready: bool) -> None:
        assert (text, ready) == ("ok", False)


async def test_events_posted_together_have_one_batch_of_effects_and_a_tick_follows() -> None:
    batches: asyncio.Queue[list[Effect]] = asyncio.Queue()
    core = Core()
    loop = CoreLoop(cast(Any, core), cast(Any, Status()), batches.put_nowait, pytest.fail)
    loop.post(steps.MeshUp())
    loop.post(steps.MeshDown())
    assert await batches.get() == [steps.LogNote("MeshUp"), steps.LogNote("MeshDown")]
    assert await batches.get() == [steps.LogNote("NodeTick")]


async def test_who_waits_for_the_core_hears_when_it_is_so() -> None:
    core = Core()
    loop = CoreLoop(cast(Any, core), cast(Any, Status()), lambda effects: None, pytest.fail)
    waits = asyncio.ensure_future(loop.until(lambda: len(core.events) > 1))
    loop.post(steps.MeshUp())
    await loop.until(lambda: len(core.events) == 1)
    assert not waits.done()
    loop.post(steps.MeshDown())
    await waits


async def test_an_effect_that_fails_ends_the_agent() -> None:
    ended = asyncio.Event()

    def carry_out(effects: list[Effect]) -> None:
        raise OSError(28, "No space left on device")

    loop = CoreLoop(cast(Any, Core()), cast(Any, Status()), carry_out, ended.set)
    loop.post(steps.MeshUp())
    await ended.wait()
