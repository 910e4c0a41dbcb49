# SPDX-License-Identifier: Apache-2.0
"""The verbs `devices` and `metrics`: lists of devices and the readings of each.

The requests are in `tui/calls/device_calls.py`, the texts in `tui/render/readings_view.py`.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from stoker.tui.commands.replies import call, show
from stoker.tui.options import completion
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables, text

if TYPE_CHECKING:
    from stoker.mesh.wire.schema import DeviceView

READINGS = nouns.DEVICES._replace(name="device")
TABLE_WITHOUT = ("table", "name")
"""Output forms that need no readings."""


@click.command("devices")
@node_option
@output_option("table")
def devices_command(state: str | None, output: tables.Output) -> None:
    """List devices; wide, json, jsonl and csv include every reading."""
    from stoker.tui.calls import device_calls

    if output in TABLE_WITHOUT:
        show(nouns.DEVICES, call(device_calls.devices(state)), output)
        return
    rows = call(device_calls.read_devices(state))
    if output == "csv":
        rows = [_flat(row) for row in rows]
    show(nouns.DEVICES, rows, output)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """The row with each value as a column such as `fields.power_w`; absent ones are empty."""
    fields = row.pop("fields", {})
    values = {f"fields.{name}": field.get("value") for name, field in fields.items()}
    return {**row, **values}


@click.command("metrics")
@click.argument("device", shell_complete=completion.devices)
@click.option("-w", "--watch", is_flag=True, help="Repeat until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 60),
    default=0.5,
    show_default=True,
    help="Seconds, with -w.",
)
@click.option("--all", "everything", is_flag=True,
              help="Show every field and no history: -o wide.")  # fmt: skip
@node_option
@output_option("table")
def metrics_command(
    *,
    device: str,
    watch: bool,
    every: float,
    everything: bool,
    state: str | None,
    output: tables.Output,
) -> None:
    """Show one device's readings and their past minute.

    DEVICE is an id, the beginning of one, NODE:INDEX or NODE:ID.
    """
    call(_metrics(state, device, every if watch else None, everything, output))


async def _metrics(
    state: str | None, name: str, every_s: float | None, everything: bool, output: tables.Output
) -> None:
    from stoker.tui.calls import device_calls
    from stoker.tui.render import readings_view
    from stoker.tui.render.repaint import Repaint

    paint = Repaint() if every_s is not None and sys.stdout.isatty() else None
    pages = output in ("table", "wide")
    everything = everything or output == "wide"
    history = () if everything and pages else readings_view.FIELDS
    async for device, view in device_calls.metrics(state, name, history, every_s):
        if output == "csv":
            show(READINGS, [_flat(view)], output)
        elif not pages:
            show(READINGS, [view], output, alone=True)
        else:
            columns, rows = shutil.get_terminal_size((140, 40))
            shown = _screen(device, view, columns, everything)
            text.show(paint.over(shown, columns, rows) if paint else shown)


def _screen(device: DeviceView, view: dict[str, Any], columns: int, everything: bool) -> str:
    from stoker.tui.render import readings_view

    head = f"{readings_view.heading(view, device.model)}\n{readings_view.health(device)}"
    if everything:
        return head + readings_view.fields(view)
    return head + readings_view.series(view, columns=columns, unicode=text.encodable(sys.stdout))
