# SPDX-License-Identifier: Apache-2.0
"""The verbs `drain` and `undrain`, by which administrators take the work off a node.

`drain` is `node drain --move`, as an operator who knows `kubectl drain` expects of the word. Owns
what every drain says when it was settled: what moves, what stays, and why.
"""

from __future__ import annotations

import sys

import click

from stoker.tui.commands.replies import call, settle
from stoker.tui.options import completion
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option


@click.command("drain")
@click.argument("name", metavar="NODE", shell_complete=completion.nodes)
@click.option("--reason", default="", help="Reason to show with the node.")
@click.option("--grace", "grace_s", type=SPAN, default=None,
              help="Time to save work: 30s. [default: each job's own]")  # fmt: skip
@node_option
def drain_command(name: str, reason: str, grace_s: float | None, state: str | None) -> None:
    """Move a node's jobs to other nodes, and keep new ones off it.

    Short for `stoker node drain NODE --move`: jobs that may run again (--restart, --retries,
    --preemptible) move; the others stay until they end, and the command says which and why.
    """
    settle_drain(state, name, reason, move=True, grace_s=grace_s)


@click.command("undrain")
@click.argument("name", metavar="NODE", shell_complete=completion.nodes)
@node_option
def undrain_command(name: str, state: str | None) -> None:
    """Let jobs onto a drained node again; short for `stoker node undrain NODE`."""
    settle_undrain(state, name)


def settle_drain(
    state: str | None, name: str, reason: str, *, move: bool, grace_s: float | None
) -> None:
    """Drain a node, and say what becomes of its jobs."""
    from stoker.mesh.wire.schema import NodeDrainRequest
    from stoker.tui.calls import cluster_calls
    from stoker.tui.render import drains, text

    request = NodeDrainRequest(node=name, reason=reason, move=move, grace_s=grace_s)
    settle(state, "node", "drain", request, f"drain of {name}")
    row, _ = call(cluster_calls.node(state, name))
    for sentence in drains.sentences(row):
        text.show(text.fitted(sentence, sys.stdout) + "\n")


def settle_undrain(state: str | None, name: str) -> None:
    """End the drain of a node."""
    from stoker.mesh.wire.schema import NodeDrainRequest

    request = NodeDrainRequest(node=name, drain=False)
    settle(state, "node", "drain", request, f"end of the drain of {name}")
