# SPDX-License-Identifier: Apache-2.0
"""`stoker sim openb`: a published GPU trace through the scheduler's core.

Parses options and prints; what a run does is in `scheduler/sim`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.tui.options.verb_options import json_option, plot_option
from stoker.tui.sim.columns import cell
from stoker.tui.sim.openb_options import (
    arrivals_option,
    nodes_argument,
    parse_policies,
    pods_argument,
    processes_option,
    seeds_option,
)
from stoker.tui.sim.sim_options import parse_seeds

if TYPE_CHECKING:
    from stoker.scheduler.sim.openb_run import RunRules


@click.command("openb")
@nodes_argument
@pods_argument
@click.option(
    "--policy",
    default="default",
    help="Comma-separated: default, fgd, pack, spread, random, power.",
)
@seeds_option("42-51")
@arrivals_option
@click.option("--departures", is_flag=True, help="End tasks after their time in the trace.")
@click.option(
    "--migrations",
    type=click.IntRange(0, 1_000_000),
    default=0,
    help="Running tasks that a run may move to make room.",
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
    """Show the share of GPUs allocated as the tasks of PODS arrive at the machines of NODES.

    NODES and PODS are CSV files of the Alibaba 2023 GPU trace (alibaba/clusterdata).
    """
    from stoker.scheduler.sim.openb_run import RunRules

    if departures and migrations:
        raise click.UsageError("--departures and --migrations do not go together")
    if departures and plot:
        raise click.UsageError("--departures has no curve to plot")
    rules = RunRules(arrivals, departures, migrations)
    policies, numbers = parse_policies(policy), parse_seeds(seeds)
    report = _report(nodes, pods, rules, policies, numbers, processes)
    if plot:
        _plot(plot, report["workloads"])
    click.echo(json.dumps(report, indent=2) if as_json else _text(report))


def _report(  # noqa: PLR0917
    nodes: Path,
    pods: Sequence[Path],
    rules: RunRules,
    policies: Sequence[str],
    seeds: Sequence[int],
    processes: int | None,
) -> dict[str, Any]:
    from stoker.scheduler.sim.openb_run import summary
    from stoker.tui.sim.openb_files import check_departures, read_workloads
    from stoker.tui.sim.openb_runs import every_run, facts, gpus, simulate

    started = time.monotonic()
    workloads = read_workloads(nodes, pods)
    if rules.departures:
        check_departures(workloads, pods)
    found = simulate(every_run(workloads, policies, seeds, rules), processes)
    machines = workloads[0].machines
    return {
        "schema": "stoker/v1",
        "measured": _MEASURED[rules.departures],
        "arrivals_pct": rules.arrivals_pct,
        "departures": rules.departures,
        "migrations_max": rules.migrations,
        **facts(machines, seeds, started),
        "workloads": [summary(results, gpus(machines), rules) for results in found.values()],
    }


_MEASURED = {
    False: "share of all GPUs given out when the last task has arrived, mean and population sd"
    " over seeds; nobody leaves; a task that does not fit is dropped and counts as arrived",
    True: "share of all GPUs given out, mean over time in steady state, mean and population sd"
    " over seeds; tasks stay as long as in the trace; one that does not fit is dropped",
}


def _plot(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from stoker.scheduler.sim.plot import line_chart

    line_chart(
        path,
        "GPUs given out",
        "arrived demand, % of GPUs",
        "given out, % of GPUs",
        {
            f"workload {row['name']}, placement {row['policy']}": list(enumerate(row["curve_pct"]))
            for row in rows
        },
    )


def _text(report: dict[str, Any]) -> str:
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


def _mean(runs: Sequence[dict[str, Any]], field: str) -> float:
    return sum(float(run[field]) for run in runs) / len(runs)
