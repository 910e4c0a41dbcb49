# SPDX-License-Identifier: Apache-2.0
"""The file of signed checkpoints: durable, bounded, and read after a power failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.log import signed_checkpoint as module
from stoker.mesh.log.signed_checkpoint import SignedCheckpoint, append, read, signed
from stoker.native.errors import Corrupt

SIGNER = identity.of_raw(bytes(range(32)))


def made(index: int) -> SignedCheckpoint:
    plain = SignedCheckpoint(cluster="c", index=index, hash="ab", trail="cd", t_ns=5, key="")
    return signed(plain, SIGNER)


def test_what_was_added_is_read_and_holds(tmp_path: Path) -> None:
    path = tmp_path / "archive" / "checkpoints"
    assert read(path) == []
    for index in (1, 2):
        append(path, made(index))
    assert read(path) == [made(1), made(2)]
    for each in read(path):
        each.check()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_end_is_left_out_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints"
    append(path, made(1))
    with path.open("ab") as file:
        file.write(b'{"cluster":"c","ind')
    assert read(path) == [made(1)]
    append(path, made(2))
    assert read(path) == [made(1), made(2)]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints"
    path.write_bytes(b"{}\n")
    with pytest.raises(Corrupt, match="line 1 is no signed checkpoint"):
        read(path)


def test_a_full_file_loses_its_older_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKPOINTS_MAX", 8)
    path = tmp_path / "checkpoints"
    for index in range(1, 10):
        append(path, made(index))
    assert [each.index for each in read(path)] == [5, 6, 7, 8, 9]
