# SPDX-License-Identifier: Apache-2.0
"""`stoker bench`: what stoker costs, against a floor measured in the same run.

Progress goes to stderr, so that `--json` is one object on stdout whatever happens in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from stoker.tui.options.verb_options import json_option, node_option

if TYPE_CHECKING:
    from stoker.tui.demo.private_node import PrivateNode

Row = TypeVar("Row")


@click.group("bench")
def bench_command() -> None:
    """Measure stoker against a floor."""


@bench_command.command("submit")
@json_option
@click.option("--jobs", type=click.IntRange(10, 100_000), default=1000, show_default=True)
@node_option
def bench_submit_command(as_json: bool, jobs: int, state: str | None) -> None:
    """Time from a submit to the job's first statement, and jobs per second.

    Uses a node of its own unless --state names one.
    """
    from stoker.tui.bench import submit
    from stoker.tui.render import tables

    with _node(state) as node:
        result = asyncio.run(submit.measure(str(node.state), node.work, jobs, _say))
    click.echo(tables.render_one(result) if as_json else submit.text(result), nl=False)
    for failure in node.failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if node.failures else 0)


@contextlib.contextmanager
def _node(state: str | None) -> Iterator[PrivateNode]:
    """A node of its own, or the named one with a folder that its jobs' users can read."""
    from stoker.tui.demo import private_node

    if state is None:
        with private_node.running() as node:
            yield node
        return
    with tempfile.TemporaryDirectory(prefix="stoker-work-") as work:
        Path(work).chmod(0o755)
        yield private_node.PrivateNode(Path(state), Path(work))


def _say(words: str) -> None:
    click.echo(f"bench: {words}", err=True)


@bench_command.command("trace")
@json_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.01, 60), default=0.2, help="Of one run.")
def bench_trace_command(as_json: bool, rounds: int, seconds: float) -> None:
    """What tracing costs a launch, off and on in ABBA order."""
    from stoker.tui.bench import tracer_programs

    sys.exit(tracer_programs.run_trace(rounds, seconds, as_json=as_json))


@bench_command.command("probes")
@click.option("--json", "as_json", is_flag=True, help="Print one object; rows go to stderr.")
@click.option(
    "--quads",
    type=click.IntRange(2, 10_000),
    default=40,
    show_default=True,
    help="Of four slices of 20 ms, per row; up to four times as many where it is noisy.",
)
@click.option(
    "--rate",
    "rates",
    type=click.IntRange(10, 5_000_000),
    multiple=True,
    default=(1_000, 10_000, 50_000, 100_000, 1_000_000),
    show_default=True,
    help="Untraced launches per second.",
)
@click.option(
    "--driver",
    "drivers",
    type=click.Choice(["pocl", "SIM"]),
    multiple=True,
    default=("pocl", "SIM"),
    show_default=True,
    help="SIM is a simulated driver, for rates that PoCL does not reach.",
)
def bench_probes_command(
    as_json: bool, quads: int, rates: tuple[int, ...], drivers: tuple[str, ...]
) -> None:
    """What each mode of tracing costs at a rate of launches, and how fast traces are folded."""
    from stoker.tui.bench import tracer_programs

    sys.exit(tracer_programs.run_probes(as_json=as_json, quads=quads, rates=rates, drivers=drivers))


@bench_command.command("devices")
@json_option
@click.option("--profile", default="8xH200", show_default=True, help="Which simulated node.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=10, show_default=True)
def bench_devices_command(as_json: bool, profile: str, seconds: float) -> None:
    """What it costs to read the cards of a node (SIM), and how soon a hung driver is noticed."""
    words = ["--profile", profile, "--seconds", str(seconds), *(["--json"] if as_json else [])]
    # A process of its own: what reads cards is the agent's, which nothing that shows may import.
    argv = [sys.executable, "-m", "stoker.agent.devices.bench", *words]
    sys.exit(subprocess.run(argv, check=False).returncode)


@bench_command.command("decide")
@json_option
@click.option(
    "--nodes",
    type=click.IntRange(1, 65_535),
    default=1213,
    show_default=True,
    help="1213 is the cluster of Alibaba's GPU trace of 2023.",
)
@click.option("--gpus", type=click.IntRange(1, 64), help="Of each node: all nodes are the same.")
@click.option("--nodes-csv", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--pods-csv", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--fill", type=click.FloatRange(1, 100), default=95.0, help="Percent, kept.")
@click.option("--decisions", type=click.IntRange(100, 1_000_000), default=20_000)
@click.option("--rounds", type=click.IntRange(1, 100), default=3, help="The best one counts.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1)
@click.option("--through", type=click.Choice(["python"]), help="Objects in, objects out.")
@click.option("--instructions/--no-instructions", default=True, help="Count them by callgrind.")
def bench_decide_command(
    *,
    as_json: bool,
    nodes: int,
    gpus: int | None,
    nodes_csv: Path | None,
    pods_csv: Path | None,
    fill: float,
    decisions: int,
    rounds: int,
    seed: int,
    through: str | None,
    instructions: bool,
) -> None:
    """Time of one decision on a cluster that is nearly full, jobs coming and going."""
    from stoker.scheduler import bench_decide as bench
    from stoker.scheduler.sim import openb
    from stoker.tui.bench import decide
    from stoker.tui.render import tables

    tasks = bench.openb_tasks() if pods_csv is None else _read(pods_csv, openb.read_tasks)
    if nodes_csv is not None:
        machines = _read(nodes_csv, openb.read_machines)
    elif gpus is None and nodes == len(bench.openb_machines()):
        machines = bench.openb_machines()
    else:
        machines = bench.uniform_machines(nodes, gpus or 8)
    load = bench.DecideLoad(machines, tasks, fill, seed, rounds=rounds, decisions=decisions)
    _say(f"{rounds} rounds of {decisions} decisions on {len(machines)} nodes")
    if through is not None:
        result = bench.through_python(load, time.perf_counter_ns)
    else:
        result = bench.measure(load)
        counted = decide.Counted(None, "not asked for")
        if instructions:
            _say("counting instructions")
            counted = decide.instructions(load)
        result["instructions_per_decision"] = counted.per_decision
        result["instructions_absent"] = counted.reason or None
        result["measured"]["instructions_per_decision"] = counted.what or None
    result["cpu"] = decide.cpu()
    click.echo(tables.render_one(result) if as_json else decide.text(result), nl=False)


def _read(path: Path, reader: Callable[[Iterable[str], str], list[Row]]) -> list[Row]:
    with path.open(newline="") as lines:
        return reader(lines, path.name)
