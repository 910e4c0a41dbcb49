# SPDX-License-Identifier: Apache-2.0
"""`stoker bench decide`: one object, or a text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.tui.commands.bench_commands import bench_command

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{at},32000,65536,4,T4\n" for at in range(6)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\nb,500,0,0,0\n"
QUICK = ("--decisions", "100", "--rounds", "1")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return ("--nodes-csv", f"{tmp_path / 'nodes.csv'}", "--pods-csv", f"{tmp_path / 'pods.csv'}")


def run(*words: str) -> Result:
    return CliRunner().invoke(bench_command, ["decide", *QUICK, *words])


def test_one_object(files: tuple[str, ...]) -> None:
    told = json.loads(run("--json", "--no-instructions", *files).stdout)
    assert (told["nodes"], told["devices"], told["decisions"]) == (6, 24, 100)
    assert told["instructions_per_decision"] is None
    assert told["instructions_absent"] == "not asked for"
    assert "CPUs" in told["cpu"]
    wanted = {"p50_us", "p99_us", "p999_us", "decisions_per_s", "first_seen_p99_us",
              "naive_rescan_p50_us", "naive_rescan_p99_us", "measured"}  # fmt: skip
    assert wanted <= told.keys()


def test_text(files: tuple[str, ...]) -> None:
    lines = run("--no-instructions", *files).stdout.splitlines()
    assert lines[0].startswith("6 nodes, 24 devices, ")
    assert any(line.startswith("full rescan") for line in lines)
    assert "instructions   not counted: not asked for" in lines


def test_uniform_nodes_through_python() -> None:
    told = json.loads(run("--json", "--nodes", "3", "--gpus", "8", "--through", "python").stdout)
    assert (told["nodes"], told["devices"], told["through"]) == (3, 24, "python")
    assert "instructions_per_decision" not in told
    assert run("--nodes", "3", "--through", "python").stdout.startswith("3 nodes, 24 devices")


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("sn,gpu\nn,1\n")
    done = run("--nodes-csv", str(tmp_path / "wrong.csv"))
    assert done.exit_code != 0
    assert "wrong.csv" in str(done.exception)


def test_gangs_within_domains(files: tuple[str, ...]) -> None:
    words = ("--no-instructions", "--domains", "3", "--gang", "2", *files)
    lines = run(*words).stdout.splitlines()
    assert lines[0].endswith("gangs of 2 within one of 3 domains")
    assert not any(line.startswith("full rescan") for line in lines)
    refused = run("--through", "python", *words)
    assert refused.exit_code == 2
    assert "--through python has no gangs: leave --domains out" in refused.output
