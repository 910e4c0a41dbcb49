# SPDX-License-Identifier: Apache-2.0
"""`stoker sim openb`: a published GPU trace through the scheduler's core.

Reads the files, spreads the runs over processes and prints; what a run does is in `scheduler/sim`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.native.errors import BadRequest, NotFound
from stoker.tui.render.progress import progress

if TYPE_CHECKING:
    from stoker.scheduler.sim.openb import Machine
    from stoker.scheduler.sim.openb_run import OpenbResult, OpenbRun, RunRules, Workload

SEEDS_MAX = 1000
FILE_BYTES_MAX = 256 << 20
PREFIX = "openb_pod_list_"
"""Left out of a workload's name."""
Runs = dict[tuple[str, str], list["OpenbResult"]]
"""(workload, policy) -> results by seed."""


def parse_seeds(text: str) -> list[int]:
    """`42-51`, `1,4-6`: in that order, each once."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part, re.ASCII)
        if not match:
            raise click.BadParameter(f"{part!r} is neither a number nor a range such as 42-51")
        found = range(int(match[1]), int(match[2] or match[1]) + 1)
        if len(seeds) + len(found) > SEEDS_MAX:
            raise click.BadParameter(f"more than {SEEDS_MAX} seeds")
        seeds += found
    if not seeds:
        raise click.BadParameter(f"{text!r} names no seed")
    return list(dict.fromkeys(seeds))


def parse_policies(text: str) -> list[str]:
    """`default,fgd`: in that order, each once."""
    from stoker.scheduler.sim.openb_run import POLICIES

    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in POLICIES:
            raise click.BadParameter(f"{name!r} is none of {', '.join(POLICIES)}")
    return names


def read_workloads(nodes: Path, pods: Sequence[Path]) -> list[Workload]:
    """The machines and every list of tasks; BadRequest for a bad row or a name twice."""
    from stoker.scheduler.sim import openb
    from stoker.scheduler.sim.openb_run import Workload

    machines = openb.read_machines(_lines(nodes), str(nodes))
    names = [path.stem.removeprefix(PREFIX) for path in pods]
    if len(set(names)) != len(names):
        raise BadRequest(f"two task files have the same name: {', '.join(names)}")
    return [
        Workload(name, machines, openb.read_tasks(_lines(path), str(path)))
        for name, path in zip(names, pods, strict=True)
    ]


def check_departures(workloads: Sequence[Workload], pods: Sequence[Path]) -> None:
    """BadRequest for a file that does not say when its tasks leave."""
    from stoker.scheduler.sim.openb import check_times

    for workload, path in zip(workloads, pods, strict=True):
        check_times(workload.tasks, str(path))


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise BadRequest(f"{path} is larger than {FILE_BYTES_MAX >> 20} MiB")
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path} is no text: {error.reason} at byte {error.start}") from error


def simulate(runs: Sequence[OpenbRun], processes: int) -> Runs:
    """Every run, on as many processes as asked for; results do not depend on how many."""
    found: Runs = {}
    with progress("simulating", len(runs)) as advance:
        for result in _results(runs, min(processes, len(runs))):
            found.setdefault((result.name, result.policy), []).append(result)
            advance(1)
    return found


def _results(runs: Sequence[OpenbRun], processes: int) -> Iterator[OpenbResult]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from stoker.scheduler.sim.openb_run import run

    if processes <= 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(run, runs)


def every_run(
    workloads: Sequence[Workload], policies: Sequence[str], seeds: Sequence[int], rules: RunRules
) -> list[OpenbRun]:
    from stoker.scheduler.sim.openb_run import OpenbRun

    return [
        OpenbRun(workload, policy, seed, rules)
        for workload, policy, seed in itertools.product(workloads, policies, seeds)
    ]


def cpus() -> int:
    return len(os.sched_getaffinity(0))


def gpus(machines: Sequence[Machine]) -> int:
    return sum(machine.gpus for machine in machines)


nodes_argument = click.argument("nodes", type=click.Path(dir_okay=False, path_type=Path))
pods_argument = click.argument(
    "pods", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path)
)
seeds_option = click.option(
    "--seeds", default="42-51", show_default=True, help="Such as 42-51 or 1,3."
)
arrivals_option = click.option(
    "--arrivals",
    type=click.FloatRange(1, 1000),
    default=130,
    show_default=True,
    help="GPU demand that arrives, in percent of the cluster's GPUs.",
)
processes_option = click.option(
    "--processes", type=click.IntRange(1, 256), help="At once; as many as CPUs by default."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one object.")
plot_option = click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="An SVG file."
)


@click.command("openb")
@nodes_argument
@pods_argument
@click.option(
    "--policy",
    default="default",
    show_default=True,
    help="One or several of default, fgd, pack, spread, random, power, with commas between.",
)
@seeds_option
@arrivals_option
@click.option("--departures", is_flag=True, help="Tasks leave after their time in the trace.")
@click.option(
    "--migrations",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="Running tasks that may be moved to make room, at most, in one run.",
)
@processes_option
@json_option
@plot_option
def sim_openb_command(
    *,
    nodes: Path,
    pods: tuple[Path, ...],
    policy: str,
    seeds: str,
    arrivals: float,
    departures: bool,
    migrations: int,
    processes: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Share of GPUs given out as the tasks of PODS arrive at the machines of NODES.

    NODES and PODS are CSV files of the Alibaba 2023 GPU trace (alibaba/clusterdata).
    """
    from stoker.scheduler.sim.openb_run import RunRules, summary

    if departures and migrations:
        raise click.UsageError("--departures and --migrations do not go together")
    if departures and plot:
        raise click.UsageError("--departures has no curve to plot")
    rules = RunRules(arrivals, departures, migrations)
    policies, numbers = parse_policies(policy), parse_seeds(seeds)
    started = time.monotonic()
    workloads = read_workloads(nodes, pods)
    if departures:
        check_departures(workloads, pods)
    found = simulate(every_run(workloads, policies, numbers, rules), processes or cpus())
    machines = workloads[0].machines
    rows = [summary(results, gpus(machines), rules) for results in found.values()]
    report = {
        "schema": "stoker/v1",
        "measured": _OPENB_WHAT[departures],
        "arrivals_pct": arrivals,
        "departures": departures,
        "migrations_max": migrations,
        "nodes": len(machines),
        "gpus": gpus(machines),
        "seeds": numbers,
        "elapsed_s": round(time.monotonic() - started, 3),
        "workloads": rows,
    }
    if plot:
        _plot_allocation(plot, rows)
    click.echo(json.dumps(report, indent=2) if as_json else _openb_text(report), nl=True)


