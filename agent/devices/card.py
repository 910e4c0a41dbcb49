# SPDX-License-Identifier: Apache-2.0
"""One card as its vendor's driver answers of it, and the calls that Python makes for that.

Invariant: whoever looks from outside can see which call a card's thread is inside of, and since
when.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from stoker.agent.devices.readings import Absent, Fields
from stoker.agent.devices.record import RecordCopy

SIM_SYMBOL = "stoker_sim_driver"
"""Exported by the simulated driver libraries and by no other."""
FOR_EVER = 1 << 62
AGAIN_NS = 60_000_000_000
"""A call that a driver does not support is made again after this time; a symbol that its library
lacks never is."""


Points = Callable[[str, int], list[tuple[int, float]]]
"""(field, at most so many) -> its newest (CLOCK_REALTIME ns, value), the oldest first."""


class Calls:
    """Calls into one driver for one card. Written by the card's thread, read by others."""

    __slots__ = ("_not_before", "doing", "made", "since_ns")

    def __init__(self) -> None:
        self.doing = ""
        """The function inside of which the thread is; empty: none."""
        self.since_ns = 0
        """CLOCK_MONOTONIC of `doing`."""
        self.made = 0
        self._not_before: dict[Any, tuple[int, Absent]] = {}

    def make(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call; what it raises goes through."""
        self.since_ns = time.monotonic_ns()
        self.doing = name
        self.made += 1
        try:
            return function(*arguments)
        finally:
            self.doing = ""

    def refused(self, key: Any) -> Absent | None:
        """The answer of a call that it is not yet time to make again."""
        found = self._not_before.get(key)
        if found is None:
            return None
        return found[1] if time.monotonic_ns() < found[0] else None

    def remember(self, key: Any, absent: Absent, *, for_ever: bool) -> None:
        """Refuse this call for a while, or for ever."""
        until = FOR_EVER if for_ever else time.monotonic_ns() + AGAIN_NS
        self._not_before[key] = (until, absent)


def key_of(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Key of one call of a function: its numeric arguments without the handle."""
    if len(arguments) < 2:
        return (name,)
    return (name, *[each for each in arguments[1:] if isinstance(each, int)])


class Card(ABC):
    """Everything may block in the driver and is called from the card's own thread only."""

    id: str
    sim: bool = False
    lacks: str = "it is not read from this device"
    """Why there is none of a field that the card does not answer."""
    silent: str = ""
    """Why no driver is to be asked of it at all; then it has no thread."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.pids: tuple[int, ...] = ()
        """Processes on it, as last listed."""

    @abstractmethod
    def once(self) -> Fields:
        """Fields that do not change; read again after the card was lost."""


class DrivenCard(Card):
    """A card that a thread in C reads through its vendor's table (native/devices/vendor.h)."""

    table: str
    """The name of the table."""

    @abstractmethod
    def address_of_handle(self) -> int:
        """The driver's handle as a number."""

    @abstractmethod
    def read(self, found: RecordCopy, points: Points) -> Fields:
        """A record as fields; makes no call."""

    def rest(self) -> Fields:
        """Fields that seldom change, read through the binding every few seconds."""
        return {}


class PolledCard(Card):
    """A card that a thread in Python asks for everything."""

    @abstractmethod
    def fast(self) -> Fields:
        """Ten times a second."""

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        """Parts of what is read once a second; at most ten, one after each fast round."""
        return ()


class Silent(PolledCard):
    """A device without any sensor that stoker knows of."""

    def __init__(self, id: str, why: str, known: Fields | None = None) -> None:
        super().__init__()
        self.id = id
        self.silent = why
        self._known = known or {}

    def once(self) -> Fields:
        return self._known

    def fast(self) -> Fields:
        return {}
