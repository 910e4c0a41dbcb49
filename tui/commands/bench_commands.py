# SPDX-License-Identifier: Apache-2.0
"""The verb `bench`: measures what stoker costs, beside a floor from the same run.

Progress goes to stderr, so that stdout holds one object with `--json`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from stoker.scheduler.policies import PLACEMENTS, placement_of
from stoker.tui.options.verb_options import json_option, node_option

if TYPE_CHECKING:
    from stoker.tui.demo.private_node import PrivateNode

TRACE_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("bench", context_settings={"show_default": True})
def bench_command() -> None:
    """Measure what submitting, deciding, tracing and reading devices cost."""


@bench_command.command("submit")
@json_option
@click.option("--jobs", type=click.IntRange(10, 100_000), default=1000, help="Jobs to run.")
@click.option(
    "--servers",
    type=click.Choice(["3", "5"]),
    help="As root: one server, then a cluster of so many, as network namespaces.",
)
@node_option
def bench_submit_command(as_json: bool, jobs: int, servers: str | None, state: str | None) -> None:
    """Measure the time from a submit to the job's first statement, and jobs per second.

    Runs on a private node unless --state names one.
    """
    from stoker.tui.bench import submit
    from stoker.tui.render import tables

    if servers is not None:
        _submit_to_servers(int(servers), jobs, state, as_json=as_json)
    with _node(state) as node:
        result = asyncio.run(submit.measure(str(node.state), node.work, jobs, _say))
    click.echo(tables.render_one(result) if as_json else submit.text(result), nl=False)
    for failure in node.failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if node.failures else 0)


def _submit_to_servers(servers: int, jobs: int, state: str | None, *, as_json: bool) -> NoReturn:
    from stoker.tui.bench import server_submits
    from stoker.tui.render import tables

    if state is not None:
        raise click.UsageError("--servers makes clusters of its own, so it takes no --state")
    result, left = server_submits.measure(servers, jobs, _say)
    click.echo(tables.render_one(result) if as_json else server_submits.text(result), nl=False)
    for failure in left:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if left else 0)


@bench_command.command("scale")
@json_option
@click.option("--nodes", default="4,8", metavar="N,N", help="Numbers of nodes to measure at.")
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, help="Time at each number.")
def bench_scale_command(as_json: bool, nodes: str, seconds: float) -> None:
    """Measure many nodes of simulated cards (SIM) under one scheduler, all on this machine.

    The hosts are network namespaces, which root alone can make. Each node has 8 cards, an agent,
    a spawner, a watchdog and a supervisor of its own.
    """
    from stoker.tui.bench import scale
    from stoker.tui.render import tables

    growth = [int(word) for word in nodes.split(",") if word.isdigit()]
    if not growth or max(growth) > scale.NODES_MAX or min(growth) < 1:
        raise click.UsageError(f"--nodes takes numbers from 1 to {scale.NODES_MAX}, as 4,8")
    result, left = scale.measure(growth, seconds, _say)
    click.echo(tables.render_one(result) if as_json else scale.text(result), nl=False)
    for failure in left:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if left else 0)


@bench_command.command("log")
@json_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, help="Rounds of each figure.")
@click.option(
    "--appends", type=click.IntRange(10, 800), default=200, help="Appends of one kind in a block."
)
@click.option(
    "--submits", type=click.IntRange(100, 20_000), default=4000, help="Submits of a round."
)
@click.option("--reads", type=click.IntRange(10, 20_000), default=1000, help="Reads of a kind.")
def bench_log_command(as_json: bool, rounds: int, appends: int, submits: int, reads: int) -> None:
    """Measure the replicated log: appends, submits, and reads at leader and follower.

    Appends stand beside raw ones, and submits go through one leader. The reads of a round are at
    the leader, at a follower, and stale ones at that follower.
    """
    from stoker.tui.bench import log
    from stoker.tui.demo import private_node
    from stoker.tui.render import tables

    with private_node.terminable():
        result = log.measure(log.LogLoad(rounds, appends, submits, reads), _say)
    click.echo(tables.render_one(result) if as_json else log.text(result), nl=False)


@bench_command.command("cli")
@json_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=20, help="Runs of each command.")
def bench_cli_command(as_json: bool, rounds: int) -> None:
    """Measure commands from start to end, beside an interpreter that does nothing."""
    from stoker.tui.bench import cli_start
    from stoker.tui.demo import private_node
    from stoker.tui.render import tables

    with private_node.terminable():
        result = cli_start.measure(rounds, _say)
    click.echo(tables.render_one(result) if as_json else cli_start.text(result), nl=False)


@bench_command.command("telemetry")
@json_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, help="Groups of four blocks.")
@click.option(
    "--messages", type=click.IntRange(64, 100_000), default=4000, help="Messages of a block."
)
@click.option(
    "--appends", type=click.IntRange(10, 20_000), default=200, help="Log appends of a block."
)
@click.option(
    "--flood",
    type=click.IntRange(0, 1_000_000),
    default=4000,
    help="Messages of the flood in a second; 0: as many as the broker reads.",
)
def bench_telemetry_command(
    as_json: bool, rounds: int, messages: int, appends: int, flood: int
) -> None:
    """Measure the CPU of a published message, kept in a memory stream and only live.

    Then the latency of one append to the log, with and without a flood of such messages at the
    same broker.
    """
    from stoker.tui.bench import telemetry
    from stoker.tui.bench.telemetry_flood import FloodLoad
    from stoker.tui.demo import private_node
    from stoker.tui.render import tables

    with private_node.terminable():
        result = telemetry.measure(rounds, messages, FloodLoad(rounds, appends, flood), _say)
    click.echo(tables.render_one(result) if as_json else telemetry.text(result), nl=False)


@bench_command.command("tui")
@json_option
@click.option("--seconds", type=click.FloatRange(1, 600), default=20.0, help="Length of a run.")
@click.option("--nodes", type=click.IntRange(1, 10_000), default=1000, help="Nodes.")
@click.option("--devices", type=click.IntRange(1, 64), default=8, help="Devices of a node.")
@click.option("--jobs", type=click.IntRange(1, 10_000), default=10_000, help="Jobs.")
@click.option(
    "--hertz", type=click.FloatRange(0.1, 20), default=4.0, help="Changes of all devices."
)
def bench_tui_command(
    *, as_json: bool, seconds: float, nodes: int, devices: int, jobs: int, hertz: float
) -> None:
    """Measure frames and keys of the live view on a terminal, beside Textual's DataTable.

    Frames drawn by lot are compared cell by cell with what was to be shown.
    """
    from stoker.tui.bench import top_frames
    from stoker.tui.bench.top_cluster import ClusterSize
    from stoker.tui.render import tables

    load = top_frames.TopLoad(ClusterSize(nodes, devices, jobs), hertz, seconds)
    result = top_frames.measure(load, _say)
    click.echo(tables.render_one(result) if as_json else top_frames.text(result), nl=False)


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
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=3,
    help="Quadruples of runs.",
)
@click.option("--seconds", type=click.FloatRange(0.01, 60), default=0.2, help="Length of a run.")
def bench_trace_command(as_json: bool, rounds: int, seconds: float) -> None:
    """Measure what tracing adds to a launch, off and on in ABBA order."""
    from stoker.tui.bench import bench_programs

    bench_programs.run_trace(rounds, seconds, as_json=as_json)


@bench_command.command("probes")
@json_option
@click.option(
    "--quads",
    type=click.IntRange(2, 10_000),
    default=40,
    help="Groups of four 20 ms slices for a row; up to four times as many if it is noisy.",
)
@click.option(
    "--rate",
    "rates",
    type=click.IntRange(10, 5_000_000),
    multiple=True,
    default=(1_000, 10_000, 50_000, 100_000, 1_000_000),
    help="Untraced launches per second.",
)
@click.option(
    "--driver",
    "drivers",
    type=click.Choice(["pocl", "SIM"]),
    multiple=True,
    default=("pocl", "SIM"),
    help="SIM is a simulated driver, for rates that PoCL does not reach.",
)
def bench_probes_command(
    as_json: bool, quads: int, rates: tuple[int, ...], drivers: tuple[str, ...]
) -> None:
    """Measure what each tracing mode costs by launch rate, and how fast traces are folded.

    As JSON it prints one object; the rows go to stderr as they come.
    """
    from stoker.tui.bench import bench_programs

    bench_programs.run_probes(as_json=as_json, quads=quads, rates=rates, drivers=drivers)


@bench_command.command("devices")
@json_option
@click.option("--profile", default="8xH200", help="Simulated node.")
@click.option("--seconds", type=click.FloatRange(1, 600), default=10, help="Length.")
def bench_devices_command(as_json: bool, profile: str, seconds: float) -> None:
    """Measure what reading a node's cards (SIM) costs, and the delay to notice a hung driver."""
    from stoker.tui.bench import bench_programs

    words = ["--profile", profile, "--seconds", str(seconds), *(["--json"] if as_json else [])]
    # A separate process, because the readers of cards belong to the agent.
    bench_programs.become("-m", "stoker.agent.devices.bench", *words)


