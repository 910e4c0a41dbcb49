# SPDX-License-Identifier: Apache-2.0
"""`stoker sim thermal` from a file of percentiles to figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.native.errors import BadRequest
from stoker.tui.commands.sim_commands import sim_command

TELEMETRY = (
    "metric,cdf_pct,value\n"
    "gpu_util_pct_kalos,0,0\ngpu_util_pct_kalos,50,0\ngpu_util_pct_kalos,100,100\n"
    "gpu_power_w_kalos,0,50\ngpu_power_w_kalos,50,60\ngpu_power_w_kalos,100,400\n"
    "gpu_temp_c_kalos,0,20\ngpu_temp_c_kalos,50,30\ngpu_temp_c_kalos,100,70\n"
)
Sim = Callable[..., Result]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    path = tmp_path / "cdf.csv"
    path.write_text(TELEMETRY)

    def call(*words: str) -> Result:
        room = ["--nodes", "2", "--gpus", "4", "--hours", "2"]
        return CliRunner().invoke(sim_command, ["thermal", *room, *words, str(path)])

    return call


def test_json_has_an_entry_for_each_placement(sim: Sim) -> None:
    result = sim("--policy", "thermal,best", "--warmer", "15", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [each["placement"] for each in told["placements"]] == ["thermal", "best"]
    assert told["model"]["resting_pct"] == 50
    assert told["room"]["warmer_c"] == 15 and told["room"]["nodes"] == 2
    for each in told["placements"]:
        assert each["peak_c"] > 40 and 0 < each["allocation"] <= 1


def test_the_table_has_a_line_for_each_placement(sim: Sim) -> None:
    result = sim()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("2 nodes of 4 devices, 2 h, limit 85 C; ")
    assert [line.split()[0] for line in lines[2:]] == ["thermal", "best", "binpack"]


def test_a_plot_is_written(sim: Sim, tmp_path: Path) -> None:
    path = tmp_path / "heat.svg"
    assert sim("--policy", "thermal,pack", "--plot", str(path)).exit_code == 0
    assert "Heat by placement" in path.read_text()


def test_a_cluster_that_the_telemetry_lacks_is_told(sim: Sim) -> None:
    result = sim("--cluster", "venus")
    assert isinstance(result.exception, BadRequest)
    assert "no gpu_power_w_venus" in str(result.exception)


@pytest.mark.parametrize(
    "words", [["--policy", "magic"], ["--load", "3"], ["--hours", "0"], ["--hours", "nan"]]
)
def test_options_out_of_range_are_refused(sim: Sim, words: list[str]) -> None:
    assert sim(*words).exit_code == 2
