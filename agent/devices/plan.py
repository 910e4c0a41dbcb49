# SPDX-License-Identifier: Apache-2.0
"""The calls of a fast round as data: what native/devices/reader.c makes, and where answers lie.

Relied on by vendor classes, which write a plan from their binding's own library, and by the
sampler. Owns that a call which a plan answers is never made by whoever only wants to read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from stoker.native import _devices

ALIGN = 8
LAG = 10
"""Rounds that a rate is taken over: a second."""
Address = int | None


class Snapshot(NamedTuple):
    """What the reader has of one round."""

    rounds: int
    t_ns: int
    codes: list[int]
    memory: bytes


class Step(NamedTuple):
    """Where one call's answer lies."""

    place: int
    offset: int
    size: int


class Plan:
    """Steps, taps and the memory they write to; empty until a vendor fills it."""

    def __init__(self) -> None:
        self.steps: list[_devices.Step] = []
        self.taps: list[_devices.Tap] = []
        self.bits: list[tuple[int, int, int]] = []
        """(step, offset, mask) of answers that are news when they change."""
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
        """A call whose last argument is `out`: its size, or what it is before each round. None for
        a function that there is not."""
        if not address:
            return None
        self._memory += bytes(-len(self._memory) % ALIGN)
        offset = len(self._memory)
        self._memory += bytes(out) if isinstance(out, int) else out
        self._memory += bytes(ALIGN)  # a tap looks at eight bytes
        arguments = (*before, offset)
        self.steps.append((address, arguments, 1 << len(before)))
        size = out if isinstance(out, int) else len(out)
        self.answers[key] = Step(len(self.steps) - 1, offset, size)
        return self.answers[key]

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

    def rate(self, name: str, of: str) -> None:
        """Keep how much another field grows in a second."""
        if of in self.names:
            self.names[name] = len(self.taps)
            self.taps.append((_devices.RATE, self.names[of], 0, LAG, 1.0, False))


def address(function: Any) -> Address:
    """Where a ctypes function is; None for none."""
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
