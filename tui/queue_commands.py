# SPDX-License-Identifier: Apache-2.0
"""The verb `queue`: what there is, and for administrators what there shall be.

Prints; what is asked lives in `tui/job_calls.py`. Everything that changes may be repeated: what is
so already is said and is no error.
"""

from __future__ import annotations

from typing import Any

import click

from stoker.tui import tables, units
from stoker.tui.job_commands import call, node_option, output_option, show
from stoker.tui.job_flags import PLACEMENTS
from stoker.tui.quantity import Quantity

ORDERS = ("fifo", "any", "backfill", "conservative", "shortest", "least-attained")
DEVICES = Quantity("N", lambda value: units.milli(value, "a number of devices"))


@click.group("queue")
def queue_command() -> None:
    """Queues: who waits where, what each may hold and has used."""


@queue_command.command("list")
@node_option
@output_option("table")
def queue_list_command(state: str | None, output: tables.Output) -> None:
    """List queues with what they hold, may hold and have used."""
    from stoker.tui import job_calls

    show(tables.QUEUES, call(job_calls.queues(state)), output)


@queue_command.command("set")
@click.argument("name")
@click.option("--parent", default=None, metavar="NAME", help='The queue above; "" for none.')
@click.option("--weight", type=click.IntRange(1, 1_000_000), help="Share against its siblings.")
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default=None,
    help="Who is next within it; a new queue's is backfill.",
)
@click.option(
    "--placement", type=click.Choice(PLACEMENTS), default=None, help="How a node is chosen."
)
@node_option
def queue_set_command(name: str, state: str | None, **fields: Any) -> None:
    """Make a queue, or change it: what is not given stays as it is."""
    from stoker.mesh.wire.schema import QueueSetRequest

    done(state, "queue", "set", QueueSetRequest(queue=name, **fields), f"queue {name}")


@queue_command.command("rm")
@click.argument("name")
@node_option
def queue_rm_command(name: str, state: str | None) -> None:
    """Remove a queue that has no jobs and no queues below it."""
    from stoker.mesh.wire.schema import QueueRemoveRequest

    done(state, "queue", "remove", QueueRemoveRequest(queue=name), f"queue {name}")


@queue_command.command("quota")
@click.argument("name")
@click.option("--gpu-model", "model", default="", metavar="TEXT", help="Of this model; else all.")
@click.option("--guaranteed", type=DEVICES, default="0", help="Devices it gets before others.")
@click.option("--limit", type=DEVICES, default=None, help="Devices it may hold; else no limit.")
@node_option
def queue_quota_command(
    name: str, model: str, guaranteed: int, limit: int | None, state: str | None
) -> None:
    """Set what a queue is guaranteed and may hold; without options the quota is dropped."""
    from stoker.mesh.wire.schema import QueueQuotaRequest

    request = QueueQuotaRequest(
        queue=name, model=model, guaranteed_milli=guaranteed, limit_milli=limit
    )
    done(state, "queue", "quota", request, f"quota of queue {name}")


def done(state: str | None, noun: str, verb: str, request: Any, what: str) -> None:
    """Ask, and say whether anything changed."""
    from stoker.tui import job_calls

    changed = call(job_calls.settle(state, noun, verb, request))
    click.echo(f"{what}: {'done' if changed else 'nothing to change'}")
