# SPDX-License-Identifier: Apache-2.0
"""One card as its vendor's driver answers of it, and the calls that are made for that.

Relied on by the sampler, which has one thread for each card. Owns that whoever looks from outside
can see which call a card's thread is inside of, and since when.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from stoker.agent.devices.plan import Plan, Snapshot
from stoker.agent.devices.readings import Absent, Fields

FOR_EVER = 1 << 62
AGAIN_NS = 60_000_000_000
"""A call that a driver does not support is made again after so long; a symbol that its library
lacks never is."""


Points = Callable[[str, int], list[tuple[int, float]]]
"""(field, at most so many) -> its newest (CLOCK_REALTIME ns, value), the oldest first."""


class Calls:
    """Calls into one driver for one card. Written by the card's thread, read by others."""

    __slots__ = ("_not_before", "doing", "for_good", "made", "record", "replay", "since_ns", "t_ns")

    def __init__(self) -> None:
        self.doing = ""
        """The function inside of which the thread is; empty: none."""
        self.since_ns = 0
        """CLOCK_MONOTONIC, of `doing`."""
        self.made = 0
        self.replay: Callable[[str, tuple[Any, ...]], Any] | None = None
        """Answers calls instead of the driver, where set."""
        self.record: Callable[[str, tuple[Any, ...]], None] | None = None
        """Told of each call before it is made, where set."""
        self.for_good = False
        """What a driver does not support once is never asked again here."""
        self.t_ns = 0
        """CLOCK_REALTIME of what `replay` answers."""
        self._not_before: dict[Any, tuple[int, Absent]] = {}

    def make(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call; what it raises goes through."""
        if self.replay is not None:
            return self.replay(name, arguments)
        if self.record is not None:
            self.record(name, arguments)
        self.since_ns = time.monotonic_ns()
        self.doing = name
        self.made += 1
        try:
            return function(*arguments)
        finally:
            self.doing = ""

    def now(self) -> int:
        """CLOCK_REALTIME ns of an answer that was just given."""
        return self.t_ns if self.replay is not None else time.time_ns()

    @property
    def refuses(self) -> bool:
        """Whether any call was ever answered so that it is not to be made again at once."""
        return bool(self._not_before)

    def refused(self, key: Any) -> Absent | None:
        """What this call was answered when it is not yet time to make it again."""
        found = self._not_before.get(key)
        if found is None or (self.replay is not None and found[0] != FOR_EVER):
            return None
        return found[1] if time.monotonic_ns() < found[0] else None

    def remember(self, key: Any, absent: Absent, *, for_ever: bool) -> None:
        """Not to be made again soon, or ever."""
        until = FOR_EVER if for_ever else time.monotonic_ns() + AGAIN_NS
        self._not_before[key] = (until, absent)


def key_of(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What tells one call of a function from another: its numbers, but for the handle."""
    if len(arguments) < 2:
        return (name,)
    return (name, *[each for each in arguments[1:] if isinstance(each, int)])


class Card(ABC):
    """Everything may block in the driver and is called from the card's own thread only."""

    id: str
    sim: bool = False
    lacks: str = "it is not read from this device"
    """Why there is none of a field that it does not know of."""
    table: str = ""
    """The vendor's table in C that reads the card (native/devices/vendor.h); empty: none does."""
    silent: str = ""
    """Why no driver is to be asked of it at all; then it has no thread."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.fast_calls = self.calls
        """Of `fast`; a vendor that gives a plan has others there, which the plan answers."""
        self.slow_calls = self.calls
        """The same of `steps`, where the plan has those as well: of a card that is `whole`."""

    @property
    def all_calls(self) -> tuple[Calls, ...]:
        """Every place where a thread may hang."""
        return (self.calls,)

    def plan(self) -> Plan | None:
        """The calls of `fast` as data, the same object each time; None: it is called itself."""
        return None

    @property
    def whole(self) -> bool:
        """Whether its plan has the calls of `steps` too."""
        return bool(self.table)

    def address_of_handle(self) -> int:
        """The driver's handle as a number, for the thread in C."""
        raise AssertionError(f"{type(self).__name__} is not read by a thread in C")

    def read(self, found: Any, points: Points) -> Fields:
        """A record as fields; makes no call. Only of a card with a `table`."""
        raise AssertionError(f"{type(self).__name__} is not read by a thread in C")

    def decode_slow(self, found: Snapshot) -> Fields:
        """`steps` by what a plan's calls answered; makes no call."""
        raise AssertionError(f"{type(self).__name__} has no such plan")

    @property
    def stale(self) -> bool:
        """Whether the plan lacks what was wanted of it, so that it has to be made anew."""
        return False

    def rest(self) -> Fields:
        """What a plan does not have of a card that is `whole`: asked once in REST_S."""
        return {}

    def decode(self, found: Snapshot) -> Fields:
        """`fast` by what a plan's calls answered; makes no call."""
        raise AssertionError(f"{type(self).__name__} has no plan")

    def seen(self, points: Points) -> None:  # noqa: B027  # most need not know
        """What is kept of its fields: `points(name, most)`, for what rests on several rounds."""

    @abstractmethod
    def once(self) -> Fields:
        """What does not change; asked again after the card was lost."""

    def fast(self) -> Fields:
        """Ten times a second, of a card that has no `table`."""
        raise AssertionError(f"{type(self).__name__} is not read by a thread in Python")

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        """Parts of what is read once a second; at most ten, one after each fast round."""
        return ()

    def drain(self) -> Iterable[tuple[int, float]]:
        """Power samples that the driver kept since the last call: (CLOCK_REALTIME ns, W)."""
        return ()


class Silent(Card):
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
