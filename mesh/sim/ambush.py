# SPDX-License-Identifier: Apache-2.0
"""Faults that wait for a message: what goes wrong right after a vote, a fetch or a part of a file.

Owns the bound that each trap springs once, at the first message of its kind.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.wire.peer_messages import Message

Spring = Callable[[int, int], None]
"""Takes the numbers of the sender and the receiver of the message."""


class Ambush:
    """The traps that are laid in one world."""

    def __init__(self) -> None:
        self._traps: dict[type, list[Spring]] = {}

    def lay(self, kind: type, spring: Spring) -> None:
        """Call `spring` at the next message of this kind between schedulers."""
        self._traps.setdefault(kind, []).append(spring)

    def clear(self) -> None:
        """Take all traps away."""
        self._traps.clear()

    def sent(self, sender: int, receiver: int, message: Message) -> None:
        """Spring what waits for this message."""
        for spring in self._traps.pop(type(message), ()):
            spring(sender, receiver)
