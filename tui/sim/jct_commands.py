# SPDX-License-Identifier: Apache-2.0
"""`stoker sim jct`: replays a trace of jobs under each policy and compares them in a table.

Traces are the user's own files; nothing is downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.tui.options.verb_options import json_option, plot_option
from stoker.tui.sim.columns import Columns, plain, table
from stoker.tui.sim.sim_options import FiniteRange

if TYPE_CHECKING:
    from stoker.scheduler.sim.jct import ReplaySettings, TraceReplay
    from stoker.scheduler.sim.jct_cluster import TraceCluster
    from stoker.scheduler.sim.jct_report import Figures
    from stoker.scheduler.sim.jct_trace import TraceJob

CLUSTERS: dict[str, tuple[str, int]] = {
    "philly": ("gpu:2474", 8),
    "pollux": ("gpu:64", 4),
    "tiresias": ("gpu:60", 4),
    "gavel": ("v100:36,p100:36,k80:36", 4),
}
"""Format of the trace -> (types, GPUs of a node) of the cluster it was published with."""

HOURS_FROM_S = 36_000
"""The makespan from which times are shown in hours, not minutes."""


READING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("jct")
@click.argument("files", nargs=-1, required=True, type=READING)
@click.option(
    "--policy",
    "policy_names",
    default="all",
    help="Comma-separated policies, or all.",
)
@click.option("--gpus", type=click.IntRange(1), help="GPUs of the cluster.")
@click.option("--nodes", type=click.IntRange(1), help="Nodes that share the GPUs equally.")
@click.option("--types", help="GPUs by type, such as v100:36,p100:36.")
@click.option("--limit", type=click.IntRange(1), help="Replay only the first jobs to arrive.")
@click.option(
    "--load",
    type=FiniteRange(1e-6, 1e6),
    default=1.0,
    help="Factor by which jobs arrive faster.",
)
@click.option(
    "--estimate-error",
    type=FiniteRange(0, 1000),
    default=0.0,
    help="Let estimates be off by a factor of up to 1 + this, either way.",
)
@click.option(
    "--estimates",
    type=FiniteRange(0, 1),
    default=1.0,
    help="Share of jobs with an estimate of their run time.",
)
@click.option("--stuck", is_flag=True, help="Add a first job that waits for a lost GPU.")
@click.option(
    "--restart-seconds",
    type=FiniteRange(0, 1e6),
    default=30.0,
    help="Time that a stopped job loses when it starts again.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the estimates.")
@click.option("--tenants", is_flag=True, help="Also print tenants for each policy.")
@json_option
@plot_option
def sim_jct_command(
    *,
    files: tuple[Path, ...],
    policy_names: str,
    gpus: int | None,
    nodes: int | None,
    types: str | None,
    limit: int | None,
    load: float,
    estimate_error: float,
    estimates: float,
    stuck: bool,
    restart_seconds: float,
    seed: int,
    tenants: bool,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Replay a trace of jobs: completion times, waiting and fairness by policy.

    FILES are one trace: philly.csv, Pollux's workload-*.csv, Tiresias' 60_job.csv, or Gavel's
    *.trace together with its simulation_throughputs.json; several are merged by arrival.
    """
    from stoker.scheduler.sim import jct, jct_policy
    from stoker.tui.render import tables

    policies = jct_policy.policies_of(policy_names)
    jobs, kind = _jobs(files, limit, load)
    cluster = cluster_from(kind, gpus, nodes, types)
    settings = jct.ReplaySettings(restart_seconds, estimate_error, seed, estimates, stuck)
    rows = [_row(policy, jobs, cluster, settings) for policy in policies]
    if plot:
        _plot(plot, files, rows)
    if as_json:
        told = _object(
            files=files, jobs=jobs, cluster=cluster, settings=settings, load=load, rows=rows
        )
        click.echo(tables.render_one(told), nl=False)
    else:
        click.echo(_text(jobs, cluster, rows, tenants), nl=False)


class _Row(NamedTuple):
    figures: Figures
    replay: TraceReplay
    wall_s: float


def _jobs(files: Sequence[Path], limit: int | None, load: float) -> tuple[list[TraceJob], str]:
    """All jobs of the files, and the format of the first trace."""
    from stoker.native.errors import BadRequest
    from stoker.scheduler.sim import jct_trace

    tables = [path for path in files if path.suffix == ".json"]
    traces = [path for path in files if path.suffix != ".json"]
    if len(tables) > 1 or not traces:
        raise BadRequest("give at least one trace and at most one table of throughputs (.json)")
    throughputs = jct_trace.read_throughputs(tables[0]) if tables else None
    jobs = jct_trace.read_jobs(traces, throughputs, limit)
    if load != 1:
        jobs = [job._replace(submit_ns=round(job.submit_ns / load)) for job in jobs]
    return jobs, jct_trace.format_of(traces[0])


