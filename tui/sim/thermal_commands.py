# SPDX-License-Identifier: Apache-2.0
"""`stoker sim thermal`: compares placements by temperatures and by the work lost to heat.

The telemetry is the user's own file.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stoker.tui.options.verb_options import json_option, plot_option
from stoker.tui.sim.columns import Columns, plain, table
from stoker.tui.sim.sim_options import FiniteRange, parse_names

if TYPE_CHECKING:
    from stoker.scheduler.policies import Placement
    from stoker.scheduler.sim.thermal import HeatFigures, ThermalRoom
    from stoker.scheduler.sim.thermal_model import Fit

PLACEMENTS = ("thermal", "best", "pack", "spread", "random")
COMPARED = "thermal,best,pack"


def _chosen(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    return parse_names(value, PLACEMENTS)


@click.command("thermal")
@click.argument("telemetry", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    "names",
    default=COMPARED,
    callback=_chosen,
    help="Comma-separated placements.",
)
@click.option("--cluster", default="kalos", help="Cluster of the devices.")
@click.option("--nodes", type=click.IntRange(1, 2048), default=32, help="Nodes to simulate.")
@click.option("--gpus", type=click.IntRange(1, 16), default=8, help="Devices of each node.")
@click.option("--hours", type=FiniteRange(0.01, 10_000), default=24.0, help="Hours to simulate.")
@click.option(
    "--load",
    type=FiniteRange(0.001, 2),
    default=0.6,
    help="Device time that jobs request, as a share of all.",
)
@click.option(
    "--limit",
    "limit_c",
    type=FiniteRange(20, 150),
    default=85.0,
    help="Temperature at which a device slows down, in C.",
)
@click.option(
    "--warmer",
    "warmer_c",
    type=FiniteRange(-50, 50),
    default=0.0,
    help="Kelvin by which the room is warmer than in the telemetry.",
)
@click.option(
    "--faulty",
    type=FiniteRange(0, 1),
    default=0.0,
    help="Share of devices whose cooling is faulty.",
)
@click.option(
    "--neighbours",
    type=FiniteRange(0, 1),
    default=0.0,
    help="Kelvin per watt by which a device warms its neighbours.",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the simulation.")
@json_option
@plot_option
def sim_thermal_command(
    *,
    telemetry: Path,
    names: list[str],
    cluster: str,
    gpus: int,
    as_json: bool,
    plot: Path | None,
    **room_options: Any,
) -> None:
    """Compare placements on simulated devices that warm up.

    TELEMETRY holds the percentiles of power, temperature and use to fit the devices to, as rows
    of metric,cdf_pct,value.
    """
    from stoker.scheduler.policies import placement_name, placement_of
    from stoker.scheduler.sim.telemetry import read_telemetry
    from stoker.scheduler.sim.thermal import ThermalRoom
    from stoker.scheduler.sim.thermal_model import fit
    from stoker.tui.render import tables

    known = fit(read_telemetry(telemetry), cluster)
    room = ThermalRoom(node_gpus=gpus, **room_options)
    rows = [_run(known, room, placement_of(placement_name(name))) for name in names]
    if plot:
        _plot(plot, rows)
    if as_json:
        click.echo(tables.render_one(_object(known, room, cluster, rows)), nl=False)
    else:
        click.echo(_text(known, room, rows), nl=False)


def _run(known: Fit, room: ThermalRoom, placement: Placement) -> HeatFigures:
    from stoker.scheduler.sim.thermal import simulate
    from stoker.tui.render.progress import progress

    steps = math.ceil(room.hours * 3600 / room.step_s)
    with progress(placement.name.lower(), steps) as advance:
        return simulate(known, room, placement, advance)


def _object(known: Fit, room: ThermalRoom, cluster: str, rows: list[HeatFigures]) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "model": {
            "resting_pct": known.resting,
            "idle_w": known.idle_w,
            "kelvin_per_w": known.kelvin_per_w,
        },
        "room": room._asdict(),
        "placements": [row._asdict() for row in rows],
    }


COLUMNS: Columns = (
    ("PLACEMENT", lambda f: f.placement),
    ("PEAK C", lambda f: f"{f.peak_c:.1f}"),
    ("P99 C", lambda f: plain(f.p99_c, ".0f")),
    ("ABOVE LIMIT", lambda f: plain(f.over_limit, ".2%")),
    ("LOST", lambda f: plain(f.lost, ".2%")),
    ("LOST GPU-H", lambda f: f"{f.lost_gpu_hours:.1f}"),
    ("HELD", lambda f: plain(f.allocation, ".2%")),
    ("ON FAULTY", lambda f: plain(f.on_faulty, ".2%")),
    ("JOBS", lambda f: str(f.jobs)),
    ("AVG WAIT S", lambda f: plain(f.avg_wait_s, ".0f")),
    ("AVG JCT S", lambda f: plain(f.avg_jct_s, ".0f")),
    ("KWH", lambda f: f"{f.kwh:.0f}"),
)


def _text(known: Fit, room: ThermalRoom, rows: list[HeatFigures]) -> str:
    lines = [
        f"{room.nodes} nodes of {room.node_gpus} devices, {room.hours:g} h, limit "
        f"{room.limit_c:g} C; {known.kelvin_per_w:.3f} K/W, {known.idle_w:.0f} W at rest",
        *table(COLUMNS, rows),
    ]
    return "\n".join(lines) + "\n"


def _plot(path: Path, rows: list[HeatFigures]) -> None:
    from stoker.scheduler.sim import plot

    shares = {
        "held time above the limit": {row.placement: 100 * (row.over_limit or 0) for row in rows},
        "held time lost": {row.placement: 100 * (row.lost or 0) for row in rows},
    }
    plot.bar_chart(path, "Heat by placement", "% of held device time", shares)
