# SPDX-License-Identifier: Apache-2.0
"""ModelPower of models in config.toml: taken as a whole or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.server import watts_file
from stoker.native.errors import BadRequest
from stoker.scheduler.hints import ModelPower


def test_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert watts_file.read(path) == {}
    path.write_text('[node]\nlabels = []\n[models."NVIDIA L40S"]\nidle_w = 35\nfull_w = 350\n')
    assert watts_file.read(path) == {"NVIDIA L40S": ModelPower(35.0, 350.0)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[models.m]\nidle_w = 400\nfull_w = 350\n", "models.m: idle_w is 400 and full_w 350"),
        ("[models.m]\nidle_w = 0\nfull_w = 0\n", "models.m"),
        ("[models.m]\nidle_w = nan\nfull_w = 1\n", "models.m"),
        ("[models.m]\nidle_w = 1\n", "full_w"),
        ("[models.m]\nidle_w = 1\nfull_w = 2\nwatt = 3\n", "watt"),
        ("[models\n", "Expected ']'"),
        ("models = 3\n", "models"),
        ("".join(f"[models.m{i}]\nidle_w=1\nfull_w=2\n" for i in range(65)), "at most 64"),
    ],
)
def test_a_wrong_figure_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(BadRequest, match=said):
        watts_file.read(path)
