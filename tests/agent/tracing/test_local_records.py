# SPDX-License-Identifier: Apache-2.0
"""Records for local subscribers: nothing without one, and each new record once with one."""

from __future__ import annotations

from typing import Any

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.local_records import LocalRecords
from stoker.agent.tracing.record_publisher import Allowance
from stoker.probes.kernels import record_batches
from stoker.probes.kernels.record_batches import Envelope
from tests.agent.tracing.test_record_publisher import Fold, numbers

S = 1_000_000_000
RECORD = StartRecord(7, 1, 0, 9, 65_536, 1000, 5.0, "full", 1000, ("d",), "x", (), "eve")


class Bus:
    """A bus that a test opens, closes and fills."""

    def __init__(self) -> None:
        self.listened = self.full = False
        self.sent: list[Envelope] = []
        self.joined: list[int] = []

    def join(self, uid: int) -> None:
        self.joined.append(uid)

    def leave(self, uid: int) -> None:
        self.joined.remove(uid)

    def listens(self, uid: int) -> bool:
        return self.listened

    def send(self, uid: int, topic: str, data: bytes) -> bool:
        assert (uid, topic) == (1000, "stoker.v1.records.eve.n.7")
        if not self.full:
            self.sent.append(record_batches.decode(data)[0])
        return not self.full


def test_records_flow_while_somebody_listens() -> None:
    bus = Bus()
    fold: Any = Fold(10_000)
    local = LocalRecords("n", RECORD, bus, Allowance(10**9))
    assert bus.joined == [1000]
    fold.total = 500
    local.drained(fold, S)
    assert bus.sent == []
    bus.listened = True
    for step in range(1, 4):
        local.drained(fold, S + step)
        fold.total += 100
    bus.listened = False
    local.drained(fold, 2 * S)
    fold.total += 100
    bus.listened = True
    local.drained(fold, 3 * S)
    fold.total += 7
    local.end(4 * S)
    assert numbers(bus.sent) == [*range(500, 700), *range(900, 907)]
    assert bus.sent[-1].what == "end"
    local.end(5 * S)
    local.close()
    assert bus.joined == []


def test_what_the_bus_has_no_room_for_is_told_with_what_follows() -> None:
    bus = Bus()
    bus.listened = True
    fold: Any = Fold(10_000)
    local = LocalRecords("n", RECORD, bus, Allowance(10**9))
    local.drained(fold, S)
    fold.total, bus.full = 100, True
    local.drained(fold, S + 1)
    fold.total, bus.full = 150, False
    local.drained(fold, S + 2)
    assert numbers(bus.sent) == list(range(100, 150))
    assert bus.sent[-1].dropped == 100
