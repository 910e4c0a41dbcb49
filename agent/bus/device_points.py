# SPDX-License-Identifier: Apache-2.0
"""Readings of devices at full rate as messages of the local bus: each point of ten a second once.

No driver is called: the points are those that the threads of the cards have read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from stoker.agent.devices.fields import FAST

NS = 1_000_000_000


class Points(Protocol):
    """One card with its newest points: `Sampled` is one."""

    def points(self, name: str, since_ns: int = 0, most: int = 600) -> list[tuple[int, float]]: ...


class PointsMessage(msgspec.Struct, frozen=True):
    """The new points of one device; times are CLOCK_REALTIME ns, units those of `devices`."""

    node: str
    device: str
    sim: bool
    points: dict[str, list[tuple[int, float]]]


class DevicePoints:
    """The points of a node's devices; `cards` returns (id, simulated, points) of each."""

    def __init__(self, node: str, cards: Callable[[], Iterator[tuple[str, bool, Points]]]) -> None:
        self._node, self._cards = node, cards
        self._since_ns: dict[tuple[str, str], int] = {}
        self._called_ns = 0

    def __call__(self) -> Iterator[tuple[str, bytes]]:
        """Yield (topic, message) with what was read since the call before; the first call after a
        pause begins with the past second."""
        now_ns = time.time_ns()
        if now_ns - self._called_ns > NS:
            self._since_ns.clear()
        self._called_ns = now_ns
        for id, sim, card in self._cards():
            found = {name: new for name in FAST if (new := self._new(id, name, card, now_ns))}
            if found:
                message = PointsMessage(self._node, id, sim, found)
                yield f"device.{id}", msgspec.json.encode(message)

    def _new(self, id: str, name: str, card: Points, now_ns: int) -> list[tuple[int, float]]:
        new = card.points(name, self._since_ns.get((id, name), now_ns - NS))
        if new:
            self._since_ns[id, name] = new[-1][0]
        return new
