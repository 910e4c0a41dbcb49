# SPDX-License-Identifier: Apache-2.0
"""The option of a job is found again on its node, and a reader is told what the spool lacks."""

from __future__ import annotations

import pytest

from stoker.mesh.server import admission
from stoker.mesh.wire import output_spool
from stoker.mesh.wire.output_spool import MESSAGE_BYTES, PIECE_BYTES, VARIABLE, OutputPiece
from stoker.mesh.wire.schema import JobRequest

MIB = 1 << 20


def test_the_option_is_a_variable_of_the_environment_in_the_log() -> None:
    spec = admission.admit(JobRequest(argv=("true",), env={"A": "b"}, spool_output_bytes=MIB))
    assert spec.env == {"A": "b", VARIABLE: str(MIB)}
    assert output_spool.bytes_of(spec.env) == MIB
    assert output_spool.bytes_of(admission.admit(JobRequest(argv=("true",))).env) == 0


@pytest.mark.parametrize("value", ["", "1023", str(64 * MIB + 1), "-4096", "4M", "9" * 40, "٤٠٩٦"])
def test_a_value_that_no_option_sets_spools_nothing(value: str) -> None:
    assert output_spool.bytes_of({VARIABLE: value}) == 0


def test_the_largest_piece_fits_into_a_message() -> None:
    largest = OutputPiece(1 << 62, bytes(PIECE_BYTES), 1 << 62, 1 << 62, 1 << 62, True, 1 << 62)
    data = output_spool.encode(largest)
    assert len(data) <= MESSAGE_BYTES
    assert output_spool.decode(data) == largest


@pytest.mark.parametrize(
    ("last", "lacks", "says"),
    [
        (OutputPiece(5, b"abc", 0, 8, 99, True), False, "all 8 bytes of stdout were spooled"),
        (
            OutputPiece(5, b"abc", 0, 8, 99),
            True,
            "the first 8 bytes of stdout were spooled, the last of them at 1970-01-01 00:00:00 UTC;"
            " what it wrote after that may be missing",
        ),
        (OutputPiece(5, b"abc", 0, 2000, 8), True, "at least 1,992 bytes more are lost"),
        (OutputPiece(8, b"", 0, 2000, 8, True), True, "--spool-output; 1,992 bytes more are lost"),
        (OutputPiece(8, b"", 0, 10, 99, True), True, "the last 2 bytes are lost"),
        (OutputPiece(8, b"", 0, 8, 99, True, 7), True, "its limit of output dropped 7 bytes"),
    ],
)
def test_a_reader_is_told_what_there_is_and_what_is_missing(
    last: OutputPiece, lacks: bool, says: str
) -> None:
    assert output_spool.whole(last) != lacks
    assert says in output_spool.words(last, "out")
    assert "stderr" in output_spool.words(last, "err")
