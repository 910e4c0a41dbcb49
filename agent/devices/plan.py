# SPDX-License-Identifier: Apache-2.0
"""The calls about a card as data: what native/devices/reader.c makes, and where answers lie.

Relied on by vendor classes, which write a plan from their binding's own library, and by the
sampler. Owns that a call which a plan answers is never made by whoever only wants to read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.agent.devices.fields import FAST_HZ, SLOW_HZ
from stoker.native import _devices

ALIGN = 8
STEPS_MAX: int = _devices.STEPS
PERIOD_NS = 1_000_000_000 // FAST_HZ
SLOW = FAST_HZ // SLOW_HZ
"""Rounds from one to the next in which everything is asked for."""
LAG = FAST_HZ
"""Rounds that a rate is taken over: a second."""
Address = int | None


class Snapshot(NamedTuple):
    """What the reader has of one round."""

    rounds: int
    t_ns: int
    codes: list[int]
    memory: bytes

    @property
    def turn(self) -> int:
        """Which second's answers the slow steps have; the first is 0."""
        return (self.rounds - 1) // SLOW

    @property
    def slow_ns(self) -> int:
        """About when those were given."""
        return self.t_ns - (self.rounds - 1) % SLOW * PERIOD_NS


class Past(NamedTuple):
    """An argument: the moment so long ago, in us of CLOCK_REALTIME."""

    us: int


Argument = int | bytes | Past
"""Bytes are memory that a call fills, as they are before it."""


class Step(NamedTuple):
    """Where one call's answer lies: `offset` and `size` of the last memory that it fills."""

    place: int
    offset: int
    size: int
    spans: tuple[tuple[int, int], ...] = ()
    """Offset and size of all of them."""


class Plan:
    """Steps, taps and the memory they write to; empty until a vendor fills it."""

    def __init__(self) -> None:
        self.steps: list[_devices.Step] = []
        self.taps: list[_devices.Tap] = []
        self.bits: list[tuple[int, int, int]] = []
        """(step, offset, mask) of answers that are news when they change."""
        self.telling = False
        """Whether all that is asked once a second and is news at once is among them."""
        self.calls: list[str] = []
        """Names of the functions that the steps call."""
        self.decoder: Any = None
        """Who decodes what a reader of it has; None: the card itself."""
        self.names: dict[str, int] = {}
        """Field -> its tap."""
        self.answers: dict[tuple[Any, ...], Step] = {}
        """What is asked for -> where the answer lies."""
        self._memory = bytearray()

    @property
    def memory(self) -> bytes:
        return bytes(self._memory)

    def call(
        self, key: tuple[Any, ...], address: Address, before: Sequence[int], out: bytes | int
    ) -> Step | None:
        """A call in each round whose last argument is `out`: its size, or what it is before. None
        for a function that there is not."""
        memory = bytes(out) if isinstance(out, int) else out
        return self.make(key, address, (*before, memory))

    def make(
        self,
        key: tuple[Any, ...],
        address: Address,
        arguments: Sequence[Argument],
        *,
        every: int = 1,
        turn: int = 0,
    ) -> Step | None:
        """The same of any arguments, in rounds that leave `turn` when divided by `every`."""
        if not address:
            return None
        spans, passed, begin = [], [], len(self._memory)
        for each in arguments:
            if isinstance(each, bytes):
                spans.append((self._room(each), len(each)))
                passed.append(spans[-1][0])
            else:
                passed.append(each.us if isinstance(each, Past) else each)
        inside = sum(1 << i for i, each in enumerate(arguments) if isinstance(each, bytes))
        past = sum(1 << i for i, each in enumerate(arguments) if isinstance(each, Past))
        size = len(self._memory) - begin
        self.steps.append((address, (*passed,), inside, past, every, turn, begin, size))
        self.calls.append(str(key[0]))
        last = spans[-1] if spans else (begin, 0)
        self.answers[key] = Step(len(self.steps) - 1, *last, tuple(spans))
        return self.answers[key]

    def _room(self, memory: bytes) -> int:
        self._memory += bytes(-len(self._memory) % ALIGN)
        offset = len(self._memory)
        self._memory += memory + bytes(ALIGN)  # a tap looks at eight bytes
        return offset

    def tap(
        self,
        name: str,
        step: Step | None,
        kind: int,
        *,
        at: int = 0,
        scale: float = 1.0,
        gaps: bool = False,
    ) -> None:
        """Keep the history of a number in a step's answer."""
        if step is not None:
            self.names[name] = len(self.taps)
            self.taps.append((kind, step.place, step.offset + at, 0, scale, gaps))

    def news(self, step: Step | None, mask: int, *, at: int = 0) -> None:
        """Whoever listens is told at once when these bits of an answer change."""
        if step is not None:
            self.bits.append((step.place, step.offset + at, mask))

    def rate(self, name: str, of: str, *, by: str = "", lag: int = LAG) -> None:
        """Keep how much another field grows in a second; `by`: of the seconds that this one has."""
        if of in self.names and (not by or by in self.names):
            self.names[name] = len(self.taps)
            clock = self.names[by] + 1 if by else 0
            self.taps.append((_devices.RATE, self.names[of], clock, lag, 1.0, False))


def address(function: Any) -> Address:
    """Where a ctypes function is; None for none."""
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
