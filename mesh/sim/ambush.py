# SPDX-License-Identifier: Apache-2.0
"""Faults that wait for their moment: a vote, a fetch, a part of a file, an append.

Owns the bound that each trap springs once, at the first message of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Spring = Callable[[int, int, Any], None]
"""Takes the numbers of the sender and the receiver, and the message; the log's number is 0."""


class Ambush:
    """The traps that are laid in one world."""

    def __init__(self) -> None:
        self._traps: dict[type, list[Spring]] = {}

    def lay(self, kind: type, spring: Spring) -> None:
        """Call `spring` at the next message of this kind, just before it is sent."""
        self._traps.setdefault(kind, []).append(spring)

    def clear(self) -> None:
        """Take all traps away."""
        self._traps.clear()

    def sent(self, sender: int, receiver: int, message: Any) -> None:
        """Spring what waits for this message."""
        if not self._traps:
            return
        for spring in self._traps.pop(type(message), ()):
            spring(sender, receiver, message)
