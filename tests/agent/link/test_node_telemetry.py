# SPDX-License-Identifier: Apache-2.0
"""A start is told of its devices; a driver that hangs holds it up for a while only."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.agent.link import node_telemetry
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.scheduler.nouns import GangSample


def telemetry_of(occupied: Any) -> NodeTelemetry:
    """Return a telemetry with these devices alone."""
    made = NodeTelemetry.__new__(NodeTelemetry)
    made.devices = SimpleNamespace(occupied=occupied)  # type: ignore[assignment]
    made._due = asyncio.Event()
    return made


async def test_an_occupied_device_is_named_and_soon_reported() -> None:
    made = telemetry_of(lambda ids: dict.fromkeys(ids & {"a"}, "held by pid 812 (python3)"))
    assert await made.occupied(frozenset({"b"})) == {} and not made._due.is_set()
    assert await made.occupied(frozenset({"a", "b"})) == {"a": "held by pid 812 (python3)"}
    assert made._due.is_set()


async def test_a_driver_that_does_not_answer_lets_nothing_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_telemetry, "OCCUPIED_S", 0.05)
    over = threading.Event()
    made = telemetry_of(lambda ids: over.wait(20) and {})
    try:
        found = await made.occupied(frozenset({"a"}))
    finally:
        over.set()
    assert found == {"a": "its driver did not say in 0.05 s who uses it"}


class Tracer:
    """A tracing thread that answers when it is let."""

    busy = True

    def __init__(self) -> None:
        self.asked: asyncio.Queue[Callable[[Any], None]] = asyncio.Queue()

    def gangs(self, done: Callable[[Any], None]) -> None:
        self.asked.put_nowait(done)


async def test_a_late_answer_about_ranks_is_told_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, tracer = telemetry_of(None), Tracer()
    made._tracer, made._gangs = tracer, ()  # type: ignore[assignment]
    first, second = GangSample(1, 1, 0, 5, told_ns=7), GangSample(1, 1, 0, 5, told_ns=8)

    asking = asyncio.ensure_future(made._gang_samples())
    (await tracer.asked.get())((first,))
    assert await asking == (first,)

    monkeypatch.setattr(node_telemetry, "OBSERVE_EVERY_S", 0.01)
    assert await made._gang_samples() == (first,), "what was known before, with its own time"
    tracer.asked.get_nowait()((second,))
    assert await made._gang_samples() == (second,)

    tracer.busy = False
    assert (await made._traced(()))[0] == ()
