# SPDX-License-Identifier: Apache-2.0
"""`stoker sim power-loop`: the power loop on simulated cards (SIM), compared with an upper bound.

This module spreads runs over processes and prints; `run.py` makes one run.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from stoker.agent.power.sim.report import SimCase, summary
from stoker.agent.power.sim.run import PowerRun, run
from stoker.scheduler.sim import plant_ranges as ranges
from stoker.scheduler.sim.plant_draw import draw_node
from stoker.scheduler.sim.plot import line_chart
from stoker.scheduler.sim.power_oracle import bound

CASES_MAX = 3000
Job = tuple[int, float]


@click.command("power-loop")
@click.option("--seeds", default="1-4", help="Seeds to run: 1001-1200.")
@click.option("--budgets", default="70,80,90", help="Percent of all cards' TDP.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=None, help="By default one for each CPU."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output form.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: -o json.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Plot the first seed as SVG."
)
def sim_power_loop_command(
    *,
    seeds: str,
    budgets: str,
    processes: int | None,
    as_json: bool,
    output: str,
    plot: Path | None,
) -> None:
    """Run the power loop on nodes (SIM) whose physics, sensors and jobs are drawn by seed.

    Work is compared with a bound that no policy under the same budget can beat, energy with equal
    limits on all cards. Each seed runs undisturbed and with one perturbation in turn.
    """
    jobs = [(seed, pct) for seed in _seeds(seeds) for pct in _budgets(budgets)]
    if len(jobs) > CASES_MAX:
        raise click.BadParameter(f"{len(jobs)} cases are more than {CASES_MAX}")
    started = time.monotonic()
    cases = list(_cases(jobs, processes or len(os.sched_getaffinity(0))))
    report = {
        "schema": "stoker/v1",
        "simulated": True,
        "measured": "work and true energy of 8 simulated cards (SIM), 170 s after 10 s of warm-up;"
        " bound: no policy that keeps the budget gets more done; static: equal limits; naive:"
        " a proportional loop on measured power",
        "seeds": seeds,
        "elapsed_s": round(time.monotonic() - started, 1),
        **summary(cases),
    }
    if plot:
        _plot(plot, jobs[0])
    click.echo(json.dumps(report, indent=2) if as_json or output == "json" else _text(report))


def _seeds(text: str) -> list[int]:
    match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text, re.ASCII)
    if not match:
        raise click.BadParameter(f"{text!r} is neither a number nor a range such as 1-100")
    found = range(int(match[1]), int(match[2] or match[1]) + 1)
    if not found or len(found) > CASES_MAX:
        raise click.BadParameter(f"{text!r}: 1 to {CASES_MAX} seeds, the lower number first")
    return list(found)


def _budgets(text: str) -> list[float]:
    lowest = 100 * ranges.LIMIT_MIN_W / ranges.TDP_W
    made = []
    for part in text.split(","):
        try:
            value = float(part)
        except ValueError:
            value = -1.0
        if not lowest <= value <= 100:
            raise click.BadParameter(
                f"{part.strip()!r}: the cards' limits allow {lowest:.1f} to 100 % of TDP"
            )
        made.append(value)
    return list(dict.fromkeys(made))


def case(job: Job) -> SimCase:
    """All runs of one seed at one budget."""
    seed, pct = job
    budget_w = pct / 100 * ranges.TDP_W * ranges.CARDS
    troubles = list(ranges.PERTURBATIONS)
    trouble = troubles[(seed + int(pct / 10)) % len(troubles)]
    return SimCase(
        seed,
        pct,
        bound(draw_node(seed), budget_w).work,
        {name: run(PowerRun(seed, pct, name)) for name in ("stoker", "static", "naive")},
        run(PowerRun(seed, pct, "stoker", trouble)),
    )


def _cases(jobs: Sequence[Job], processes: int) -> Iterator[SimCase]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    if min(processes, len(jobs)) <= 1:
        for done, job in enumerate(jobs):
            yield case(job)
            _say(done + 1, len(jobs))
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), get_context("spawn")) as pool:
        for done, found in enumerate(pool.map(case, jobs)):
            yield found
            _say(done + 1, len(jobs))


def _say(done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        print(f"\rsimulating (SIM): {done} of {of}", end=end, file=sys.stderr, flush=True)


def _plot(path: Path, job: Job) -> None:
    seed, pct = job
    lines: dict[str, list[tuple[float, float]]] = {}
    for policy in ("stoker", "static", "naive"):
        curve = run(PowerRun(seed, pct, policy), curve=True).curve
        lines[f"{policy}: power"] = [(t, watts / 1e3) for t, watts, _ in curve]
        if policy == "stoker":
            lines["stoker: limits"] = [(t, limits / 1e3) for t, _, limits in curve]
    budget = pct / 100 * ranges.TDP_W * ranges.CARDS / 1e3
    lines["budget"] = [(ranges.WARM_S, budget), (ranges.RUN_S, budget)]
    line_chart(path, f"Power of 8 cards (SIM), seed {seed}, {pct:g} % of TDP", "s", "kW", lines)


def _text(report: dict[str, Any]) -> str:
    head = (
        f"{'BUDGET':7}{'POLICY':8}{'RUNS':>5}{'WORK p5':>9}{'median':>8}{'ENERGY':>8}"
        f"{'OVER s':>8}{'worst %':>8}{'LIMITS':>8}{'HEAT C':>8}"
    )
    lines = [head]
    for budget, rows in report["budgets"].items():
        for name, row in rows.items():
            lines.append(
                f"{budget:7}{name:8}{row['runs']:5}{row['work_of_bound_p5']:9.4f}"
                f"{row['work_of_bound_median']:8.4f}{row['energy_per_work_of_static_median']:8.4f}"
                f"{row['seconds_over_budget']:8}{row['worst_second_over_pct']:8.2f}"
                f"{row['looks_with_limits_over_budget']:8}{row['overshoot_c']:8.2f}"
            )
    for name, row in report["perturbations"].items():
        lines.append(
            f"{name}: {row['runs']} runs, work {row['work_of_undisturbed_median']:.4f} of"
            f" undisturbed (p5 {row['work_of_undisturbed_p5']:.4f}), {row['seconds_over_budget']} s"
            f" over, heat {row['overshoot_c']:.2f} C, {row['reversals_per_run']:.1f} reversals"
        )
    for name, row in report["targets"].items():
        verdict = "reached" if row["reached"] else "MISSED"
        lines.append(f"{name}: {row['found']:g}, target {row['target']:g}: {verdict}")
    lines.append(
        "SIM. WORK: of the bound; ENERGY: per work, of equal limits, median; OVER: seconds whose"
        " mean true power was above the budget; LIMITS: seconds in which limits added up to more;"
        " HEAT: of the hottest die above the ceiling"
    )
    return "\n".join(lines)
