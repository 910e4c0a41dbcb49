# SPDX-License-Identifier: Apache-2.0
"""`stoker sim power` from files to figures, on a cluster of two machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.native.errors import BadRequest
from stoker.tui.sim.power_commands import sim_power_command


def call(folder: Path, *words: str, model: str = "T4") -> Result:
    nodes, pods = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text(f"sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,8,{model}\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,1000\n")
    argv = ["--processes", "1", *words, str(nodes), str(pods)]
    return CliRunner().invoke(sim_power_command, argv)


def test_savings_are_against_fgd(tmp_path: Path) -> None:
    plot = tmp_path / "power.svg"
    result = call(tmp_path, "--policy", "fgd,pack", "--seeds", "1", "--json", "--plot", str(plot))
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["workloads"]
    fgd, pack = row["policies"]
    assert fgd["idle_kw"] == (2 * 15 + 8 * 10) / 1000
    assert fgd["final_kw"] == (120 + 15 + 8 * 70) / 1000
    assert pack["worst_saving_pct"] == 0, "one machine of equal devices leaves no choice"
    assert plot.read_text().startswith("<svg")


def test_the_table_has_a_line_for_each_placement(tmp_path: Path) -> None:
    result = call(tmp_path, "--policy", "fgd,pack", "--seeds", "1")
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:3]] == [
        ["pods", "fgd"], ["pods", "pack"],
    ]  # fmt: skip


def test_a_model_of_unknown_draw_is_refused(tmp_path: Path) -> None:
    result = call(tmp_path, model="B200")
    assert isinstance(result.exception, BadRequest)
    assert "no wattage is known for GPU model 'B200'" in str(result.exception)


@pytest.mark.parametrize("words", [("--policy", "x"), ("--seeds", "-1")])
def test_a_wrong_call_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert call(tmp_path, *words).exit_code == 2
