# SPDX-License-Identifier: Apache-2.0
"""Libraries that an agent places where jobs can read them on a simulated node, and job bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.agent_settings import SIM_DRIVERS, place_simulated, read_config
from stoker.agent.state.job_bounds import Bounds
from stoker.native.errors import BadRequest


def test_jobs_get_copies_of_the_drivers_that_the_agent_loads(tmp_path: Path) -> None:
    first, second, folder = (tmp_path / name for name in ("first", "second", "lib"))
    for place in (first, second, folder):
        place.mkdir(mode=0o700)
    for place, names in ((first, SIM_DRIVERS[:1]), (second, SIM_DRIVERS)):
        for name in names:
            (place / name).write_text(f"{name} of {place.name}")
    environment = {"STOKER_SIM_NODE": "/node", "LD_LIBRARY_PATH": f"{first}::{second}"}
    assert place_simulated(folder, environment) == {
        "STOKER_SIM_NODE": "/node",
        "LD_LIBRARY_PATH": str(folder / "sim"),
    }
    placed = [(folder / "sim" / name).read_text().split()[-1] for name in SIM_DRIVERS]
    assert placed == ["first", "second", "second"]
    assert (folder / "sim" / SIM_DRIVERS[0]).stat().st_mode & 0o777 == 0o755


def test_nothing_is_placed_where_nothing_is_simulated(tmp_path: Path) -> None:
    assert place_simulated(tmp_path, {"LD_LIBRARY_PATH": "/usr/lib"}) == {}
    assert list(tmp_path.iterdir()) == []


def test_bounds_of_jobs_are_read_and_senseless_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert read_config(path).jobs == Bounds()
    path.write_text("[jobs]\nprocesses_per_user = 500\nmemory_per_job = 0\n")
    assert read_config(path).jobs == Bounds(processes_per_user=500, memory_per_job=0)
    for line in ("processes_per_user = -1", "processes_per_job = 5000000", "x = 1"):
        path.write_text(f"[jobs]\n{line}\n")
        with pytest.raises(BadRequest, match="jobs"):
            read_config(path)
