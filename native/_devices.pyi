# SPDX-License-Identifier: Apache-2.0
"""A thread that makes the same driver calls at a fixed pace (native/devices/reader.h)."""

U16: int
U32: int
U64: int
I32: int
F64: int
NVML: int
SAMPLES: int
RATE: int
STEPS: int
"""Of one plan."""
GUARDS: int
"""Levels and bits that a reader looks at."""
POINTS: int
"""Of one tap's ring."""

Step = tuple[int, tuple[int, ...], int, int, int, int, int, int]
"""(address of the function, arguments, bits of those that are places in the memory, bits of those
that are so many us ago, every so many rounds, in this one of them, offset and bytes of what it
fills)."""
Tap = tuple[int, int, int, int, float, bool]
"""(kind, step, offset, lag, scale, whether all ones are no value)."""

class Reader:
    def __init__(
        self,
        steps: list[Step],
        taps: list[Tap],
        memory: bytes,
        period_ns: int,
        phase_ns: int = 0,
        slow: int = 0,
    ) -> None:
        """Start; ValueError for a plan that leaves its bounds. In each `slow`th round all was asked
        for: that is news; 0: never."""

    def stop(self) -> None:
        """End the thread; one that hangs in a call is left behind. Afterwards there is nothing."""

    def snapshot(self) -> tuple[int, int, list[int], bytes]:
        """(rounds so far, CLOCK_REALTIME ns, return codes, memory) of the last whole round."""

    def state(self) -> tuple[int, int, int, int, int, int, int]:
        """(step it is inside of or -1, since when in CLOCK_MONOTONIC ns, rounds, late, missed,
        calls, rounds in which a code changed)."""

    def latest(self) -> tuple[int, list[float]]:
        """(rounds so far, newest value of each tap or NaN); none after the end."""

    def watch(
        self,
        bell: int,
        levels: list[tuple[int, float]],
        bits: list[tuple[int, int, int]],
        rest: int = 1,
    ) -> None:
        """Write to this eventfd after a round in which a call's code is another than before, a tap
        is at its level or above (tap, level), or bits of an answer are others (step, offset, mask);
        and after each `rest`th round of `slow`; -1: no more. ValueError for what is not in the
        plan."""

    def rings(self) -> int:
        """How often it was written to."""

    def points(self, tap: int, since_ns: int = 0, most: int = 600) -> list[tuple[int, float]]:
        """Newest points of one tap, the oldest first."""

FIELDS: list[tuple[str, str]]
"""Name and kind of each field of a record, in their order."""
SLOW: int
"""Rounds from one in which everything is read to the next."""

def calls(vendor: str) -> list[str]:
    """Names of a vendor's calls, in the order in which a record counts them."""

def second_s(vendor: str, handle: int) -> float:
    """CPU seconds that the calls of one second take in a bare loop; blocks as the driver does."""

def write(vendor: str, handle: int, what: str, value: int) -> str:
    """Write one setting by its name on record and read it back; why it was not, or nothing."""

class CardReader:
    """A thread that reads one card through its vendor's table (native/devices/card_reader.h)."""

    def __init__(self, vendor: str, handle: int, period_ns: int, phase_ns: int = 0) -> None:
        """Load the vendor's library and start; RuntimeError says why the library is not usable."""

    def stop(self) -> None:
        """End the thread; one that hangs in a call is left behind. Afterwards there is nothing."""

    def renew(self) -> None:
        """Let the vendor look again for what does not change, before the next round."""

    def snapshot(self) -> tuple[int, int, int, bytes, bytes, bytes]:
        """(rounds so far, CLOCK_REALTIME ns, the same of the last slow round, fields, links,
        processes) of the last whole round, as agent/devices/record.py unpacks them."""

    def state(self) -> tuple[int, int, int, int, int, int, int]:
        """(call it is inside of or -1, since when in CLOCK_MONOTONIC ns, rounds, late, missed,
        calls, rounds in which a code changed)."""

    def latest(self) -> list[float]:
        """Newest value of each field or NaN; empty before the first round and after the end."""

    def points(self, field: int, since_ns: int = 0, most: int = 600) -> list[tuple[int, float]]:
        """Newest points of one field, the oldest first: (CLOCK_REALTIME ns, value)."""

    def watch(self, eventfd: int, levels: list[tuple[int, float]], rest: int = 1) -> None:
        """Write to this eventfd after a round that brings news, or in which a field is at its level
        or above (field, level), and after each `rest`th slow round; -1: no more."""

    def wakeups(self) -> int:
        """How often it was written to."""
