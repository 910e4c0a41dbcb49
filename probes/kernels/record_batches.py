# SPDX-License-Identifier: Apache-2.0
"""Batches of a job's records, packed in one envelope, and their decoder.

No other file outside of C has the layout of a record: `struct sk_trace_event` of
native/trace/job/events.h, 64 bytes, little endian; a test holds them together. An envelope is a
msgpack map; `data` is the packed rows, everything else describes them.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from stoker.native.errors import BadRequest
from stoker.probes.kernels.job_trace import CopyRow, KernelSummary, TraceSummary

if TYPE_CHECKING:
    import numpy

FORMAT = 1
BATCH_MAX = 2048
"""Records of one envelope: 128 KiB, far below the broker's 512 KB."""
ROWS_MAX = 1024
"""The most folded rows of one envelope."""
ENVELOPE_BYTES_MAX = 448 * 1024

Fields = tuple[tuple[str, str], ...]
What = Literal["events", "rows", "end"]
"""`rows`: kernels and copies since the job's start, once a second; `end`: nothing follows."""

EVENT: Fields = (
    ("queued_ns", "<u8"),
    ("start_ns", "<u8"),
    ("end_ns", "<u8"),
    ("bytes", "<u8"),
    ("call_before", "<u4"),
    ("call_ns", "<u4"),
    ("pid", "<u4"),
    ("tid", "<u4"),
    ("name", "<u2"),
    ("kind", "u1"),
    ("device", "u1"),
    ("queue", "<u2"),
    ("shift", "u1"),
    ("flags", "u1"),
    ("correlation", "<u4"),
    ("turn", "u1"),
    ("reserved", "V3"),
)
"""One timed kernel, copy or host event, CLOCK_MONOTONIC ns; `name` and `device` are places in the
envelope's `names` and `devices`, `shift`: it stands for 1 << shift launches; `correlation` joins
what one call caused."""
EVENT_BYTES = 64

ROW: Fields = (
    ("count", "<u8"),
    ("total_ns", "<u8"),
    ("error_ns", "<u8"),
    ("p50_ns", "<u8"),
    ("p99_ns", "<u8"),
    ("bytes", "<u8"),
    ("name", "<u2"),
    ("copy", "u1"),
    ("estimate", "u1"),
    ("timed", "u1"),
    ("reserved", "V3"),
)
"""All launches of one kernel, or all copies of one kind, since the job's start. `timed` 0: none was
timed, so there are no percentiles and `p50_ns`, `p99_ns` mean nothing."""
ROW_BYTES = 56


class Envelope(msgspec.Struct, frozen=True):
    """One message of records.

    `first` is the number of its first record. Numbers grow by one over all batches of a job, so a
    gap is records that were not published, which `dropped` counts, or not delivered.
    """

    what: What
    node: str
    job: int
    attempt: int
    window: int
    sequence: int
    """The number of the message in its window, from 0."""
    first: int
    count: int
    dropped: int
    """Records of the window so far that were not published, for the limit of the rate."""
    data: bytes
    names: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    """Ids known when the newest rows were sent; a newer device's id comes with the next rows."""
    format: int = FORMAT
    fields: Fields = ()
    """Fields of `data`, as NumPy spells a dtype; a reader needs nothing else of this module."""
    task: int = 0


_PLAIN = re.compile(r"<[uif][248]|[ui]1|V\d{1,3}")
_ROW = struct.Struct("<QQQQQQHBBB3x")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def encode(envelope: Envelope) -> bytes:
    """Encode one message."""
    return _encoder.encode(envelope)


def decode(message: bytes) -> tuple[Envelope, numpy.ndarray[Any, Any]]:
    """Decode a message into its header and a structured array; BadRequest if it is invalid.

    Times are CLOCK_MONOTONIC ns of the node. Nothing is copied.
    """
    import numpy

    try:
        envelope = _decoder.decode(message)
        if envelope.format != FORMAT:
            raise BadRequest(f"records of format {envelope.format}, and {FORMAT} is known here")
        if not all(_PLAIN.fullmatch(spelled) for _, spelled in envelope.fields):
            raise BadRequest("records have plain numbers as fields, and nothing else")
        dtype = numpy.dtype(list(envelope.fields)) if envelope.fields else numpy.dtype("V1")
        rows = numpy.frombuffer(envelope.data, dtype=dtype)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise BadRequest(f"not a batch of records: {error}") from None
    if len(rows) != envelope.count:
        raise BadRequest(f"{len(rows)} records where {envelope.count} are said")
    return envelope, rows


def pack_rows(summary: TraceSummary) -> tuple[bytes, tuple[str, ...]]:
    """Pack kernels and copies of a summary as ROW records; return them and their names."""
    found: list[KernelSummary | CopyRow] = [*summary.kernels, *summary.copies]
    names: list[str] = []
    packed = bytearray()
    for row in found[:ROWS_MAX]:
        packed += _ROW.pack(
            row.count,
            row.total_ns,
            row.error_ns,
            row.p50_ns or 0,
            row.p99_ns or 0,
            getattr(row, "bytes", 0),
            len(names),
            isinstance(row, CopyRow),
            row.estimate,
            row.p50_ns is not None,
        )
        names.append(row.name)
    return bytes(packed), tuple(names)
