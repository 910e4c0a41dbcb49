# SPDX-License-Identifier: Apache-2.0
"""Calls into the drivers of several cards at once, by a deadline.

Invariant: a card is not called again before its call has returned, so that a call that hangs costs
the deadline once, and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from stoker.agent.devices.deadline import Task, within
from stoker.agent.devices.readings import Absent

ANSWER_S: Final = 2.0

T = TypeVar("T")


class DriverCalls:
    """Calls under way, by card."""

    def __init__(self) -> None:
        self._late: dict[str, Task[Any]] = {}

    def each(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | Absent]:
        """Call all; returns card -> result in the order given, Absent if the call hangs.

        An exception of a call is raised.
        """
        free = [(id, call) for id, call in calls.items() if not self.hangs(id)]
        found: dict[str, T | Absent] = dict.fromkeys(
            calls, Absent(f"its driver has not answered for {ANSWER_S:g} s")
        )
        for task in within(free, ANSWER_S):
            if not task.over.is_set():
                self._late[task.name] = task
            elif task.error is not None:
                raise task.error
            else:
                found[task.name] = task.result  # type: ignore[assignment]
        return found

    def hangs(self, id: str) -> bool:
        """True while a call for this card has not returned."""
        late = self._late.get(id)
        if late is not None and late.over.is_set():
            del self._late[id]
            late = None
        return late is not None
