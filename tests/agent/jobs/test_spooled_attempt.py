# SPDX-License-Identifier: Apache-2.0
"""When a piece of output is due, and what an agent that starts again knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.jobs.spooled_attempt import (
    PAUSE_LEAST_S,
    PAUSE_MOST_S,
    SpooledAttempt,
    SpoolRecords,
    due,
    pause_s,
    spooled_attempt,
)
from stoker.mesh.wire.output_spool import PIECE_BYTES, PIECES_MAX, OutputPiece
from stoker.scheduler.nouns import TaskKey

KEY = TaskKey(7, 1, 0, 99)
BEGAN_S = 1000.0
MIB = 1 << 20


@pytest.fixture
def attempt(tmp_path: Path) -> SpooledAttempt:
    (tmp_path / "7").mkdir()
    return spooled_attempt(KEY, MIB, BEGAN_S)


def write(folder: Path, data: bytes) -> None:
    with (folder / "7" / "out").open("ab") as file:
        file.write(data)


def next_piece(
    folder: Path, attempt: SpooledAttempt, now_s: float, *, lives: bool = True
) -> OutputPiece | None:
    """The next piece of stdout, which the brokers take."""
    out = attempt.streams[0]
    piece = due(folder, attempt, out, now_s, lives=lives)
    if piece is not None:
        out.end, out.closed, out.sent_s, out.pieces = piece.end, piece.over, now_s, out.pieces + 1
    return piece


def test_what_is_new_waits_for_a_pause_and_a_whole_piece_does_not(
    tmp_path: Path, attempt: SpooledAttempt
) -> None:
    assert next_piece(tmp_path, attempt, BEGAN_S) is None, "there is no file yet"
    write(tmp_path, b"one\n")
    assert next_piece(tmp_path, attempt, BEGAN_S) == OutputPiece(0, b"one\n", 10**12, 4, MIB)
    write(tmp_path, b"two\n")
    assert next_piece(tmp_path, attempt, BEGAN_S + PAUSE_LEAST_S - 0.1) is None
    found = next_piece(tmp_path, attempt, BEGAN_S + PAUSE_LEAST_S)
    assert found is not None and (found.offset, found.data) == (4, b"two\n")
    write(tmp_path, bytes(PIECE_BYTES))
    found = next_piece(tmp_path, attempt, BEGAN_S + PAUSE_LEAST_S)
    assert found is not None and len(found.data) == PIECE_BYTES


def test_the_last_piece_of_an_ended_attempt_tells_the_size(
    tmp_path: Path, attempt: SpooledAttempt
) -> None:
    write(tmp_path, bytes(PIECE_BYTES + 5))
    first = next_piece(tmp_path, attempt, BEGAN_S, lives=False)
    last = next_piece(tmp_path, attempt, BEGAN_S, lives=False)
    assert first is not None and not first.over and first.end == PIECE_BYTES
    assert last is not None and last.over and last.end == last.size == PIECE_BYTES + 5
    assert next_piece(tmp_path, attempt, BEGAN_S, lives=False) is None
    silent = due(tmp_path, attempt, attempt.streams[1], BEGAN_S, lives=False)
    assert silent is not None and silent.over and silent.size == 0


def test_nothing_beyond_the_limit_is_sent_and_the_last_piece_tells_how_much_that_is(
    tmp_path: Path,
) -> None:
    (tmp_path / "7").mkdir()
    attempt = spooled_attempt(KEY, 1024, BEGAN_S)
    write(tmp_path, bytes(5000))
    first = next_piece(tmp_path, attempt, BEGAN_S)
    assert first is not None and (first.end, first.size) == (1024, 5000)
    write(tmp_path, bytes(1000))
    assert next_piece(tmp_path, attempt, BEGAN_S + PAUSE_MOST_S) is None
    last = next_piece(tmp_path, attempt, BEGAN_S, lives=False)
    assert last is not None and last.over and (last.end, last.size) == (1024, 6000)


def test_a_file_that_was_removed_or_too_many_pieces_end_in_a_counted_loss(
    tmp_path: Path, attempt: SpooledAttempt
) -> None:
    write(tmp_path, b"some")
    attempt.streams[0].pieces = PIECES_MAX - 1
    assert next_piece(tmp_path, attempt, BEGAN_S) is None
    (tmp_path / "7" / "out").unlink()
    last = next_piece(tmp_path, attempt, BEGAN_S, lives=False)
    assert last is not None and last.over and (last.end, last.size) == (0, 4)


def test_months_of_short_lines_fit_into_the_pieces_of_a_stream() -> None:
    attempt = spooled_attempt(KEY, MIB, 0.0)
    assert pause_s(attempt, 60.0) == PAUSE_LEAST_S
    assert pause_s(attempt, 10_000.0) == 10.0
    now_s, count = 0.0, 0
    while count < PIECES_MAX - 1:
        now_s, count = now_s + pause_s(attempt, now_s), count + 1
    assert now_s > 7 * 86_400


def test_an_agent_that_starts_again_goes_on_where_the_last_one_was(
    tmp_path: Path, attempt: SpooledAttempt
) -> None:
    records = SpoolRecords(tmp_path / "spool")
    assert list(records.read()) == []
    attempt.streams[0].end = 4
    records.write(attempt)
    (tmp_path / "spool" / "8.1.0.5").write_text("torn")
    assert list(SpoolRecords(tmp_path / "spool").read()) == [attempt]
    assert not (tmp_path / "spool" / "8.1.0.5").exists()
    records.drop(attempt)
    assert list(records.read()) == []
