# SPDX-License-Identifier: Apache-2.0
"""Cards read at a fixed pace, and set, through their vendors' tables (native/devices/)."""

FIELDS: list[tuple[str, str]]
"""Name and kind of each field of a record, in their order."""
FAULTS: int
"""Bits of `throttle` that tell of a fault."""
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

    def latest(self) -> list[float | None]:
        """Newest value of each field or None; empty before the first round and after the end."""

    def calm(self, changes: int) -> bool:
        """True if it is inside of no call, and a code changed in no more rounds than these."""

    def points(self, field: int, since_ns: int = 0, most: int = 600) -> list[tuple[int, float]]:
        """Newest points of one field, the oldest first: (CLOCK_REALTIME ns, value)."""

    def watch(self, eventfd: int, levels: list[tuple[int, float]], rest: int = 1) -> None:
        """Write to this eventfd after a round that brings news, or in which a field is at its level
        or above (field, level), and after each `rest`th slow round; -1: no more."""

    def wakeups(self) -> int:
        """Number of wake-ups written so far."""
