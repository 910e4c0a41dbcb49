# SPDX-License-Identifier: Apache-2.0
"""One card as its vendor's driver shows it, and the calls into the driver that Python makes.

Invariant: other threads can see which call a card's thread is in, and since when.
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
"""Time after which a call that the driver did not support is made again."""

Points = Callable[[str, int], list[tuple[int, float]]]
"""Function from a field and a number of points to its newest (CLOCK_REALTIME ns, value), the oldest
first."""


class Calls:
    """Calls into one driver for one card; the card's thread writes them, others read them."""

    __slots__ = ("_not_before", "doing", "made", "since_ns")

    def __init__(self) -> None:
        self.doing = ""
        """The function that the thread is in; empty while it is in none."""
        self.since_ns = 0
        """CLOCK_MONOTONIC at which `doing` was called."""
        self.made = 0
        self._not_before: dict[Any, tuple[int, Absent]] = {}

    def make(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and count it; an exception of the function is passed on."""
        self.since_ns = time.monotonic_ns()
        self.doing = name
        self.made += 1
        try:
            return function(*arguments)
        finally:
            self.doing = ""

    def refused(self, key: Any) -> Absent | None:
        """The absence that a call had, while it is too early to make the call again."""
        found = self._not_before.get(key)
        if found is None:
            return None
        return found[1] if time.monotonic_ns() < found[0] else None

    def remember(self, key: Any, absent: Absent, *, for_ever: bool) -> None:
        """Refuse this call for AGAIN_NS, or for ever where the library lacks the function."""
        until = FOR_EVER if for_ever else time.monotonic_ns() + AGAIN_NS
        self._not_before[key] = (until, absent)


def key_of(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Key of one call: the function and its numeric arguments, without the handle."""
    if len(arguments) < 2:
        return (name,)
    return (name, *[each for each in arguments[1:] if isinstance(each, int)])


class Card(ABC):
    """One card. Its methods may block in the driver and are called by the card's thread alone."""

    id: str
    sim: bool = False
    unread: str = "it is not read from this device"
    """Reason of every field that the vendor class does not read."""
    silent: str = ""
    """The reason why no driver is called for this card; a card with such a reason has no thread."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.pids: tuple[int, ...] = ()
        """Processes on the card, as last listed."""

    @abstractmethod
    def once(self) -> Fields:
        """Read the fields that do not change; they are read again after the card was lost."""


class DrivenCard(Card):
    """A card that a thread in C reads through its vendor's table (native/devices/vendor.h)."""

    table: str
    """Name of the vendor's table."""

    @abstractmethod
    def address_of_handle(self) -> int:
        """The driver's handle as a number."""

    @abstractmethod
    def read(self, found: RecordCopy, points: Points) -> Fields:
        """Turn a record into fields; calls no driver."""

    def rest(self) -> Fields:
        """Read fields that seldom change, through the binding; called every few seconds."""
        return {}


class PolledCard(Card):
    """A card that a thread in Python reads."""

    @abstractmethod
    def fast(self) -> Fields:
        """Read the fields that are read ten times a second."""

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        """Functions that read the other fields once a second: at most ten, one in each round."""
        return ()


class Silent(PolledCard):
    """A device without a sensor that stoker can read."""

    def __init__(self, id: str, why: str, known: Fields | None = None) -> None:
        super().__init__()
        self.id = id
        self.silent = why
        self._known = known or {}

    def once(self) -> Fields:
        return self._known

    def fast(self) -> Fields:
        return {}
