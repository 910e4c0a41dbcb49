# SPDX-License-Identifier: Apache-2.0
"""The story of one simulated run: what happened when, in sentences for a person.

Owns the promise that telling changes nothing: a run with its story is the same run without it.
"""

from __future__ import annotations

from stoker.mesh.sim.timeline import SECOND, Timeline


class Story:
    """Lines of a story; nothing is kept unless `on`."""

    def __init__(self, timeline: Timeline, *, on: bool = False) -> None:
        self.on = on
        self.lines: list[str] = []
        self._timeline = timeline

    def tell(self, sentence: str, *values: object) -> None:
        """Add a sentence, which is formatted with `values` only if the story is kept."""
        if self.on:
            text = sentence.format(*values)
            self.lines.append(f"{self._timeline.now / SECOND:9.3f} s  {text}")
