# SPDX-License-Identifier: Apache-2.0
"""`stoker bench`: what stoker costs, against a floor measured in the same run.

Progress goes to stderr, so that `--json` is one object on stdout whatever happens in between.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from stoker.tui.job_commands import node_option

if TYPE_CHECKING:
    from stoker.mesh.client.bench_submit import SubmitResult

Row = TypeVar("Row")

TRACE_BENCH = """
import json, sys
from stoker.native.errors import StokerError
from stoker.probes.bench import bench_trace
try:
    result = bench_trace.run(sys.argv[1] == "1", int(sys.argv[2]), float(sys.argv[3]))
except StokerError as error:
    sys.exit(f"stoker: {error}")
if sys.argv[1] == "1":
    print(json.dumps(result, indent=2))
"""
"""Program of `bench trace`: arguments are json (0 or 1), rounds, seconds."""


PROBES_BENCH = """
import json, sys
from stoker.native.errors import StokerError
from stoker.native.paths import NotBuilt
from stoker.probes.bench import bench_probes, launch_loops
asked = json.loads(sys.argv[1])
say = sys.stderr if asked.pop("as_json") else sys.stdout
try:
    result = launch_loops.run(
        **asked, told=lambda row: print(bench_probes.line(row), file=say, flush=True)
    )
except (StokerError, NotBuilt) as error:
    sys.exit(f"stoker: {error}")
if say is sys.stderr:
    print(json.dumps(result, indent=2))
else:
    print(bench_probes.text(result))
"""
"""Program of `bench probes`: the argument is a JSON object, what `run` takes and `as_json`."""


@click.group("bench")
def bench_command() -> None:
    """Measure stoker against a floor."""


@bench_command.command("submit")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--jobs", type=click.IntRange(10, 100_000), default=1000, show_default=True)
@node_option
def bench_submit_command(as_json: bool, jobs: int, state: str | None) -> None:
    """Time from a submit to the job's first statement, and jobs per second.

    Uses a node of its own unless --state names one.
    """
    from stoker.tui import private_node, tables

    if state is not None:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="stoker-work-") as work:
            Path(work).chmod(0o755)
            result = asyncio.run(_submit(state, Path(work), jobs))
        failures: list[str] = []
    else:
        with private_node.running() as node:
            result = asyncio.run(_submit(str(node.state), node.work, jobs))
        failures = node.failures
    click.echo(tables.render_one(result) if as_json else _text(result), nl=False)
    for failure in failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if failures else 0)


async def _submit(state: str, work: Path, jobs: int) -> SubmitResult:
    from stoker.mesh.client import bench_submit
    from stoker.mesh.client.client import Client
    from stoker.native import paths

    noop = work / "stoker-bench-noop"
    shutil.copyfile(paths.program("stoker-bench-noop"), noop)
    noop.chmod(0o755)
    programs = bench_submit.SubmitPrograms(str(noop), str(paths.program("stoker-bench-floor")))
    cpus = len(os.sched_getaffinity(0))
    async with Client.open(state) as client:
        return await bench_submit.measure(client, programs, jobs, cpus, _say)


def _say(words: str) -> None:
    click.echo(f"bench: {words}", err=True)


def _text(result: SubmitResult) -> str:
    lines = ["  GPUS   START P50   START P99      JOBS/S     FLOOR/S   RATIO"]
    for row in result.rows:
        lines.append(
            f"{row.gpu_milli / 1000:6g} {row.start_p50_ms:8.2f} ms {row.start_p99_ms:8.2f} ms "
            f"{row.jobs_per_s:11.0f} {row.floor_per_s:11.0f} {row.ratio:7.2f}"
        )
    lines.append(f"floor with one process per CPU: {result.floor_parallel_per_s:.0f}/s")
    return "\n".join(lines) + "\n"


@bench_command.command("trace")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.01, 60), default=0.2, help="Of one run.")
def bench_trace_command(as_json: bool, rounds: int, seconds: float) -> None:
    """What tracing costs a launch, off and on in ABBA order."""
    # A process of its own: the bench belongs to the tracer, which nothing that shows may import.
    words = [str(int(as_json)), str(rounds), str(seconds)]
    done = subprocess.run([sys.executable, "-c", TRACE_BENCH, *words], check=False)
    sys.exit(done.returncode)


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
    import json

    asked = {"as_json": as_json, "quads": quads, "rates": rates, "drivers": drivers}
    done = subprocess.run([sys.executable, "-c", PROBES_BENCH, json.dumps(asked)], check=False)
    sys.exit(done.returncode)


@bench_command.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
@click.option("--profile", default="8xH200", show_default=True, help="Which simulated node.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=10, show_default=True)
def bench_devices_command(as_json: bool, profile: str, seconds: float) -> None:
    """What it costs to read the cards of a node (SIM), and how soon a hung driver is noticed."""
    words = ["--profile", profile, "--seconds", str(seconds), *(["--json"] if as_json else [])]
    # A process of its own: what reads cards is the agent's, which nothing that shows may import.
    argv = [sys.executable, "-m", "stoker.agent.devices.bench", *words]
    sys.exit(subprocess.run(argv, check=False).returncode)


@bench_command.command("decide")
@click.option("--json", "as_json", is_flag=True, help="Print one object.")
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
    from stoker.tui import bench_decide, tables

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
        counted = bench_decide.Counted(None, "not asked for")
        if instructions:
            _say("counting instructions")
            counted = bench_decide.instructions(load)
        result["instructions_per_decision"] = counted.per_decision
        result["instructions_absent"] = counted.reason or None
        result["measured"]["instructions_per_decision"] = counted.what or None
    result["cpu"] = bench_decide.cpu()
    click.echo(tables.render_one(result) if as_json else bench_decide.text(result), nl=False)


def _read(path: Path, reader: Callable[[Iterable[str], str], list[Row]]) -> list[Row]:
    with path.open(newline="") as lines:
        return reader(lines, path.name)
