# SPDX-License-Identifier: Apache-2.0
"""Rows become few messages, in order; what does not fit is counted where its reader sees it."""

from __future__ import annotations

import pytest

from stoker.mesh.telemetry import outgoing_batches
from stoker.mesh.telemetry.outgoing_batches import (
    ROWS_OF_MESSAGE,
    ROWS_OF_SUBJECT,
    OutgoingBatches,
    Topic,
)
from stoker.mesh.wire import telemetry
from stoker.mesh.wire.telemetry import ChangeRow, TelemetryBatch
from stoker.mesh.wire.telemetry_streams import STREAM_MESSAGE_BYTES

ALICE = Topic("stoker.v1.events.job.alice", "events", "alice")
BOB = Topic("stoker.v1.events.job.bob", "events", "bob")


def row(number: int, reason: str = "") -> ChangeRow:
    return ChangeRow(t_ns=number, what="running", job=number, reason=reason)


def taken(batches: OutgoingBatches) -> list[tuple[str, TelemetryBatch]]:
    return [(subject, telemetry.decode_batch(data)) for subject, data in batches.take()]


def test_rows_of_a_subject_travel_together_and_are_numbered() -> None:
    batches = OutgoingBatches("a")
    assert not batches
    for number in range(ROWS_OF_MESSAGE + 2):
        batches.put(ALICE, row(number), 7 + number)
    batches.put(BOB, row(1), 9)
    assert batches
    first, second, other = taken(batches)
    assert (first[0], second[0], other[0]) == (ALICE.subject, ALICE.subject, BOB.subject)
    assert [first[1].number, second[1].number, other[1].number] == [0, 1, 0]
    jobs = [each["job"] for _, batch in (first, second) for each in batch.rows]
    assert jobs == list(range(ROWS_OF_MESSAGE + 2))
    assert first[1].origin == second[1].origin and (first[1].user, first[1].dropped) == ("alice", 0)
    assert not batches and taken(batches) == []
    batches.put(ALICE, row(1), 10)
    assert taken(batches)[0][1].number == 2


def test_what_does_not_fit_is_dropped_and_the_next_message_says_so() -> None:
    batches = OutgoingBatches("a")
    for number in range(ROWS_OF_SUBJECT + 5):
        batches.put(ALICE, row(number), 1)
    batches.put(BOB, row(1), 1)
    found = taken(batches)
    assert sum(len(batch.rows) for _, batch in found) == ROWS_OF_SUBJECT + 1
    assert {batch.dropped for subject, batch in found if subject == ALICE.subject} == {5}
    assert {batch.dropped for subject, batch in found if subject == BOB.subject} == {0}
    assert batches.dropped == 5


def test_a_message_is_never_larger_than_a_stream_keeps() -> None:
    batches = OutgoingBatches("a")
    for number in range(ROWS_OF_MESSAGE):
        batches.put(ALICE, row(number, "x" * 4000), 1)
    batches.put(ALICE, row(ROWS_OF_MESSAGE, "x" * STREAM_MESSAGE_BYTES), 1)
    batches.put(ALICE, row(ROWS_OF_MESSAGE + 1), 1)
    sizes, jobs, numbers = [], [], []
    for _, data in batches.take():
        batch = telemetry.decode_batch(data)
        sizes.append(len(data))
        jobs += [each["job"] for each in batch.rows]
        numbers.append(batch.number)
    assert max(sizes) <= STREAM_MESSAGE_BYTES
    assert jobs == [*range(ROWS_OF_MESSAGE), ROWS_OF_MESSAGE + 1]
    assert numbers == list(range(len(numbers))) and batches.dropped == 1


def test_a_subject_that_was_forgotten_begins_with_another_origin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing_batches, "SUBJECTS_MAX", 2)
    batches = OutgoingBatches("a")
    batches.put(ALICE, row(1), 1)
    before = taken(batches)[0][1]
    batches.put(BOB, row(1), 1)
    batches.put(BOB._replace(subject="another"), row(1), 1)
    taken(batches)
    batches.put(ALICE, row(2), 2)
    after = taken(batches)[0][1]
    assert (before.number, after.number) == (0, 0) and before.origin != after.origin