@bench_command.command("export")
@json_option
@click.option("--rounds", type=click.IntRange(1, 1000), default=15, help="Passes of each kind.")
@click.option("--series", type=click.IntRange(1, 100_000), default=5000, help="Series of a pass.")
def bench_export_command(as_json: bool, rounds: int, series: int) -> None:
    """Measure what telling metrics costs: the export and the page of a busy node, and many series.

    OpenTelemetry's SDK and prometheus_client tell the same series beside it, if they are installed.
    """
    from stoker.tui.bench import bench_programs

    words = ["--rounds", str(rounds), "--series", str(series), *(["--json"] if as_json else [])]
    # A separate process, because what tells metrics belongs to the agent.
    bench_programs.become("-m", "stoker.agent.export.bench", *words)


@bench_command.command("decide")
@json_option
@click.option(
    "--nodes",
    type=click.IntRange(1, 65_535),
    default=1213,
    help="Nodes; 1213 is the cluster of Alibaba's GPU trace of 2023.",
)
@click.option(
    "--gpus", type=click.IntRange(1, 64), help="GPUs of each node, all nodes being equal."
)
@click.option("--nodes-csv", type=TRACE_FILE, help="Nodes, as a file of that trace.")
@click.option("--pods-csv", type=TRACE_FILE, help="Tasks, as a file of that trace.")
@click.option(
    "--fill", type=click.FloatRange(1, 100), default=95.0, help="Percent of GPUs kept in use."
)
@click.option(
    "--decisions", type=click.IntRange(100, 1_000_000), default=20_000, help="Decisions of a round."
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=3, help="Rounds; the best one counts."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Seed of the load.")
@click.option(
    "--placement", type=click.Choice(PLACEMENTS), default="best", help="How nodes are chosen."
)
@click.option(
    "--domains",
    type=click.IntRange(1, 65_535),
    default=None,
    help="Decide on gangs that stay within one of so many domains of nodes.",
)
@click.option("--gang", type=click.IntRange(2, 64), default=4, help="Tasks of each of these gangs.")
@click.option(
    "--through", type=click.Choice(["python"]), help="Decide through the Python interface."
)
@click.option(
    "--instructions/--no-instructions", default=True, help="Count instructions with callgrind."
)
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
    placement: str,
    domains: int | None,
    gang: int,
    through: str | None,
    instructions: bool,
) -> None:
    """Measure the time of a decision on a nearly full cluster, as jobs come and go."""
    from stoker.scheduler.bench_decide import DecideLoad
    from stoker.tui.bench import callgrind, decide
    from stoker.tui.render import tables

    machines = decide.machines(nodes, gpus, nodes_csv)
    load = DecideLoad(
        machines, decide.tasks(pods_csv), fill, seed, placement_of(placement),
        domains=domains or 0, gang=gang, rounds=rounds, decisions=decisions,
    )  # fmt: skip
    if through and domains:
        raise click.UsageError("--through python has no gangs: leave --domains out")
    _say(f"{rounds} rounds of {decisions} decisions on {len(machines)} nodes")

    def count(load: DecideLoad) -> callgrind.Counted:
        if not instructions:
            return callgrind.Counted(None, "not asked for")
        _say("counting instructions")
        return callgrind.count(load)

    measured = decide.through_python(load) if through else decide.measure(load, count)
    click.echo(tables.render_one(measured) if as_json else decide.text(measured), nl=False)
