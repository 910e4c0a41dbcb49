# SPDX-License-Identifier: Apache-2.0
"""The bounds that an operator sets for spooled output reach the broker, and nonsense is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.mesh.broker import spool_bounds
from stoker.mesh.broker.broker_config import LOG_STORE_FACTOR, BrokerKeys, BrokerSettings, render
from stoker.mesh.broker.spool_bounds import BYTES_MIN, SpoolBounds
from stoker.native.errors import BadRequest


def read(folder: Path, text: str) -> SpoolBounds:
    (folder / "config.toml").write_text(text)
    return spool_bounds.read(folder / "config.toml")


def test_without_a_file_or_a_table_there_are_defaults(tmp_path: Path) -> None:
    assert spool_bounds.read(tmp_path / "config.toml") == SpoolBounds()
    assert read(tmp_path, "[budgets]\nqueued = 4\n") == SpoolBounds()


def test_a_table_sets_both_bounds(tmp_path: Path) -> None:
    bounds = read(tmp_path, f"[spool]\nbytes = {BYTES_MIN}\ndays = 30\n")
    assert (bounds.bytes, bounds.age_ns) == (BYTES_MIN, 30 * 24 * 3600 * 10**9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"bytes = {BYTES_MIN - 1}", f"spool.bytes is {BYTES_MIN - 1}, from {BYTES_MIN} to"),
        ("days = 0", "spool.days is 0, from 1 to 366"),
        ("days = '7d'", "spool: Expected `int`, got `str`"),
        ("megabytes = 3", "unknown field `megabytes`"),
    ],
)
def test_nonsense_is_named(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        read(tmp_path, f"[spool]\n{text}\n")
    assert says in caught.value.message and "config.toml" in caught.value.message


def test_a_broker_has_room_on_disk_for_what_was_set(keyring: dict[str, Any]) -> None:
    bounds = SpoolBounds(bytes=3 << 30)
    settings = BrokerSettings("s", 1, "/x", "/k", "/c", spool=bounds)
    room = settings.log_max_bytes * LOG_STORE_FACTOR + (6 << 30)
    assert f"max_file_store: {room}" in render(settings, BrokerKeys(keyring["scheduler"].public))
