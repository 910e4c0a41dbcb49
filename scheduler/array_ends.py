# SPDX-License-Identifier: Apache-2.0
"""The ends of the jobs of an array, in a byte for each: what many have in common is kept once.

A part of the job book. Owns the bound: at most KINDS_MAX kinds of ends of one array, each with a
reason that is cut to REASON_CHARS; of an end beyond them only its state is known. Pure.
"""

from __future__ import annotations

from typing import Final

import msgspec

KINDS_MAX: Final = 254
"""The most kinds of ends that are kept of one array, beside none and any other."""
REASON_CHARS: Final = 160
"""The most characters of a reason."""
_NONE: Final = 0
_OTHER: Final = KINDS_MAX + 1


class ArrayEnd(msgspec.Struct, array_like=True, frozen=True):
    """The exit code, signal and reason that jobs which ended alike have in common."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None


class EndsImage(msgspec.Struct, array_like=True, frozen=True):
    """The ends of the array that begins with job `first`, as a snapshot has them."""

    first: int
    kinds: list[ArrayEnd]
    codes: bytes


class ArrayEnds:
    """The ends of the jobs of one array, by their places."""

    def __init__(self, size: int, image: EndsImage | None = None) -> None:
        self._size = size
        self._kinds = list(image.kinds) if image is not None else []
        self._codes = bytearray(image.codes) if image is not None else bytearray()
        self._known = {kind: code for code, kind in enumerate(self._kinds, 1)}

    def __bool__(self) -> bool:
        return bool(self._codes)

    def image(self, first: int) -> EndsImage:
        """Return what a snapshot has of them."""
        return EndsImage(first, list(self._kinds), bytes(self._codes))

    def note(self, place: int, end: ArrayEnd) -> None:
        """Keep the end of the job at a place."""
        kind = msgspec.structs.replace(end, reason=end.reason[:REASON_CHARS])
        code = self._known.get(kind)
        if code is None and len(self._kinds) < KINDS_MAX:
            self._kinds.append(kind)
            code = self._known[kind] = len(self._kinds)
        if not self._codes:
            self._codes = bytearray(self._size)
        self._codes[place] = _OTHER if code is None else code

    def at(self, place: int) -> ArrayEnd | None:
        """Return the end of the job at a place; None where only its state is known."""
        code = self._codes[place] if self._codes else _NONE
        return None if code in (_NONE, _OTHER) else self._kinds[code - 1]
