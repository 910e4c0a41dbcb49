# SPDX-License-Identifier: Apache-2.0
"""Waiting for a window, against a fake client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from stoker.mesh.wire import schema
from stoker.native.errors import StokerError, Unavailable
from stoker.tui.calls import windows


class Node:
    """A client that answers looks with these states in turn, and then with the last one."""

    def __init__(self, states: Iterable[str], *, forgets: bool = False) -> None:
        self.states, self.forgets = list(states), forgets
        self.asked: list[schema.TracingRequest] = []
        self.number = 0

    async def tracing(self, request: schema.TracingRequest) -> schema.TracingView:
        self.asked.append(request)
        if request.do == "open":
            self.number = request.window
        if request.do == "close":
            self.states = ["closing", "ready"]
        state: Any = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        window = schema.WindowView(
            window=self.number + self.forgets, state=state, mode="full", seconds=0.2, by="a",
            from_ns=1, reason="the disk is full" if state == "failed" else "",
        )  # fmt: skip
        return schema.TracingView(
            job=7, node="n", mode="governed", wanted="full", budget_ppm=1, window=window
        )


async def record(node: Node, early: asyncio.Event | None = None, seconds: float = 0.2) -> Any:
    client: Any = node
    return await windows.record(client, 7, seconds, early or asyncio.Event())


async def test_a_window_is_waited_for() -> None:
    node = Node(["opening", "open", "open", "closing", "ready"])
    window = await record(node)
    assert window.state == "ready"
    assert [request.do for request in node.asked] == ["open"] + ["look"] * 4
    assert node.asked[0].window > 0


async def test_an_early_end_is_asked_for_once() -> None:
    node, early = Node(["open"]), asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, early.set)
    window = await asyncio.wait_for(record(node, early, seconds=100.0), 60)
    assert window.state == "ready"
    assert [request.do for request in node.asked].count("close") == 1


async def test_what_failed_is_said() -> None:
    with pytest.raises(StokerError, match="the disk is full"):
        await record(Node(["open", "failed"]))


async def test_a_node_that_forgot_is_said() -> None:
    with pytest.raises(Unavailable, match="restarted"):
        await record(Node(["open"], forgets=True))


async def test_whoever_goes_away_closes_the_window() -> None:
    node = Node(["open"])
    task = asyncio.create_task(record(node, seconds=100.0))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert node.asked[-1].do == "close"
