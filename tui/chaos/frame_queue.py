# SPDX-License-Identifier: Apache-2.0
"""One direction of a bad cable: which frames get lost, and when each of the others is due.

Pure: time and chance come in. Owns that each frame which was put in is counted once: it came out,
was lost by the cable, found the queue full, or was still under way at the end.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from typing import NamedTuple

FRAMES_MAX = 10_000
"""The most frames under way in one direction: 300 ms at twenty times the rate of a busy host."""


class CableQuality(NamedTuple):
    """The quality of one direction of a cable; each frame has its own delay, so a later one may
    overtake it."""

    loss: float = 0.0
    """The share of frames that get lost."""
    delay_s: float = 0.0
    jitter_s: float = 0.0
    """The most by which the delay of a frame differs from `delay_s`, which is no less."""


class FrameCounts(NamedTuple):
    """The fates of the frames that were put in, and the most by which one came out too late."""

    frames: int
    passed: int
    lost: int
    full: int
    """Those that were dropped because FRAMES_MAX others were under way."""
    under_way: int
    late_s: float


class FrameQueue:
    """One direction of one cable."""

    def __init__(self, quality: CableQuality, chance: random.Random) -> None:
        self._quality, self._chance = quality, chance
        self._heap: list[tuple[float, int, bytes]] = []
        """The frames under way, each behind the moment at which it is due and its number."""
        self._frames = self._passed = self._lost = self._full = 0
        self._late_s = 0.0

    def put(self, frame: bytes, now_s: float) -> None:
        """Let one frame in."""
        self._frames += 1
        if self._chance.random() < self._quality.loss:
            self._lost += 1
        elif len(self._heap) >= FRAMES_MAX:
            self._full += 1
        else:
            heapq.heappush(self._heap, (now_s + self._delay_s(), self._frames, frame))

    def _delay_s(self) -> float:
        jitter_s = self._quality.jitter_s
        apart_s = self._chance.uniform(-jitter_s, jitter_s) if jitter_s else 0.0
        return self._quality.delay_s + apart_s

    def due(self, now_s: float) -> Iterator[bytes]:
        """Let the frames out that are due, in the order in which they are."""
        while self._heap and self._heap[0][0] <= now_s:
            due_s, _, frame = heapq.heappop(self._heap)
            self._passed += 1
            self._late_s = max(self._late_s, now_s - due_s)
            yield frame

    def next_s(self) -> float | None:
        """Return when the next frame is due; None if none is under way."""
        return self._heap[0][0] if self._heap else None

    @property
    def counts(self) -> FrameCounts:
        """Return what became of all frames so far."""
        under_way = len(self._heap)
        return FrameCounts(
            self._frames, self._passed, self._lost, self._full, under_way, self._late_s
        )
