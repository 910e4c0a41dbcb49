# SPDX-License-Identifier: Apache-2.0
"""The verb `queue`: lists queues, and changes them for administrators.

A change may be repeated: if there is nothing left to change, the verb says so and succeeds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stoker.tui.commands.replies import call, settle, show_read
from stoker.tui.options import completion, quantity_parser
from stoker.tui.options.quantity import QUEUE_PLACEMENT, Quantity
from stoker.tui.options.verb_options import node_option, output_option, read_options
from stoker.tui.render import nouns, tables

if TYPE_CHECKING:
    from stoker.mesh.client.read_choice import ReadChoice

ORDERS = ("fifo", "any", "backfill", "conservative", "shortest", "least-attained", "fair")
DEVICES = Quantity("N", lambda value: quantity_parser.milli(value, "a number of devices"))


@click.group("queue")
def queue_command() -> None:
    """List and change queues, their order, shares and quotas."""


@queue_command.command("list")
@node_option
@read_options
@output_option("table")
def queue_list_command(state: str | None, output: tables.Output, reads: ReadChoice) -> None:
    """List queues with their jobs, quotas and use."""
    from stoker.tui.calls import cluster_calls

    show_read(nouns.QUEUES, call(cluster_calls.queues(state, reads)), output, reads)


@queue_command.command("set")
@click.argument("name", shell_complete=completion.queues)
@click.option("--parent", default=None, metavar="NAME", help='Parent queue; "" for none.')
@click.option("--weight", type=click.IntRange(1, 1_000_000), help="Share relative to its siblings.")
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default=None,
    help="Order of its jobs; a new queue has backfill.",
)
@click.option(
    "--placement", type=QUEUE_PLACEMENT, default=None, help="Policy for choosing devices."
)
@node_option
def queue_set_command(name: str, state: str | None, **fields: Any) -> None:
    """Create a queue or change it; what is not given stays as it is."""
    from stoker.mesh.wire.schema import QueueSetRequest

    settle(state, "queue", "set", QueueSetRequest(queue=name, **fields), f"queue {name}")


@queue_command.command("rm")
@click.argument("name", shell_complete=completion.queues)
@node_option
def queue_rm_command(name: str, state: str | None) -> None:
    """Remove a queue that has no jobs and no queues below it."""
    from stoker.mesh.wire.schema import QueueRemoveRequest

    settle(state, "queue", "remove", QueueRemoveRequest(queue=name), f"queue {name}")


@queue_command.command("quota")
@click.argument("name", shell_complete=completion.queues)
@click.option("--gpu-model", "model", default="", metavar="TEXT", help="Count only this model.")
@click.option("--guaranteed", type=DEVICES, default="0", help="Devices guaranteed to it.")
@click.option("--limit", type=DEVICES, default=None, help="Most devices it may use.")
@node_option
def queue_quota_command(
    name: str, model: str, guaranteed: int, limit: int | None, state: str | None
) -> None:
    """Set the guarantee and the limit of a queue; with neither, remove its quota."""
    from stoker.mesh.wire.schema import QueueQuotaRequest

    request = QueueQuotaRequest(
        queue=name, model=model, guaranteed_milli=guaranteed, limit_milli=limit
    )
    settle(state, "queue", "quota", request, f"quota of queue {name}")
