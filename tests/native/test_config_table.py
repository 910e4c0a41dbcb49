# SPDX-License-Identifier: Apache-2.0
"""One table of config.toml: read whole, absent, or refused with the file and what is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.native import config_table
from stoker.native.errors import BadRequest


class Bounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rooms: int = 3


def even(bounds: Bounds) -> None:
    if bounds.rooms % 2:
        raise BadRequest(f"bounds.rooms is {bounds.rooms}, not even")


def test_a_table_is_read_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[other]\nx = 1\n[bounds]\nrooms = 8\n")
    assert config_table.read(path, "bounds", Bounds, even) == Bounds(8)
    assert config_table.read(path, "other", dict[str, int]) == {"x": 1}


@pytest.mark.parametrize("text", [None, "", "[other]\n"])
def test_what_is_not_there_is_the_default(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config.toml"
    if text is not None:
        path.write_text(text)
    assert config_table.read(path, "bounds", Bounds) == Bounds()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[bounds]\nroms = 2\n", "bounds: Object contains unknown field `roms`"),
        (b"[bounds]\nrooms = 'two'\n", "bounds: Expected `int`, got `str` - at `$.rooms`"),
        (b"bounds = 5\n", "bounds: Expected `object`, got `int`"),
        (b"[bounds]\nrooms = 7\n", "bounds.rooms is 7, not even"),
        (b"[bounds\n", "Expected ']' at the end of a table declaration (at line 1, column 8)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, data: bytes, why: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(data)
    with pytest.raises(BadRequest) as refused:
        config_table.read(path, "bounds", Bounds, even)
    assert refused.value.message == f"{path}: {why}"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="Is a directory"):
        config_table.read(tmp_path, "bounds", Bounds)
