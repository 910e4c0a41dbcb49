# SPDX-License-Identifier: Apache-2.0
"""A start is told of its devices; a driver that hangs holds it up for a while only."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.agent.link import node_telemetry
from stoker.agent.link.node_telemetry import NodeTelemetry


def telemetry_of(occupied: Any) -> NodeTelemetry:
    """Return a telemetry with these devices alone."""
    made = NodeTelemetry.__new__(NodeTelemetry)
    made.devices = SimpleNamespace(occupied=occupied)  # type: ignore[assignment]
    made._recheck = False
    return made


async def test_an_occupied_device_is_named_and_soon_reported() -> None:
    made = telemetry_of(lambda ids: dict.fromkeys(ids & {"a"}, "held by pid 812 (python3)"))
    assert await made.occupied(frozenset({"b"})) == {} and not made._recheck
    assert await made.occupied(frozenset({"a", "b"})) == {"a": "held by pid 812 (python3)"}
    assert made._recheck


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
