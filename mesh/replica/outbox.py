# SPDX-License-Identifier: Apache-2.0
"""The effects and counters that one replica's parts share.

Owns the order: effects leave a step in the order in which its parts put them here.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.replica import events


class Outbox:
    """The effects of the present step, and counters since the start of the process."""

    def __init__(self) -> None:
        self.counters: dict[str, int] = {}
        self._effects: list[events.Effect] = []

    def put(self, *effects: events.Effect) -> None:
        """Add effects after the present ones."""
        self._effects += effects

    def reply(self, token: Any, value: Any) -> None:
        """Answer the request with this token."""
        self.put(events.Reply(token, value))

    def take(self) -> list[events.Effect]:
        """Remove and return all effects."""
        taken, self._effects = self._effects, []
        return taken

    def count(self, name: str, by: int = 1) -> None:
        """Add to a named counter."""
        self.counters[name] = self.counters.get(name, 0) + by
