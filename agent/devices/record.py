# SPDX-License-Identifier: Apache-2.0
"""Decoder of the record that a thread in C fills for one card (native/devices/record.h).

A driver's code becomes an absence in the words of the vendor's binding. Invariant: a field that the
vendor's table does not fill is left out, so that its value from the binding stays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import isnan
from typing import Any, NamedTuple

from stoker.agent.devices.fields import REASONS, SPECS
from stoker.agent.devices.readings import Absent, Fields, Reading, Trouble
from stoker.native import _devices

FIELD = struct.Struct("=dqiHHII")
"""struct sk_device_field: value, t_ns, code, call, number, window_us, reserved."""
LINK = struct.Struct("=dddQII")
"""struct sk_device_link: tx_bytes, rx_bytes, errors, peer, port, up."""
PROCESS = struct.Struct("=ddII32s")
"""struct sk_device_process: memory_bytes, busy_ratio, pid, kind, name."""
KINDS = ("compute", "graphics")
NOT_READ, NO_CALL = -1, 0xFFFF
ABSENCES = {
    -2: "it is the difference of two rounds",
    -3: "the counter was not read for a second yet",
    -4: "not known to the driver",
    -5: "this card has none",
    -6: "the library lacks the function",
    -7: "a part of the card cannot be read",
    -8: "N/A",
}
"""enum sk_device_absence -> words."""
PLACES: dict[str, int] = {name: place for place, (name, _) in enumerate(_devices.FIELDS)}
"""Field -> its place in the record."""

Words = Callable[[int], tuple[str, Trouble]]
"""Function from a driver's code to its text, and the trouble of the card that it means."""


class RecordCopy(NamedTuple):
    """One copy of a record, and when it was read."""

    rounds: int
    t_ns: int
    """CLOCK_REALTIME ns of the last round."""
    slow_ns: int
    """CLOCK_REALTIME ns of the last round in which all fields were read."""
    fields: bytes
    links: bytes
    processes: bytes


class Link(NamedTuple):
    """One port, and the driver's counters of it."""

    port: int
    up: bool
    peer: int
    """The vendor's number for the other end; 0 if not known."""
    tx_bytes: int | None
    rx_bytes: int | None
    errors: int | None

    def row(self, peer: str, kind: str) -> dict[str, Any]:
        """A row of the field `links`, with the address and kind of the device at the other end."""
        return {
            "port": self.port,
            "up": self.up,
            "peer": peer,
            "peer_kind": kind,
            "tx_bytes": self.tx_bytes,
            "rx_bytes": self.rx_bytes,
            "errors": self.errors,
        }


class Process(NamedTuple):
    """One process on a card."""

    pid: int
    kind: str
    name: str | None
    memory_bytes: int | None
    busy_ratio: float | None


class Decoder:
    """Decoder of the records that one vendor's table fills."""

    def __init__(self, table: str, words: Words) -> None:
        self._calls = _devices.calls(table)
        self._words = words
        self._absent: dict[tuple[int, int, int], Absent] = {}
        specs = [(SPECS[name], kind) for name, kind in _devices.FIELDS]
        self._rows = [(spec.name, spec.unit, spec.rate == "fast", kind) for spec, kind in specs]

    def fields(self, found: RecordCopy) -> Fields:
        """All numbers of a record, and the lists that are absent."""
        made: Fields = {}
        rows = zip(self._rows, FIELD.iter_unpack(found.fields), strict=True)
        for (name, unit, fast, kind), (value, stamp, code, call, number, window_us, _) in rows:
            if code == NOT_READ:
                continue
            if code:
                made[name] = self.absent(code, call, number)
            elif kind != "list":
                t_ns = stamp or (found.t_ns if fast else found.slow_ns)
                made[name] = Reading(_value(kind, value), unit, t_ns, window_us * 1000)
        return made

    def absent(self, code: int, call: int, number: int) -> Absent:
        """The absence that a code means; one object for each code of a call."""
        made = self._absent.get((code, call, number))
        if made is None:
            none: tuple[str, Trouble] = ABSENCES.get(code, ""), ""
            words, trouble = none if code < 0 else self._words(code)
            name = "" if call == NO_CALL else f"{self._calls[call]}{f' {number}' if number else ''}"
            made = Absent(f"{name}: {words}" if name else words, trouble)
            self._absent[code, call, number] = made
        return made


def links(found: RecordCopy) -> Iterator[Link]:
    """Rows of the field `links`."""
    for tx, rx, errors, peer, port, up in LINK.iter_unpack(found.links):
        yield Link(port, bool(up), peer, _whole(tx), _whole(rx), _whole(errors))


def processes(found: RecordCopy) -> Iterator[Process]:
    """Rows of the field `processes`."""
    for memory, busy, pid, kind, name in PROCESS.iter_unpack(found.processes):
        text = name.partition(b"\0")[0].decode(errors="replace").strip() or None
        yield Process(pid, KINDS[kind], text, _whole(memory), None if isnan(busy) else busy)


def _value(kind: str, value: float) -> Any:
    match kind:
        case "whole":
            return int(value)
        case "flag":
            return bool(value)
        case "bits":
            return [word for bit, word in enumerate(REASONS) if int(value) >> bit & 1]
        case _:
            return value


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(value)
