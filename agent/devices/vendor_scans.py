# SPDX-License-Identifier: Apache-2.0
"""Scans of all vendors side by side, each until a deadline, and the newest result of each.

Invariant: a vendor whose driver hangs delays a scan once and keeps its last result; what it finds
after all is part of the next scan. One worker thread calls this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from stoker.agent.devices.deadline import Task, within
from stoker.agent.devices.vendor import Scan, Vendor
from stoker.native.errors import StokerError

SCAN_S = 5.0
"""The longest wait for a driver."""
SCAN_S_OF = {"pocl": 25.0}
"""The longest wait for vendors that need another one: OpenCL runs a program with its own limit."""


class VendorScans:
    """Vendors by their place, and the newest scan of each."""

    def __init__(self, vendors: Iterable[Vendor]) -> None:
        self.vendors = tuple(vendors)
        self._newest: dict[str, Scan] = {}
        self._late: dict[str, Task[Scan]] = {}
        self._finder: dict[str, int] = {}
        """Device id -> place of the vendor that found it last."""

    @property
    def newest(self) -> tuple[Scan, ...]:
        """The newest scan of each vendor that was ever scanned."""
        return tuple(self._newest.values())

    def finders(self, ids: Collection[str]) -> dict[Vendor, set[str]]:
        """Return the vendors that found these devices last, each with its own of them."""
        found: dict[Vendor, set[str]] = {}
        for id in ids:
            if id in self._finder:
                found.setdefault(self.vendors[self._finder[id]], set()).add(id)
        return found

    def scan(self, only: Collection[str], troubled: Collection[str]) -> list[Scan]:
        """Scan the vendors that found a device of `only`, or all of them if none did.

        Returns the newest scan of every vendor. `troubled`: devices whose cards do not answer as
        they should.
        """
        places = {self._finder[id] for id in only if id in self._finder}
        free = [place for place in places or range(len(self.vendors)) if not self._is_late(place)]
        for place in free:
            self.vendors[place].troubled = frozenset(troubled)
        calls = [(str(place), self.vendors[place].scan) for place in free]
        longest = {str(p): SCAN_S_OF.get(v.name, SCAN_S) for p, v in enumerate(self.vendors)}
        for task in within(calls, SCAN_S, longest):
            if task.over.is_set():
                self._settle(task)
            else:
                self._late[task.name] = task
        return [self._scan_of(str(place), vendor) for place, vendor in enumerate(self.vendors)]

    def _scan_of(self, place: str, vendor: Vendor) -> Scan:
        scan = self._newest.get(place, Scan())
        if place not in self._late:
            return scan
        return msgspec.structs.replace(
            scan, missing=(f"{vendor.name} devices: the driver does not answer",)
        )

    def _is_late(self, place: int) -> bool:
        """True if an earlier scan of this vendor still runs. If it has ended, take its result."""
        task = self._late.get(str(place))
        if task is None:
            return False
        if not task.over.is_set():
            return True
        del self._late[str(place)]
        self._settle(task)
        return False

    def _settle(self, task: Task[Scan]) -> None:
        if task.error is not None:
            self._fail(task.name, task.error)
            return
        assert task.result is not None
        self._newest[task.name] = task.result
        self._finder.update({device.id: int(task.name) for device in task.result.devices})

    def _fail(self, place: str, error: BaseException) -> None:
        """Record a binding's exception in its own words; other vendors' devices stay."""
        if isinstance(error, StokerError) or not isinstance(error, Exception):
            raise error
        why = f"{self.vendors[int(place)].name} devices: looking for them failed: {error!r}"
        self._newest[place] = msgspec.structs.replace(
            self._newest.get(place, Scan()), missing=(why,)
        )
