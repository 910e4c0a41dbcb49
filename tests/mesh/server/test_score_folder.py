# SPDX-License-Identifier: Apache-2.0
"""The files of the folder of scoring functions: some are read, others are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.mesh.server.score_folder import SOURCE_BYTES_MAX, ScoreFolder
from stoker.native.errors import BadRequest, NotFound, Refused


@pytest.fixture
def folder(tmp_path: Path) -> ScoreFolder:
    made = ScoreFolder(tmp_path)
    made.path.mkdir(mode=0o755)
    file = made.path / "mine.py"
    file.write_text("def score(job, candidates): ...\n")
    file.chmod(0o644)
    return made


def test_a_file_of_the_administrator_is_read(folder: ScoreFolder) -> None:
    source = folder.read("mine")
    assert source.text.startswith("def score")
    assert source.version == folder.version("mine")
    assert folder.names() == ["mine"]


def test_a_changed_file_is_another_version(folder: ScoreFolder) -> None:
    before = folder.version("mine")
    (folder.path / "mine.py").write_text("def score(job, candidates): return []\n")
    assert folder.version("mine") != before


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(folder: ScoreFolder, mode: int) -> None:
    (folder.path / "mine.py").chmod(mode)
    with pytest.raises(Refused, match="may be changed by others"):
        folder.read("mine")


def test_a_folder_that_others_may_write_is_refused(folder: ScoreFolder) -> None:
    folder.path.chmod(0o777)
    with pytest.raises(Refused, match="may be changed by others"):
        folder.check("mine")


@pytest.mark.needs_root
def test_a_file_of_another_user_is_refused(folder: ScoreFolder) -> None:
    os.chown(folder.path / "mine.py", 65534, 65534)
    with pytest.raises(Refused, match="may be changed by others"):
        folder.read("mine")


def test_a_link_a_folder_and_a_fifo_are_no_functions(folder: ScoreFolder) -> None:
    (folder.path / "link.py").symlink_to(folder.path / "mine.py")
    (folder.path / "folder.py").mkdir()
    os.mkfifo(folder.path / "fifo.py")
    for name in ("link", "folder", "fifo"):
        with pytest.raises((NotFound, Refused)):
            folder.read(name)


def test_a_file_that_is_too_long_or_no_text_is_refused(folder: ScoreFolder) -> None:
    (folder.path / "mine.py").write_bytes(b"#" * (SOURCE_BYTES_MAX + 1))
    with pytest.raises(Refused, match="bytes"):
        folder.read("mine")
    (folder.path / "mine.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BadRequest, match="is no text"):
        folder.read("mine")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a.py", "x" * 33, "\u00e9"])
def test_a_name_that_cannot_be_one_is_refused(folder: ScoreFolder, name: str) -> None:
    with pytest.raises(BadRequest, match="not the name of a scoring function"):
        folder.read(name)


def test_what_is_not_there_is_named_with_what_is(folder: ScoreFolder) -> None:
    with pytest.raises(NotFound) as missing:
        folder.check("other")
    assert missing.value.hint == "There are: mine"
    with pytest.raises(NotFound):
        ScoreFolder(folder.path / "nowhere").check("other")
