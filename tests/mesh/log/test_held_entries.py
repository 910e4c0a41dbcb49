# SPDX-License-Identifier: Apache-2.0
"""The file of held entries: a crash at any byte leaves what was stored before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.mesh.log import held_entries
from stoker.mesh.log.held_entries import FORGOTTEN, NAME, HeldEntries, Word
from stoker.mesh.log.log_archive import LogArchive
from stoker.native.errors import Corrupt

STORES = (
    (0, ((1, b"one"), (2, b"two")), 9),
    (2, ((3, b"three" * 20),), 9),
    (1, ((2, b"another two"), (3, b"another three")), 17),
    (3, (), 25),
    (3, ((4, b""),), 25),
)


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not synced, since these tests restart the file thousands of times."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)


def contents(folder: Path) -> tuple[dict[int, bytes], int]:
    """Return the entries and the promised term that a new process reads."""
    held = HeldEntries(folder)
    word = held.read()
    held.close()
    return dict(word.entries), word.promised


def written(folder: Path) -> list[tuple[int, tuple[dict[int, bytes], int]]]:
    """Make all stores; return the file's size and its content after each."""
    held = HeldEntries(folder)
    stages = [((folder / NAME).stat().st_size, ({}, 0))]
    for after, entries, promised in STORES:
        held.store(after, entries, promised)
        word = held.read()
        stages.append(((folder / NAME).stat().st_size, (dict(word.entries), word.promised)))
    held.close()
    return stages


def test_entries_behind_a_place_are_replaced(tmp_path: Path) -> None:
    stages = written(tmp_path)
    last = {1: b"one", 2: b"another two", 3: b"another three", 4: b""}
    assert stages[2][1] == ({1: b"one", 2: b"two", 3: b"three" * 20}, 9)
    assert stages[-1][1] == (last, 25)
    assert contents(tmp_path) == (last, 25)


@pytest.mark.usefixtures("no_sync")
def test_a_cut_at_any_byte_leaves_what_was_stored_before(tmp_path: Path) -> None:
    stages = written(tmp_path)
    whole = (tmp_path / NAME).read_bytes()
    for size in range(stages[0][0], len(whole) + 1):
        (tmp_path / NAME).write_bytes(whole[:size])
        before = [content for end, content in stages if end <= size]
        assert contents(tmp_path) == before[-1], size
        held = HeldEntries(tmp_path)
        held.store(0, ((1, b"later"),), 33)
        held.close()
        assert contents(tmp_path) == ({1: b"later"}, 33), size


@pytest.mark.usefixtures("no_sync")
def test_a_torn_end_may_have_any_bytes(tmp_path: Path) -> None:
    stages = written(tmp_path)
    whole = (tmp_path / NAME).read_bytes()
    begin = stages[-2][0]
    for at in range(begin, len(whole)):
        for byte in (0, 255):
            torn = whole[:at] + bytes([byte]) * (len(whole) - at)
            (tmp_path / NAME).write_bytes(torn)
            assert contents(tmp_path) in (stages[-2][1], stages[-1][1]), at


@pytest.mark.usefixtures("no_sync")
def test_damage_before_the_last_record_is_refused(tmp_path: Path) -> None:
    stages = written(tmp_path)
    whole = (tmp_path / NAME).read_bytes()
    for at in range(stages[0][0], stages[-2][0]):
        (tmp_path / NAME).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Corrupt, match="has lost entries"):
            contents(tmp_path)


@pytest.mark.parametrize("content", [b"", b"stoker held", b"something else that is long"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(Corrupt, match="does not begin"):
        contents(tmp_path)


def test_a_snapshot_lets_the_file_shrink_to_the_newest_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_entries, "KEPT_MIN", 4)
    held, archive = HeldEntries(tmp_path), LogArchive(tmp_path / "archive")
    for index in range(1, 301):
        held.store(index - 1, ((index, b"x" * 100),), 7)
    held.saved(290, archive)
    assert held.read() == Word(tuple((n, b"x" * 100) for n in range(291, 301)), 7)
    held.saved(299, archive)
    assert [index for index, _ in held.read().entries] == [297, 298, 299, 300]
    assert (tmp_path / NAME).stat().st_size < 1000
    assert [*archive.entries()] == [(index, b"x" * 100) for index in range(1, 297)]
    held.store(300, ((301, b"y"),), 15)
    held.close()
    assert contents(tmp_path)[0][301] == b"y"


def test_what_cannot_be_archived_stays_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_entries, "KEPT_MIN", 1)
    held = HeldEntries(tmp_path)
    held.store(0, tuple((index, b"x") for index in range(1, 10)), 7)
    (tmp_path / "archive").write_text("a file stands in the way")
    with pytest.raises(OSError, match="archive"):
        held.saved(9, LogArchive(tmp_path / "archive"))
    assert len(held.read().entries) == 9


def test_a_cleared_file_keeps_the_promised_term_and_the_floor(tmp_path: Path) -> None:
    held = HeldEntries(tmp_path)
    held.store(0, ((1, b"one"),), 41, (33, 1))
    held.clear()
    held.close()
    assert HeldEntries(tmp_path).read() == Word((), 41, (33, 1))


def test_a_shorter_file_keeps_the_floor(tmp_path: Path) -> None:
    held = HeldEntries(tmp_path)
    held.store(0, ((1, b"one"),), 41, (33, 1))
    held.saved(1, LogArchive(tmp_path / "archive"))
    held.close()
    assert HeldEntries(tmp_path).read() == Word(((1, b"one"),), 41, (33, 1))


def test_a_lost_file_is_one_that_has_forgotten_everything(tmp_path: Path) -> None:
    HeldEntries(tmp_path, is_new=True).close()
    assert HeldEntries(tmp_path).read() == Word()
    (tmp_path / NAME).unlink()
    HeldEntries(tmp_path).close()
    assert HeldEntries(tmp_path, is_new=True).read() == Word((), 0, FORGOTTEN), "once is enough"


def test_another_process_reads_the_file_and_changes_nothing(tmp_path: Path) -> None:
    assert held_entries.read(tmp_path) == Word((), 0, FORGOTTEN)
    assert not (tmp_path / NAME).exists()
    size, found = written(tmp_path)[-1]
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"a record that is not whole yet")
    before = (tmp_path / NAME).read_bytes()
    word = held_entries.read(tmp_path)
    assert (dict(word.entries), word.promised) == found
    assert (tmp_path / NAME).read_bytes() == before and len(before) > size
    (tmp_path / NAME).write_bytes(before[:20] + bytes([before[20] ^ 1]) + before[21:])
    with pytest.raises(Corrupt, match="begins a damaged record"):
        held_entries.read(tmp_path)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"stoker held 1\n" + b"mark" + b"records")
    with pytest.raises(Corrupt, match="has format 1, this version reads 2") as refused:
        HeldEntries(tmp_path)
    assert "move it away" in refused.value.hint


def test_a_disk_without_room_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldEntries(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(OSError, match="No space"):
        held.store(0, ((1, b"one"),), 1)
