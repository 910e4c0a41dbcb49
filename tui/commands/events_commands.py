# SPDX-License-Identifier: Apache-2.0
"""The verb `events`: looks back on kept telemetry, and follows it.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stoker.native.errors import BadRequest
from stoker.tui.commands.replies import call, show
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import tables, text
from stoker.tui.render.columns import Noun

if TYPE_CHECKING:
    from stoker.mesh.client.kept_telemetry import Told
    from stoker.mesh.wire.telemetry import TelemetryKind
    from stoker.tui.render.columns import Row

KINDS = ("events", "decisions", "outcomes", "kernels", "observations", "alerts")
EVENTS = Noun("events", "about", ())
WHOLE = ("json", "csv")
"""The output forms that are printed once everything is known."""
JOB_KINDS = KINDS[:4]
"""The kinds that users read about their own jobs; the others are for administrators."""


@click.command("events")
@click.option(
    "--since", type=SPAN, default="10m", show_default=True, help="How far to look back, as 5m."
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice((*KINDS, "jobs")),
    default=("events",),
    help="What to read; may be repeated. `jobs`: the first four. Default: events.",
)
@click.option("--job", type=int, default=None, help="Only what is about this job.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on.")
@node_option
@output_option("table")
def events_command(
    since: float, kinds: tuple[str, ...], *, job: int | None, follow: bool,
    output: tables.Output,
    state: str | None,
) -> None:  # fmt: skip
    """Tell what happened in the past minutes, and with --follow what happens now."""
    chosen = dict.fromkeys(each for kind in kinds for each in _members(kind))
    if follow and output in WHOLE:
        raise BadRequest(f"-o {output} needs an end, which --follow has not: use -o jsonl")
    rows, told = call(_events(state, tuple(chosen), since, job, follow=follow, output=output))
    if output in WHOLE:
        show(EVENTS, rows, output)
    elif not told and output in ("table", "wide"):
        text.tell(f"nothing of that was told in the past {since:g} s; --since looks further back")


def _members(kind: str) -> tuple[TelemetryKind, ...]:
    return JOB_KINDS if kind == "jobs" else (kind,)  # type: ignore[return-value]


async def _events(
    state: str | None,
    kinds: tuple[TelemetryKind, ...],
    since_s: float,
    job: int | None,
    *,
    follow: bool,
    output: tables.Output,
) -> tuple[list[Row], int]:
    """Print what was told, line by line; return it as rows for a form that needs all of them, and
    the number of lines."""
    from stoker.mesh.client.client import Client
    from stoker.tui.calls import telemetry_calls

    kept: list[Row] = []
    lines = 0
    async with Client.open(state) as client:
        async for told in telemetry_calls.told(client, kinds, since_s, follow=follow):
            if told.lost:
                click.echo(text.fitted(_lost(told), sys.stderr), err=True)
                lines += 1
            elif job is not None and told.row.get("job") != job:
                continue
            elif output in WHOLE:
                kept.append(_row(told))
            elif output in ("table", "wide"):
                line = _line(told)
                text.show(f"{line if output == 'wide' else text.fitted(line, sys.stdout)}\n")
                lines += 1
            else:
                row = _about(told) if output == "name" else _row(told)
                text.show(tables.render(EVENTS, [row], output))
    return kept, lines


def _line(told: Told) -> str:
    from stoker.tui.render import telemetry_lines

    return telemetry_lines.line(told.kind, told.t_ns, told.row)


def _lost(told: Told) -> str:
    from stoker.tui.render import telemetry_lines

    return telemetry_lines.lost(told.t_ns, told.kind, told.lost)


def _row(told: Told) -> Row:
    return {"kind": told.kind, "kept_ns": told.t_ns, **told.row}


def _about(told: Told) -> Row:
    """Return what a row is about, as other verbs take it: a job, a device or a node."""
    row = told.row
    place = ":".join(str(row[key]) for key in ("node", "device") if row.get(key))
    return {"about": f"j{row['job']}" if row.get("job") else place or told.kind}
