# SPDX-License-Identifier: Apache-2.0
"""A plan made of calls as they were made once, and the same calls answered by what it says later.

Relied on by `intel_card.py`, whose binding's functions all fill what they are given. A call is
known by its function and its numbers. Owns that a call which was not made then is never made by a
reader: it is answered with an absence, and the plan says that it has to be made anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from stoker.agent.devices.plan import STEPS_MAX, Address, Argument, Plan, Snapshot
from stoker.agent.devices.readings import Absent

Key = tuple[Any, ...]
REFERENCE = type(ctypes.byref(ctypes.c_int()))


class Recorded:
    """The plan; `at` finds a function of the binding's library by its name."""

    def __init__(self, at: Callable[[str], Address]) -> None:
        self.plan = Plan()
        self.every = 1
        """Of what is recorded just now."""
        self.lacks = ""
        """A call that was wanted later and is not in the plan."""
        self.full = False
        """It was more than a plan has room for."""
        self._at = at

    def record(self, name: str, arguments: tuple[Any, ...]) -> None:
        """As `Calls.record` wants it."""
        key = key_of_call(name, arguments)
        if key in self.plan.answers:
            return
        self.full |= len(self.plan.steps) >= STEPS_MAX
        if not self.full:
            passed = [_passed(each) for each in arguments]
            self.plan.make(key, self._at(name), passed, every=self.every)

    def answers(self, found: Snapshot) -> Answers:
        """Calls answered by a snapshot, as `Calls.replay` wants them: their codes."""
        return Answers(self, found)


class Answers:
    """What calls of a plan said in one round."""

    __slots__ = ("_codes", "_memory", "_recorded", "_steps")

    def __init__(self, recorded: Recorded, found: Snapshot) -> None:
        self._recorded, self._steps = recorded, recorded.plan.answers
        self._memory, self._codes = found.memory, found.codes

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> Any:
        filled = [each for each in arguments if _is_memory(each)]
        step = self._steps.get(key_of_call(name, arguments))
        if step is None or any(
            isinstance(each, ctypes.Array) and ctypes.sizeof(each) != size
            for each, (_, size) in zip(filled, step.spans, strict=True)
        ):
            self._recorded.lacks = name
            return Absent(f"{name}: it is asked for from the next seconds on")
        for each, (offset, size) in zip(filled, step.spans, strict=True):
            ctypes.memmove(each, self._memory[offset : offset + size], size)
        return self._codes[step.place]

    def filled(self, name: str, handle: int, kind: Any) -> tuple[int, Any] | None:
        """Code and structure of a call that fills but one; None where that was not asked for."""
        step = self._steps.get((name, handle, ""))
        if step is None or step.size < ctypes.sizeof(kind):
            return None
        return self._codes[step.place], kind.from_buffer_copy(self._memory, step.offset)


def _is_memory(argument: Any) -> bool:
    """Whether it is what a call fills: `byref` of something, or an array."""
    return type(argument) is REFERENCE or isinstance(argument, ctypes.Array)


def _number(argument: Any) -> int:
    value = argument if isinstance(argument, int) else getattr(argument, "value", None)
    return int(value or 0)


def _passed(argument: Any) -> Argument:
    if not _is_memory(argument):
        return _number(argument)
    return bytes(getattr(argument, "_obj", argument))


def key_of_call(name: str, arguments: tuple[Any, ...]) -> Key:
    """What tells one call from another: its numbers, and which arguments are memory: a list is
    asked for its length first."""
    return (name, *["" if _is_memory(each) else _number(each) for each in arguments])
