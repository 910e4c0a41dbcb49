# SPDX-License-Identifier: Apache-2.0
"""The table that pins a scheduler to older feature levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.log.feature_level import BUILD, FeatureRange
from stoker.mesh.server import level_pin
from stoker.native.errors import BadRequest


def test_without_a_pin_a_scheduler_takes_part_in_all_that_it_knows(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert level_pin.read(file) == BUILD
    file.write_text("[budgets]\nwaiters = 3\n")
    assert level_pin.read(file) == BUILD


def test_a_pin_narrows_and_never_widens(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[upgrade]\nnewest_level = 1\n")
    assert level_pin.read(file) == FeatureRange(1, 1)
    file.write_text(f"[upgrade]\nnewest_level = {BUILD.newest + 5}\n")
    assert level_pin.read(file) == BUILD


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[upgrade]\nnewest_level = 0\n", "newest_level is 0, and this stoker supports levels"),
        ("[upgrade]\nnewest = 1\n", "unknown field `newest`"),
        ("[upgrade\n", "Expected ']'"),
    ],
)
def test_a_wrong_pin_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(BadRequest) as caught:
        level_pin.read(file)
    assert says in caught.value.message and str(file) in caught.value.message
