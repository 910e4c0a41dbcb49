# SPDX-License-Identifier: Apache-2.0
"""The windows of sampled sites: one of each length in every cycle, at a random place.

Pure. Windows are drawn anew for each cycle (stratified sampling). So a job whose work repeats
cannot be in step with them, and the part of the time that they cover is exact over whole cycles.
"""

from __future__ import annotations

import random

from stoker.probes.cost.cost_budget import PPM

CYCLE_NS = 10_000_000_000
"""Attaching and detaching take some 0.1 s together, which is the shortest useful window."""


class Windows:
    """The windows of the present cycle, by the part of the time that they take."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._cycle = -1
        self._places: dict[int, float] = {}

    def begin(self, now_ns: int) -> None:
        """Advance to `now_ns`; a new cycle draws all windows anew."""
        if now_ns // CYCLE_NS != self._cycle:
            self._cycle = now_ns // CYCLE_NS
            self._places = {duty: self._random.random() for duty in self._places}

    def is_open(self, duty_ppm: int, now_ns: int) -> bool:
        """Return True if sites with this share of the time are attached now."""
        begin, end = self._window(duty_ppm)
        return begin <= now_ns < end

    def next_edge(self, now_ns: int) -> int:
        """Return the time at which a window opens or closes next, or the cycle ends."""
        edges = [edge for duty in self._places for edge in self._window(duty)]
        return min((e for e in edges if e > now_ns), default=(self._cycle + 1) * CYCLE_NS)

    def _window(self, duty_ppm: int) -> tuple[int, int]:
        length = CYCLE_NS * duty_ppm // PPM
        place = self._places.setdefault(duty_ppm, self._random.random())
        begin = self._cycle * CYCLE_NS + int(place * (CYCLE_NS - length))
        return begin, begin + length
