# SPDX-License-Identifier: Apache-2.0
"""`stoker sim cluster`: seeds of a simulated cluster of schedulers, agents and a faulty log.

Runs seeds and prints; what a seed does is in `world.py`. Everything in it is SIM.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from stoker.agent.sim.campaign import campaign
from stoker.agent.sim.code_digest import code_digest
from stoker.agent.sim.figures import SeedFigures, summary
from stoker.agent.sim.world import run_seed

SEEDS_MAX = 10_000_000


@click.command("cluster")
@click.option("--seeds", type=click.IntRange(1, SEEDS_MAX), default=100, help="Seeds to run.")
@click.option("--first", type=click.IntRange(0), default=0, help="The first seed.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=None, help="Processes; one for each CPU."
)
@click.option("--seed", type=click.IntRange(0), default=None, help="Run this seed alone.")
@click.option("--explain", is_flag=True, help="Tell what happened in the run of --seed.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output form.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: -o json.")
def sim_cluster_command(
    *,
    seeds: int,
    first: int,
    jobs: int | None,
    seed: int | None,
    explain: bool,
    as_json: bool,
    output: str,
) -> None:
    """Run a simulated cluster (SIM) whose faults are drawn by seed, and audit it.

    The schedulers and agents are the shipped code; network, clocks, disks and the log's servers are
    simulated. Exits with 1 if anything was found that must never be.
    """
    if explain and seed is None:
        raise click.UsageError("--explain tells of one run: give --seed as well")
    if seed is not None and explain:
        report = _explained(seed)
    else:
        wanted = [seed] if seed is not None else range(first, first + seeds)
        started = time.monotonic()
        runs = list(_told(campaign(wanted, jobs or len(os.sched_getaffinity(0))), len(wanted)))
        report = {"schema": "stoker/v1", "simulated": True, "code": code_digest()}
        report |= summary(runs, time.monotonic() - started)
    if not explain:
        click.echo(json.dumps(report, indent=2) if as_json or output == "json" else _text(report))
    if report["violations"]:
        sys.exit(1)


def _explained(seed: int) -> dict[str, Any]:
    figures, lines = run_seed(seed, story=True)
    for line in lines:
        click.echo(line)
    for what in figures.violations:
        click.echo(f"VIOLATION: {what}")
    click.echo(f"{figures.events} events, {figures.entries} entries, {figures.simulated_s:g} s")
    return {"violations": figures.violations}


def _told(runs: Iterator[SeedFigures], of: int) -> Iterator[SeedFigures]:
    """Pass the runs on, and count them on a terminal."""
    for done, each in enumerate(runs, 1):
        if sys.stderr.isatty():
            end = "\n" if done == of else ""
            print(f"\rsimulating (SIM): {done} of {of}", end=end, file=sys.stderr, flush=True)
        yield each


def _text(report: dict[str, Any]) -> str:
    lines = [
        f"{report['seeds']} seeds (SIM), {report['counted']} of them count,"
        f" {report['seeds_per_h']} an hour",
        f"{report['events_per_seed']} events and {report['entries_per_seed']} entries a seed,"
        f" {report['events_per_s']} events/s, {report['state_coverage']} states of the cluster",
        "faults: " + ", ".join(f"{name} {n}" for name, n in report["fault_kinds"].items()),
    ]
    lines += [f"VIOLATION in seed {each['seed']}: {each['what']}" for each in report["violations"]]
    if not report["violations"]:
        lines.append("nothing was found that must never be")
    return "\n".join(lines)