def cluster_from(kind: str, gpus: int | None, nodes: int | None, types: str | None) -> TraceCluster:
    """The cluster that the options name; the rest is as the trace was published."""
    from stoker.native.errors import BadRequest
    from stoker.scheduler.sim import jct_cluster

    usual, node_gpus = CLUSTERS[kind]
    parts = jct_cluster.parse_types(types or usual)
    if gpus and types:
        raise BadRequest("give the GPUs of each type with --types, or all with --gpus, not both")
    if gpus and len(parts) > 1:
        raise BadRequest("this trace tells types apart", hint="Give --types, such as v100:36.")
    if gpus:
        parts = [(parts[0][0], gpus)]
    if nodes:
        node_gpus = -(-sum(count for _, count in parts) // nodes)
    return jct_cluster.cluster_of(parts, node_gpus)


def _row(
    policy: Any, jobs: list[TraceJob], cluster: TraceCluster, settings: ReplaySettings
) -> _Row:
    from stoker.scheduler.sim import jct, jct_report
    from stoker.tui.render.progress import progress

    begun = time.monotonic()
    with progress(policy.name, len(jobs)) as advance:
        replay = jct.replay(jobs, cluster, policy, settings, advance)
    return _Row(jct_report.figures(replay), replay, time.monotonic() - begun)


def _object(
    *,
    files: Sequence[Path],
    jobs: list[TraceJob],
    cluster: TraceCluster,
    settings: ReplaySettings,
    load: float,
    rows: list[_Row],
) -> dict[str, Any]:
    models = {
        model: sum(node.gpus for node in cluster.nodes if node.model == model)
        for model in cluster.models
    }
    return {
        "trace": [path.name for path in files],
        "jobs": len(jobs),
        "cluster": {"gpus": cluster.gpus, "nodes": len(cluster.nodes), "types": models},
        "settings": {**settings._asdict(), "load": load},
        "policies": [
            {
                **row.figures._asdict(),
                "tenants": [tenant._asdict() for tenant in row.figures.tenants],
                "wall_s": round(row.wall_s, 3),
            }
            for row in rows
        ],
    }


def _in(unit_s: int, seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / unit_s:.2f}"


def _columns(unit_s: int) -> Columns:
    """Columns of the table of policies, with times in this unit."""
    return (
        ("POLICY", lambda f: f.policy),
        ("AVG JCT", lambda f: _in(unit_s, f.avg_jct_s)),
        ("P99 JCT", lambda f: _in(unit_s, f.p99_jct_s)),
        ("MAKESPAN", lambda f: _in(unit_s, f.makespan_s)),
        ("AVG WAIT", lambda f: _in(unit_s, f.avg_wait_s)),
        ("LONGEST WAIT", lambda f: _in(unit_s, f.longest_wait_s)),
        ("TO START", lambda f: _in(unit_s, f.longest_first_wait_s)),
        ("OF BOUND", lambda f: plain(f.bound_used, ".1%")),
        ("JAIN", lambda f: plain(f.jain, ".3f")),
        ("WORST TENANT", lambda f: plain(f.worst_slowdown, ".2f")),
        ("STOPPED", lambda f: str(f.preemptions)),
        ("GPU-HOURS", lambda f: f"{f.gpu_hours:.0f}"),
        ("IN USE", lambda f: plain(f.utilisation, ".1%")),
    )


def _tenant_columns(unit_s: int) -> Columns:
    return (
        ("TENANT", lambda t: t.name),
        ("JOBS", lambda t: str(t.jobs)),
        ("GPU-HOURS", lambda t: f"{t.gpu_hours:.0f}"),
        ("AVG WAIT", lambda t: _in(unit_s, t.avg_wait_s)),
        ("P99 WAIT", lambda t: _in(unit_s, t.p99_wait_s)),
        ("SLOW-DOWN", lambda t: f"{t.slowdown:.2f}"),
    )


def _text(jobs: list[TraceJob], cluster: TraceCluster, rows: list[_Row], tenants: bool) -> str:
    models = ", ".join(cluster.models)
    longest = max((row.figures.makespan_s or 0 for row in rows), default=0)
    unit_s, unit = (3600, "hours") if longest >= HOURS_FROM_S else (60, "minutes")
    lines = [
        f"{len(jobs)} jobs on {cluster.gpus} GPUs ({models}) in {len(cluster.nodes)} nodes; "
        f"times in {unit}"
    ]
    lines += table(_columns(unit_s), [row.figures for row in rows])
    for row in rows:
        for why, count in row.figures.refused.items():
            lines.append(f"{row.figures.policy}: {count} jobs were refused: {why}")
        if row.figures.unfinished:
            lines.append(f"{row.figures.policy}: {row.figures.unfinished} jobs never started")
        if tenants:
            lines += ["", row.figures.policy, *table(_tenant_columns(unit_s), row.figures.tenants)]
    return "\n".join(lines) + "\n"


def _plot(path: Path, files: Sequence[Path], rows: list[_Row]) -> None:
    from stoker.scheduler.sim import jct_report, plot

    curves = {row.figures.policy: jct_report.curve(row.replay.runs) for row in rows}
    title = f"Job completion times, {files[0].name}"
    plot.line_chart(path, title, "hours from submit to end", "% of jobs", curves, log_x=True)
