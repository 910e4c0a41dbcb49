# SPDX-License-Identifier: Apache-2.0
"""The shortage of a node: why it can launch no jobs now, and so takes no new ones.

Pure: what the file systems have, and the time, come in. Two things make a shortage: a disk with too
little room, and a launch that failed. Invariant: no value near a threshold makes it come and go. A
disk must have twice the reserve for a while, and each launch that fails soon after the last one
doubles the time for which the node takes none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

RESERVE_SHARE = 0.05
"""The reserve is at most this part of a file system, so that a small one can be used as well."""
BACK = 2
"""A disk that was short must have this many times its reserve."""
BACK_FOR_S = 3.0
"""It must have as much for so long."""
REST_S = 10.0
"""The time for which a node takes no jobs after a launch that failed, the first time."""
REST_MAX_S = 300.0
REASON_CHARS_MAX = 200
MIB = 1 << 20

_Count = Annotated[int, msgspec.Meta(ge=0)]


class DiskReserve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[disk]` of config.toml."""

    reserve_bytes: _Count = 64 * MIB
    """The node takes no new jobs while a file system that a launch needs has fewer free bytes; of a
    small one it is at most a twentieth."""
    reserve_inodes: _Count = 1024
    """Free inodes, likewise."""


class FileSystem(NamedTuple):
    """The room of one file system now, or the reason why nobody can tell."""

    place: str
    """A folder on it that a launch needs."""
    size: int = 0
    free: int = 0
    files: int = 0
    """The most inodes that it can have; 0: there is no such limit."""
    files_free: int = 0
    why: str = ""


class Shortage:
    """The shortage of one node. Call `look` about once a second. Times are of a monotonic clock, in
    seconds."""

    def __init__(self, reserve: DiskReserve) -> None:
        self._reserve = reserve
        self._short: dict[str, str] = {}
        """Place -> why its disk is short, in the words of the moment at which it became so."""
        self._enough_s: dict[str, float] = {}
        """Place -> since when a disk that is short has had enough."""
        self._failed = ""
        self._rest_s = 0.0
        self._until_s = 0.0

    def look(self, found: Iterable[FileSystem], now_s: float) -> str:
        """Judge what the file systems have now; return `why`."""
        for each in found:
            self._judge(each, now_s)
        if self._failed and now_s >= self._until_s:
            self._failed = ""
        return self.why

    @property
    def why(self) -> str:
        """Return why the node can launch no jobs, or an empty string. The words stay the same while
        the shortage lasts."""
        told = [*self._short.values(), *filter(None, (self._failed,))]
        return "; ".join(told)[:REASON_CHARS_MAX]

    def failed(self, why: str, now_s: float) -> None:
        """Note a launch that failed for the sake of the node."""
        if self._failed:
            return  # launches that were on their way together are one failure
        again = now_s < self._until_s + self._rest_s
        self._rest_s = min(self._rest_s * 2, REST_MAX_S) if again and self._rest_s else REST_S
        self._until_s = now_s + self._rest_s
        self._failed = f"{why}; it takes no jobs for {self._rest_s:g} s"

    def _judge(self, found: FileSystem, now_s: float) -> None:
        place, before = found.place, found.place in self._short
        lack = _lack(found, self._reserve, BACK if before else 1)
        if lack:
            self._enough_s.pop(place, None)
            self._short.setdefault(place, lack)
        elif before and now_s - self._enough_s.setdefault(place, now_s) >= BACK_FOR_S:
            del self._short[place], self._enough_s[place]


def _lack(found: FileSystem, reserve: DiskReserve, times: int) -> str:
    """Return what a file system lacks of so many times its reserve, or an empty string."""
    if found.why:
        return f"{found.place} cannot be read: {found.why}"
    bytes_least = int(min(reserve.reserve_bytes, found.size * RESERVE_SHARE))
    if found.free < bytes_least * times:
        have, least = found.free / MIB, bytes_least / MIB
        text = f"{have:.1f} MiB are free at {found.place}, fewer than {least:.1f} MiB"
        return f"{text}: make room until {least * BACK:.1f} MiB are free"
    files_least = int(min(reserve.reserve_inodes, found.files * RESERVE_SHARE))
    if found.files_free < files_least * times:
        text = f"{found.files_free} inodes are free at {found.place}, fewer than {files_least}"
        return f"{text}: remove files until {files_least * BACK} are free"
    return ""
