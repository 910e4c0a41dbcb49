# SPDX-License-Identifier: Apache-2.0
"""`stoker sim jct` from files to figures, on traces of a few jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoker.native.errors import BadRequest
from stoker.tui.commands.sim_commands import sim_command
from stoker.tui.sim.jct_commands import cluster_from

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 00:00:00,100,1,100,vc1\n"
    "2017-10-09 00:00:01,10,2,20,vc2\n"
    "2017-10-09 00:00:02,5,1,5,vc1\n"
)
STEPS = "A\tpython3 a.py\t-n\t1\t400\t0.0\t1\n"
SPEEDS = """{"v100": {"('A', 1)": {"null": 4.0}}, "k80": {"('A', 1)": {"null": 1.0}}}"""
Sim = Callable[..., Result]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    (tmp_path / "philly.csv").write_text(PHILLY)
    (tmp_path / "vc.trace").write_text(STEPS)
    (tmp_path / "speeds.json").write_text(SPEEDS)
    (tmp_path / "bad.csv").write_text(PHILLY + "yesterday,1,1,1,vc1\n")

    def call(*words: str, files: str = "philly.csv") -> Result:
        paths = [str(tmp_path / name) for name in files.split(",")]
        return CliRunner().invoke(sim_command, ["jct", *words, *paths])

    return call


def test_json_has_an_entry_for_each_policy(sim: Sim) -> None:
    result = sim("--policy", "fifo,sjf", "--gpus", "2", "--nodes", "1", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["cluster"] == {"gpus": 2, "nodes": 1, "types": {"gpu": 2}}
    assert told["jobs"] == 3 and told["trace"] == ["philly.csv"]
    assert told["settings"]["restart_s"] == 30
    fifo, sjf = told["policies"]
    assert (fifo["policy"], sjf["policy"]) == ("fifo", "sjf")
    assert fifo["avg_jct_s"] == pytest.approx((100 + 109 + 113) / 3)
    assert (fifo["makespan_s"], fifo["longest_wait_s"], fifo["jobs"]) == (115, 108, 3)
    assert [tenant["name"] for tenant in fifo["tenants"]] == ["vc1", "vc2"]
    assert fifo["bound_broken"] == 0 and sjf["bound_used"] is not None


def test_the_table_names_policies_and_figures(sim: Sim) -> None:
    result = sim("--policy", "fifo", "--gpus", "2", "--nodes", "1", "--tenants")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "3 jobs on 2 GPUs (gpu) in 1 nodes; times in minutes"
    assert lines[1].split()[:3] == ["POLICY", "AVG", "JCT"]
    assert lines[2].split()[:2] == ["fifo", "1.79"]
    assert [line.split()[0] for line in lines[-2:]] == ["vc1", "vc2"]


def test_refused_jobs_are_told(sim: Sim) -> None:
    result = sim("--policy", "fifo", "--gpus", "1")
    assert result.exit_code == 0, result.output
    assert "fifo: 1 jobs were refused: " in result.stdout


def test_load_and_limit_change_the_trace(sim: Sim) -> None:
    options = ["--policy", "fifo", "--gpus", "2", "--nodes", "1", "--json"]
    told = json.loads(sim(*options, "--limit", "2", "--load", "2").stdout)
    assert told["jobs"] == 2
    assert told["policies"][0]["avg_jct_s"] == pytest.approx((100 + 109.5) / 2)


def test_a_trace_in_steps_runs_on_the_faster_type(sim: Sim) -> None:
    options = ["--policy", "fifo", "--types", "v100:1", "--json"]
    told = json.loads(sim(*options, files="vc.trace,speeds.json").stdout)
    assert told["policies"][0]["avg_jct_s"] == 100


def test_a_plot_is_written(sim: Sim, tmp_path: Path) -> None:
    path = tmp_path / "jct.svg"
    assert sim("--policy", "fifo", "--gpus", "2", "--plot", str(path)).exit_code == 0
    assert "<svg" in path.read_text() and "fifo" in path.read_text()


@pytest.mark.parametrize(
    ("words", "files", "told"),
    [
        (["--policy", "magic"], "philly.csv", "'magic' is no policy: fifo"),
        ([], "bad.csv", "bad.csv:5: "),
        ([], "vc.trace", "counts steps"),
        ([], "speeds.json", "at least one trace"),
        (["--gpus", "2", "--types", "gpu:2"], "philly.csv", "not both"),
        (["--gpus", "2"], "vc.trace,speeds.json", "tells types apart"),
        (["--types", "tpu:2"], "vc.trace,speeds.json", "of which the cluster has none"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_a_line(
    sim: Sim, words: list[str], files: str, told: str
) -> None:
    result = sim(*words, files=files)
    assert isinstance(result.exception, BadRequest)
    assert told in str(result.exception) and "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("kind", "gpus", "nodes"),
    [("philly", 2474, 310), ("pollux", 64, 16), ("tiresias", 60, 15), ("gavel", 108, 27)],
)
def test_each_trace_has_its_usual_cluster(kind: str, gpus: int, nodes: int) -> None:
    cluster = cluster_from(kind, None, None, None)
    assert (cluster.gpus, len(cluster.nodes)) == (gpus, nodes)


def test_gpus_are_divided_among_nodes() -> None:
    assert len(cluster_from("philly", 500, 100, None).nodes) == 100


@pytest.mark.parametrize(
    "words",
    [["--load", "nan"], ["--load", "0"], ["--restart-seconds", "inf"], ["--estimate-error", "-1"]],
)
def test_options_out_of_range_are_refused(sim: Sim, words: list[str]) -> None:
    assert sim(*words).exit_code == 2
