# SPDX-License-Identifier: Apache-2.0
"""The layout of published records, held against C; envelopes there and back; what is none."""

from __future__ import annotations

import random
import struct

import msgspec
import numpy
import pytest

from stoker.native import _trace
from stoker.native.errors import BadRequest
from stoker.probes.kernels import record_batches
from stoker.probes.kernels.job_trace import CopyRow, KernelSummary, TimeWindow, TraceSummary
from stoker.probes.kernels.record_batches import Envelope


def envelope(
    data: bytes, count: int, fields: record_batches.Fields = record_batches.EVENT
) -> Envelope:
    return Envelope("events", "n", 7, 1, 5, 0, 100, count, 3, data, ("a", "b"), ("d",), 1, fields)


def test_the_layout_is_that_of_c() -> None:
    dtype = numpy.dtype(list(record_batches.EVENT))
    layout = _trace.layout()
    assert dtype.itemsize == record_batches.EVENT_BYTES == layout["event"]
    assert dtype.fields is not None
    for name in ("name", "queue", "shift", "correlation"):
        assert dtype.fields[name][1] == layout[f"event_{name}"], name
    assert numpy.dtype(list(record_batches.ROW)).itemsize == record_batches.ROW_BYTES


def test_a_batch_is_read_without_copying() -> None:
    event = struct.pack("<QQQQIIIIHBBHBBIB3x", 10, 20, 30, 4, 5, 6, 71, 72, 1, 16, 0, 3, 2, 0, 9, 1)
    found, rows = record_batches.decode(record_batches.encode(envelope(event * 3, 3)))
    assert (found.job, found.first, found.dropped, found.names) == (7, 100, 3, ("a", "b"))
    assert len(rows) == 3 and not rows.flags.owndata
    row = rows[2]
    assert (row["queued_ns"], row["end_ns"], row["tid"]) == (10, 30, 72)
    assert (row["name"], row["kind"], row["queue"], row["shift"]) == (1, 16, 3, 2)
    assert row["correlation"] == 9


def test_the_envelope_alone_is_enough_to_read_it() -> None:
    """A subscriber without this module: msgpack and NumPy."""
    message = msgspec.msgpack.decode(record_batches.encode(envelope(bytes(128), 2)))
    dtype = numpy.dtype([tuple(field) for field in message["fields"]])
    assert len(numpy.frombuffer(message["data"], dtype)) == message["count"]


def test_rows_say_what_a_summary_says() -> None:
    kernels = (
        KernelSummary("k", 10, 100, 9, 12, estimate=True, error_ns=4),
        KernelSummary("l", 1, 0, None, None),
    )
    copies = (CopyRow("read", 3, 30, 8, 11, 4096),)
    data, names = record_batches.pack_rows(TraceSummary("full", TimeWindow(0, 1), kernels, copies))
    rows = numpy.frombuffer(data, numpy.dtype(list(record_batches.ROW)))
    assert names == ("k", "l", "read")
    assert [names[row["name"]] for row in rows] == ["k", "l", "read"]
    assert list(rows["count"]) == [10, 1, 3]
    assert list(rows["timed"]) == [1, 0, 1] and list(rows["estimate"]) == [1, 0, 0]
    assert list(rows["copy"]) == [0, 0, 1] and rows["bytes"][2] == 4096
    assert rows["error_ns"][0] == 4


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"what": "events"}),
        record_batches.encode(envelope(bytes(63), 1)),
        record_batches.encode(envelope(bytes(64), 2)),
        record_batches.encode(envelope(bytes(64), 1, (("a", "no such type"),))),
        record_batches.encode(msgspec.structs.replace(envelope(bytes(64), 1), format=2)),
    ],
)
def test_what_is_no_batch_is_refused(message: bytes) -> None:
    with pytest.raises(BadRequest):
        record_batches.decode(message)


def test_damaged_batches_are_refused_or_read() -> None:
    chance = random.Random(3)
    whole = record_batches.encode(envelope(bytes(640), 10))
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            _, rows = record_batches.decode(bytes(damaged))
        except BadRequest:
            continue
        assert rows.nbytes <= len(whole)
