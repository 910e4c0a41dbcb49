# SPDX-License-Identifier: Apache-2.0
"""`stoker sim power`: a cluster's power draw as a published GPU trace arrives, by placement.

It shares files, runs and options with `sim openb`; `scheduler/sim/power_report.py` compares.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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

MARKS = (10, 30, 50, 70, 90)
"""The percentages of allocated GPUs whose power draw is shown."""


@click.command("power")
@nodes_argument
@pods_argument
@click.option(
    "--policy",
    default="fgd,default,power",
    help="Placements to compare; savings are against fgd.",
)
@seeds_option("42-44")
@arrivals_option
@processes_option
@json_option
@plot_option
def sim_power_command(
    *,
    nodes: Path,
    pods: tuple[Path, ...],
    policy: str,
    seeds: str,
    arrivals: float,
    processes: int | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Compare placements by the cluster's power draw at equal allocation.

    NODES and PODS are CSV files of the Alibaba 2023 GPU trace (alibaba/clusterdata). Power comes
    from PWR's table (CCGrid 2025), where a GPU with any task on it draws full power.
    """
    policies, numbers = parse_policies(policy), parse_seeds(seeds)
    report = _report(nodes, pods, arrivals, policies, numbers, processes)
    if plot:
        _plot(plot, report["workloads"])
    click.echo(json.dumps(report, indent=2) if as_json else _text(report))


def _report(  # noqa: PLR0917
    nodes: Path,
    pods: Sequence[Path],
    arrivals: float,
    policies: Sequence[str],
    seeds: Sequence[int],
    processes: int | None,
) -> dict[str, Any]:
    from stoker.scheduler.sim.openb_run import RunRules
    from stoker.scheduler.sim.power import check_models
    from stoker.scheduler.sim.power_report import comparison
    from stoker.tui.sim.openb_files import read_workloads
    from stoker.tui.sim.openb_runs import every_run, facts, simulate

    started = time.monotonic()
    workloads = read_workloads(nodes, pods)
    machines = workloads[0].machines
    check_models(machines, str(nodes))
    rules = RunRules(arrivals, measure_power=True)
    found = simulate(every_run(workloads, policies, seeds, rules), processes)
    rows = [
        comparison(each.name, {name: found[each.name, name] for name in policies})
        for each in workloads
    ]
    return {
        "schema": "stoker/v1",
        "measured": "draw of all machines by PWR's wattage table at equal shares of GPUs given out,"
        " mean over seeds; idle machines are on; low load is up to 50 % of the GPUs given out",
        "arrivals_pct": arrivals,
        **facts(machines, seeds, started),
        "workloads": rows,
    }


def _plot(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    from stoker.scheduler.sim.plot import line_chart

    line_chart(
        path,
        "Cluster power",
        "given out, % of GPUs",
        "kW",
        {
            f"workload {row['name']}, placement {each['policy']}": [
                (point["alloc_pct"], point["kw"]) for point in each["curve"]
            ]
            for row in rows
            for each in row["policies"]
        },
    )


def _text(report: dict[str, Any]) -> str:
    wide = max([len("WORKLOAD"), *(len(row["name"]) for row in report["workloads"])])
    shown = "".join(f"{f'KW@{mark}':>9}" for mark in MARKS)
    lines = [f"{'WORKLOAD':{wide}}  POLICY   ALLOC %{shown}    LOW %  BEST % WORST %"]
    for row in report["workloads"]:
        lines += [f"{row['name']:{wide}}  {rest}" for rest in _rows(row)]
    lines.append(
        f"{report['gpus']} GPUs on {report['nodes']} nodes, {len(report['seeds'])} seeds,"
        f" {report['elapsed_s']:.1f} s; KW@N: with N % of the GPUs given out; LOW, BEST, WORST:"
        " saved against fgd at equal allocation, mean up to 50 % and over all of it; at most: no"
        " placement of the same tasks can save more"
    )
    return "\n".join(lines)


def _rows(workload: dict[str, Any]) -> Iterator[str]:
    for row in workload["policies"]:
        draws = "".join(f"{_kw(row, mark):>9}" for mark in MARKS)
        yield f"{row['policy']:8} {row['final_alloc_pct']:7.2f}{draws}{_saved(row)}"
    if "possible" in workload:
        yield f"{'at most':16}{' ' * 9 * len(MARKS)}{_saved(workload['possible'])}"


def _saved(row: dict[str, Any]) -> str:
    names = ("low_load_saving_pct", "best_saving_pct", "worst_saving_pct")
    return " " + "".join(f" {cell(row.get(name))}" for name in names)


def _kw(row: dict[str, Any], mark: int) -> str:
    """The draw at the first point whose allocation reaches the mark."""
    found = (point["kw"] for point in row["curve"] if point["alloc_pct"] >= mark)
    return next((f"{kw:.0f}" for kw in found), "-")
