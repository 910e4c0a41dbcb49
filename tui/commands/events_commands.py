# SPDX-License-Identifier: Apache-2.0
"""The verb `events`: looks back on kept telemetry, and follows it.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.mesh.client.kept_telemetry import Told
    from stoker.mesh.wire.telemetry import TelemetryKind

KINDS = ("events", "decisions", "outcomes", "kernels", "observations", "alerts")
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
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "jsonl")),
    default="table",
    show_default=True,
    help="Output form.",
)
@node_option
def events_command(
    since: float, kinds: tuple[str, ...], *, job: int | None, follow: bool, output: str,
    state: str | None,
) -> None:  # fmt: skip
    """Tell what happened in the past minutes, and with --follow what happens now."""
    chosen = dict.fromkeys(each for kind in kinds for each in _members(kind))
    asyncio.run(_events(state, tuple(chosen), since, job, follow=follow, lines=output == "jsonl"))


def _members(kind: str) -> tuple[TelemetryKind, ...]:
    return JOB_KINDS if kind == "jobs" else (kind,)  # type: ignore[return-value]


async def _events(
    state: str | None,
    kinds: tuple[TelemetryKind, ...],
    since_s: float,
    job: int | None,
    *,
    follow: bool,
    lines: bool,
) -> None:
    from stoker.mesh.client.client import Client
    from stoker.tui.calls import telemetry_calls

    async with Client.open(state) as client:
        async for told in telemetry_calls.told(client, kinds, since_s, follow=follow):
            if told.lost:
                click.echo(_lost(told), err=True)
            elif job is None or told.row.get("job") == job:
                text.show((_json(told) if lines else _line(told)) + "\n")


def _line(told: Told) -> str:
    from stoker.tui.render import telemetry_lines

    return telemetry_lines.line(told.kind, told.t_ns, told.row)


def _lost(told: Told) -> str:
    from stoker.tui.render import telemetry_lines

    return telemetry_lines.lost(told.t_ns, told.kind, told.lost)


def _json(told: Told) -> str:
    import msgspec

    row = {"schema": "stoker/v1", "kind": told.kind, "kept_ns": told.t_ns, **told.row}
    return msgspec.json.encode(row).decode()
