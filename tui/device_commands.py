# SPDX-License-Identifier: Apache-2.0
"""The verbs `devices` and `metrics`: what devices there are, and what is read of each.

Relied on by the table in `main.py`. Prints; what is asked lives in `tui/device_calls.py`, how it is
written in `tui/readings_view.py`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from stoker.tui import tables, text
from stoker.tui.job_commands import call, node_option, output_option, show

CLEAR = "\x1b[H\x1b[J"
TABLE_WITHOUT = ("table", "name")
"""Forms that need no readings."""


@click.command("devices")
@node_option
@output_option("table")
def devices_command(state: str | None, output: tables.Output) -> None:
    """List devices; wide, json, jsonl and csv with everything that is read of them."""
    from stoker.tui import device_calls

    if output in TABLE_WITHOUT:
        show(tables.DEVICES, call(device_calls.devices(state)), output)
        return
    rows = call(device_calls.read_devices(state))
    if output == "csv":
        rows = [_flat(row) for row in rows]
    show(tables.DEVICES, rows, output)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Values alone as columns: `fields.power_w`; absences are empty cells."""
    fields = row.pop("fields", {})
    values = {f"fields.{name}": field.get("value") for name, field in fields.items()}
    return {**row, **values}


@click.command("metrics")
@click.argument("device")
@click.option("-w", "--watch", is_flag=True, help="Again and again, until interrupted.")
@click.option(
    "--every", type=click.FloatRange(0.1, 60), default=0.5, show_default=True, help="With -w."
)
@click.option("--all", "everything", is_flag=True, help="Every field, not only the series.")
@node_option
@click.option("-o", "--output", type=click.Choice(("table", "json", "jsonl")), default="table")
def metrics_command(
    *,
    device: str,
    watch: bool,
    every: float,
    everything: bool,
    state: str | None,
    output: str,
) -> None:
    """What is read of one device, and its past minute: DEVICE is an id, or NODE:INDEX."""
    call(_metrics(state, device, every if watch else None, everything, output))


async def _metrics(
    state: str | None, name: str, every_s: float | None, everything: bool, output: str
) -> None:
    from stoker.tui import device_calls, readings_view

    unicode = text.encodable(sys.stdout)
    async for device, view in device_calls.metrics(state, name, readings_view.FIELDS, every_s):
        if output == "json":
            text.show(tables.render_one({"schema": tables.SCHEMA, **view}))
            continue
        if output == "jsonl":
            line = {"schema": tables.SCHEMA, "t_ns": time.time_ns(), **view}
            text.show(tables.render(tables.DEVICES, [line], "jsonl"))
            continue
        parts = [readings_view.heading(view, device.model) + "\n", readings_view.health(device)]
        if not everything:
            width = max(20, min(readings_view.SERIES_WIDTH, _columns() - 64))
            parts.append(readings_view.series(view, width=width, unicode=unicode))
        else:
            parts.append(readings_view.fields(view))
        clear = CLEAR if every_s is not None and sys.stdout.isatty() else ""
        text.show(clear + "".join(parts))


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((140, 40)).columns