_OPENB_WHAT = {
    False: "share of all GPUs given out when the last task has arrived, mean and population sd"
    " over seeds; nobody leaves; a task that does not fit is dropped and counts as arrived",
    True: "share of all GPUs given out, mean over time in steady state, mean and population sd"
    " over seeds; tasks stay as long as in the trace; one that does not fit is dropped",
}


def _plot_allocation(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from stoker.scheduler.sim.plot import line_chart

    line_chart(
        path,
        "GPUs given out",
        "arrived demand, % of GPUs",
        "given out, % of GPUs",
        {f"{row['name']}, {row['policy']}": list(enumerate(row["curve_pct"])) for row in rows},
    )


def _openb_text(report: dict[str, Any]) -> str:
    rows = report["workloads"]
    wide = max([len("WORKLOAD"), *(len(row["name"]) for row in rows)])
    lines = [f"{'WORKLOAD':{wide}}  POLICY    ALLOC %     SD   FGD %    DIFF   DROPPED  MOVES"]
    for row in rows:
        runs = row["runs"]
        lines.append(
            f"{row['name']:{wide}}  {row['policy']:8} {row['mean_alloc_pct']:8.2f} "
            f"{row['sd_pct']:6.2f} {cell(row['published_fgd_pct'])} "
            f"{cell(row['above_published_pct'], '+')} "
            f"{_mean(runs, 'dropped'):9.1f} {_mean(runs, 'moves'):6.1f}"
        )
    lines.append(
        f"{report['gpus']} GPUs on {report['nodes']} nodes, {report['arrivals_pct']:g} % arrived, "
        f"{len(report['seeds'])} seeds, {report['elapsed_s']:.1f} s; FGD: as published"
    )
    return "\n".join(lines)


def cell(value: float | None, sign: str = "") -> str:
    return f"{'-':>7}" if value is None else f"{value:{sign}7.2f}"


def _mean(runs: Sequence[dict[str, Any]], field: str) -> float:
    return sum(float(run[field]) for run in runs) / len(runs)
