# SPDX-License-Identifier: Apache-2.0
"""The next agent finds what one gave back, whole or as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import returned_attempts
from stoker.native.errors import Corrupt
from stoker.scheduler.nouns import TaskKey

KEYS = (TaskKey(7, 1, 0, 1 << 63), TaskKey(8, 2, 3, 5))


def test_a_file_that_is_not_there_is_empty_and_a_later_one_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / returned_attempts.FILE
    assert returned_attempts.load(path) == ()
    returned_attempts.store(path, KEYS)
    assert returned_attempts.load(path) == KEYS
    returned_attempts.store(path, KEYS[1:])
    assert returned_attempts.load(path) == KEYS[1:]
    assert list(tmp_path.iterdir()) == [path]
    for _ in range(2):
        returned_attempts.store(path, ())
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / returned_attempts.FILE
    returned_attempts.store(path, KEYS)
    path.with_name(f".{path.name}.new").mkdir()
    with pytest.raises(OSError):
        returned_attempts.store(path, KEYS[:1])
    assert returned_attempts.load(path) == KEYS


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / returned_attempts.FILE
    path.write_bytes(b"\x91\x01")
    with pytest.raises(Corrupt, match=str(path)):
        returned_attempts.load(path)
