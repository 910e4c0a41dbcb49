# SPDX-License-Identifier: Apache-2.0
"""The verb `top`.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from stoker.tui.options.verb_options import node_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.mesh.client.client import Client
    from stoker.tui.top.top_model import ClusterAnswers, Frame

TOP_JOBS = 500
"""The number of jobs that the live view reads at each refresh."""


@click.command("top")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two frames.",
)
@click.option("--once", is_flag=True, help="Print one frame as text and exit.")
@node_option
def top_command(interval: float, once: bool, state: str | None) -> None:
    """Watch nodes, devices, jobs and kernels live; `q` quits."""
    asyncio.run(_top(state, interval, once or not sys.stdout.isatty()))


async def _top(state: str | None, interval: float, once: bool) -> None:
    from stoker.mesh.client.client import Client
    from stoker.tui.top.top_model import frame, plain

    async with Client.open(state, patience_s=1.0) as client:
        if once:
            text.show(plain(frame(await _answers(client))) + "\n")
            return
        from stoker.tui.top.screen import Top

        async def read() -> Frame:
            return frame(await _answers(client))

        await Top(read, period_s=interval).run_async()


async def _answers(client: Client) -> ClusterAnswers:
    from stoker.mesh.wire.schema import ListRequest
    from stoker.tui.top.top_model import ClusterAnswers

    nodes, devices, jobs, kernels = await asyncio.gather(
        client.nodes(), client.devices(), client.list(ListRequest(limit=TOP_JOBS)), client.kernels()
    )
    return ClusterAnswers(nodes.nodes, devices.devices, jobs.jobs, kernels.kernels, time.time_ns())
