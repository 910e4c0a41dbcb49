# SPDX-License-Identifier: Apache-2.0
"""The judge of a history of registers: could each operation have happened at one instant?

Pure, and imports nothing of stoker, so that it can be read and run by itself:
`python linearizability.py FILE`, one JSON object a line. Each value is written once, so it is known
which write a read has seen, and the question has an exact answer in O(n log n): Gibbons and Korach,
"Testing Shared Memories", SIAM Journal on Computing 26(4), 1997, section 4.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """One operation of a client on one register, with its times on one clock."""

    register: str
    kind: str
    """`write` or `read`."""
    value: str
    """The value that was written or seen; empty: that of the beginning, which nobody writes."""
    start: float
    end: float
    """`math.inf` for a write without an answer: it may happen at any later time, or never."""


class Zone(NamedTuple):
    """The operations of one value: its write and the reads that saw it.

    `first_end` is before `last_start` if the register must have had the value for all the time
    between (a forward zone); else one instant between them is enough.
    """

    value: str
    first_end: float
    last_start: float

    @property
    def forward(self) -> bool:
        """True if the value was there for a stretch of time."""
        return self.first_end < self.last_start


def violations(history: Iterable[Operation]) -> Iterator[str]:
    """Yield why a history is not linearizable; nothing if it is."""
    registers: dict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        registers[operation.register].append(operation)
    for name, operations in registers.items():
        yield from (f"register {name}: {why}" for why in _of_register(operations))


def _of_register(operations: list[Operation]) -> Iterator[str]:
    values: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        values[operation.value].append(operation)
    values[""].append(Operation("", "write", "", -math.inf, -math.inf))
    zones = []
    for value, group in values.items():
        writes = [each for each in group if each.kind == "write"]
        reads = [each for each in group if each.kind == "read"]
        if len(writes) != 1:
            yield f"value {value!r} was written {len(writes)} times"
            continue
        if any(read.end < writes[0].start for read in reads):
            yield f"value {value!r} was read before it was written"
        if reads or writes[0].end < math.inf:
            ends, starts = [each.end for each in group], [each.start for each in group]
            zones.append(Zone(value, min(ends), max(starts)))
    yield from _crossing(zones)


def _crossing(zones: list[Zone]) -> Iterator[str]:
    """Yield the zones that cannot all have been: two forward ones at one time, or a value that was
    there only while another one was."""
    forward = sorted((z for z in zones if z.forward), key=lambda zone: zone.first_end)
    for one, other in itertools.pairwise(forward):
        if other.first_end < one.last_start:
            yield f"values {one.value!r} and {other.value!r} were there at one time"
    for zone in zones:
        if zone.forward:
            continue
        for around in forward:
            if around.first_end < zone.last_start and zone.first_end < around.last_start:
                yield f"value {zone.value!r} was there only while {around.value!r} was"


def read(lines: Iterable[str]) -> Iterator[Operation]:
    """Yield the operations of a file; an end of null is none."""
    for line in lines:
        found: dict[str, Any] = json.loads(line)
        end = math.inf if found["end"] is None else float(found["end"])
        yield Operation(
            found["register"], found["kind"], found["value"], float(found["start"]), end
        )


if __name__ == "__main__":
    wrong = list(violations(read(Path(sys.argv[1]).read_text().splitlines())))
    print("\n".join(wrong) or "linearizable")
    sys.exit(bool(wrong))
