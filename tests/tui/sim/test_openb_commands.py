# SPDX-License-Identifier: Apache-2.0
"""`stoker sim openb` from files to figures, on a cluster of two machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from stoker.native.errors import StokerError
from stoker.tui.sim.openb_commands import sim_openb_command
from stoker.tui.sim.openb_options import parse_policies
from stoker.tui.sim.openb_runs import simulate
from stoker.tui.sim.sim_options import parse_seeds

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,T4\nb,64000,262144,2,G2\n"
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
SHORT = f"{HEADER}\np0,1000,1024,1,1000\np1,1000,1024,1,500\np2,1000,1024,0,0\n"
LONG = (
    f"{HEADER},gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,1000,1024,1,1000,T4|G2,LS,Running,0,60,0\np1,1000,1024,1,500,,LS,Running,5,90,5\n"
)
Sim = Callable[..., Result]


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_short.csv").write_text(SHORT)
    (tmp_path / "long.csv").write_text(LONG)

    def call(*words: str, pods: str = "openb_pod_list_short.csv") -> Result:
        files = [str(tmp_path / name) for name in ("nodes.csv", *pods.split(","))]
        argv = ["--processes", "1", *words, *files]
        return CliRunner().invoke(sim_openb_command, argv, catch_exceptions=True)

    return call


def test_json_has_a_row_for_each_workload_and_policy(sim: Sim) -> None:
    result = sim(
        "--policy", "pack,random", "--seeds", "1-3", "--json",
        pods="openb_pod_list_short.csv,long.csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    rows = report["workloads"]
    assert [(row["name"], row["policy"]) for row in rows] == [
        ("short", "pack"), ("short", "random"), ("long", "pack"), ("long", "random"),
    ]  # fmt: skip
    assert (report["gpus"], report["nodes"], report["seeds"]) == (4, 2, [1, 2, 3])
    assert report["measured"].startswith("share of all GPUs given out")
    for row in rows:
        assert 75 <= row["mean_alloc_pct"] <= 100
        assert row["published_fgd_pct"] is None
        assert [run["seed"] for run in row["runs"]] == [1, 2, 3]
        assert row["curve_pct"][0] == 0


def test_the_table_has_a_line_for_each_row(sim: Sim) -> None:
    result = sim("--policy", "pack", "--seeds", "42")
    assert result.exit_code == 0
    heading, row, foot = result.stdout.splitlines()
    assert heading.split()[:2] == ["WORKLOAD", "POLICY"]
    assert row.split()[:2] == ["short", "pack"]
    assert "4 GPUs on 2 nodes, 130 % arrived, 1 seeds" in foot


def test_departures_need_times_and_have_them(sim: Sim) -> None:
    result = sim("--departures", "--policy", "pack", "--json", pods="long.csv")
    assert result.exit_code == 0, result.output
    assert "dropped_demand_pct" in json.loads(result.stdout)["workloads"][0]["runs"][0]
    refused = sim("--departures", "--policy", "pack")
    assert isinstance(refused.exception, StokerError)
    assert "no creation_time" in str(refused.exception)


def test_migrations_are_told(sim: Sim) -> None:
    result = sim("--migrations", "3", "--policy", "pack", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["migrations_max"] == 3
    assert all(run["moves"] <= 3 for run in report["workloads"][0]["runs"])


def test_the_plot_is_an_svg(sim: Sim, tmp_path: Path) -> None:
    assert sim("--policy", "pack", "--plot", str(tmp_path / "a.svg")).exit_code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    "words",
    [
        ("--departures", "--migrations", "1"),
        ("--departures", "--plot", "x.svg"),
        ("--policy", "best-ever"),
        ("--seeds", "a"),
        ("--arrivals", "0"),
    ],
)
def test_a_wrong_call_is_refused(sim: Sim, words: tuple[str, ...]) -> None:
    assert sim(*words).exit_code == 2


def test_files_that_are_none(sim: Sim, tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe")
    for pods, says in (
        ("missing.csv", "No such file"),
        ("picture.csv", "is no text"),
        ("nodes.csv", "nodes.csv:1: there is no column name"),
        ("openb_pod_list_short.csv,openb_pod_list_short.csv", "the same name"),
    ):
        result = sim(pods=pods)
        assert isinstance(result.exception, StokerError), pods
        assert says in str(result.exception)


def test_seeds_and_policies() -> None:
    assert parse_seeds("42-44,7,42") == [42, 43, 44, 7]
    assert parse_policies("fgd, default,fgd") == ["fgd", "default"]
    for text in ("", "5-1", "1-", "x-2", "1-5000", "1-99999999999999"):
        with pytest.raises(click.BadParameter):
            parse_seeds(text)


def test_processes_change_nothing() -> None:
    from stoker.scheduler.sim.openb import Machine, TraceTask
    from stoker.scheduler.sim.openb_run import OpenbRun, Workload

    workload = Workload("w", [Machine("a", 8000, 1 << 30, 2, "T4")], [TraceTask(1, 1, 1, 300)])
    runs = [OpenbRun(workload, "pack", seed) for seed in (1, 2, 3)]
    assert simulate(runs, 2) == simulate(runs, 1)
