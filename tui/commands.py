# SPDX-License-Identifier: Apache-2.0
"""The verbs that show: top, demo.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import click

from stoker.tui import text
from stoker.tui.job_commands import node_option

PERFETTO = Path("out/demo.perfetto-trace")
TOP_JOBS = 500
"""Jobs that the live view reads at each refresh."""


@click.command("top")
@click.option("--interval", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True)
@click.option("--once", is_flag=True, help="Print one frame as text and end.")
@node_option
def top_command(interval: float, once: bool, state: str | None) -> None:
    """Nodes, devices, jobs and kernels, live; `q` quits."""
    asyncio.run(_top(state, interval, once or not sys.stdout.isatty()))


async def _top(state: str | None, interval: float, once: bool) -> None:
    from stoker.mesh.client.client import Client
    from stoker.mesh.wire.schema import ListRequest
    from stoker.tui.top_model import ClusterAnswers, Frame, frame, plain

    async with Client.open(state, patience_s=1.0) as client:

        async def read() -> Frame:
            nodes, devices, jobs, kernels = await asyncio.gather(
                client.nodes(),
                client.devices(),
                client.list(ListRequest(limit=TOP_JOBS)),
                client.kernels(),
            )
            return frame(
                ClusterAnswers(
                    nodes.nodes, devices.devices, jobs.jobs, kernels.kernels, time.time_ns()
                )
            )

        if once:
            text.show(plain(await read()) + "\n")
            return
        from stoker.tui.top import Top

        await Top(read, period_s=interval).run_async()


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the report.")
@click.option("--keep", is_flag=True, help="Leave the node running and its state folder in place.")
@click.option("--trace", type=click.Choice(["governed", "full"]), default="full", show_default=True)
def demo_command(as_json: bool, keep: bool, trace: str) -> None:
    """Run a traced job end to end on a node of its own, and print the report.

    Exits 0 only if the job succeeded, every kernel launch was counted and nothing is left behind.
    """
    from stoker.tui import demo, report, tables

    done = demo.run(trace=trace, keep=keep, out=PERFETTO)
    if as_json:
        whole = {"schema": tables.SCHEMA, **done.job, "failures": done.failures}
        text.show(tables.render_one(whole))
    else:
        colour, unicode = text.colours(sys.stdout), text.encodable(sys.stdout)
        text.show(report.render(done.job, colour=colour, unicode=unicode) + "\n")
    for failure in done.failures:
        click.echo(f"stoker: {failure}", err=True)
    sys.exit(1 if done.failures else 0)
