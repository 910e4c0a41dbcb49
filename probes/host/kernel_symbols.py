# SPDX-License-Identifier: Apache-2.0
"""The names of the kernel's functions by address, for the stacks of waits.

Invariant: the table is two arrays and one piece of text. A kernel has more than 100,000 functions,
which would take 25 MiB as Python's strings and integers, and take 4 so.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Self

KERNEL_SYMBOLS = Path("/proc/kallsyms")


class KernelSymbols:
    """The functions of a kernel in the order of their start addresses."""

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        """Take lines of /proc/kallsyms; those with an address of zero are hidden from this reader
        and left out."""
        starts, places, names = array("Q"), array("I"), bytearray()
        for line in lines:
            start, _, name, *_ = line.split(maxsplit=3)
            if address := int(start, 16):
                starts.append(address)
                places.append(len(names))
                names += name + b"\n"
        order = sorted(range(len(starts)), key=starts.__getitem__)
        self._starts = array("Q", (starts[each] for each in order))
        self._places = array("I", (places[each] for each in order))
        self._names = bytes(names)

    @classmethod
    def read(cls, path: Path = KERNEL_SYMBOLS) -> Self:
        """Read the table of the running kernel; it is empty if the file cannot be read."""
        try:
            with path.open("rb") as lines:
                return cls(lines)
        except OSError:
            return cls()

    def __len__(self) -> int:
        return len(self._starts)

    def name(self, address: int) -> str:
        """Return the function that begins at or before this address; empty if none does."""
        at = bisect_right(self._starts, address)
        if not at:
            return ""
        place = self._places[at - 1]
        return self._names[place : self._names.index(b"\n", place)].decode()
