# SPDX-License-Identifier: Apache-2.0
"""The transfer of a snapshot file is one row of requests, however often a part comes."""

from __future__ import annotations

from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.snapshot_exchange import SnapshotExchange
from stoker.mesh.wire.peer_messages import Message, SnapshotPart, SnapshotRequest


def test_a_part_that_comes_twice_begins_no_second_row_of_requests() -> None:
    sent: list[Message] = []
    exchange = SnapshotExchange(
        lambda to, message: sent.append(message),
        Outbox(),
        covers=lambda snapshot: False,
        install=lambda data, why, reached: None,
    )
    exchange.want(2, 0)
    first = SnapshotPart(30, 0, 9, b"abc")
    exchange.part(2, first, 1)
    exchange.part(2, first, 2)
    exchange.part(2, SnapshotPart(30, 3, 9, b"def"), 3)
    assert sent == [SnapshotRequest(0, 0), SnapshotRequest(30, 3), SnapshotRequest(30, 6)]
