# SPDX-License-Identifier: Apache-2.0
"""The verbs `nodes` and `node`: lists nodes, shows one, and changes one for administrators."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from stoker.native.errors import BadRequest
from stoker.tui.commands.drain_commands import settle_drain, settle_undrain
from stoker.tui.commands.replies import call, settle, show, show_one
from stoker.tui.options import completion
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables

NS = 1_000_000_000


@click.command("nodes")
@node_option
@output_option("table")
def nodes_command(state: str | None, output: tables.Output) -> None:
    """List nodes."""
    from stoker.tui.calls import cluster_calls

    show(nouns.NODES, call(cluster_calls.nodes(state)), output)


class NodeGroup(click.Group):
    """A group in which `stoker node NAME` means `stoker node show NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            self._check_name(ctx, args)
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def _check_name(self, ctx: click.Context, args: list[str]) -> None:
        """Fail for a word that was meant as a verb: the name of a node has no further word."""
        if len(args) < 2 or args[1].startswith("-"):
            return
        ctx.fail(f"{args[0]!r} is no verb of `node`: {', '.join(sorted(self.commands))}")


@click.group("node", cls=NodeGroup)
def node_command() -> None:
    """Show a node; label, taint, reserve, drain, evict or remove it."""


@node_command.command("show")
@click.argument("name", shell_complete=completion.nodes)
@click.option("--topology", is_flag=True, help="Show the links between devices, PCIe and NUMA.")
@node_option
@output_option("table")
def node_show_command(name: str, topology: bool, state: str | None, output: tables.Output) -> None:
    """Show a node and its devices; `stoker node NAME` is short for it."""
    from stoker.tui.calls import cluster_calls
    from stoker.tui.render import drains, text
    from stoker.tui.render import topology as matrix

    if topology:
        view, devices = call(cluster_calls.topology(state, name))
        show_one(nouns.TOPOLOGIES, view, output, lambda: matrix.render(view, devices))
        return
    row, devices = call(cluster_calls.node(state, name))
    if output not in ("table", "wide"):
        show(nouns.NODES, [{**row, "devices": devices}], output, alone=True)
        return
    show(nouns.NODES, [row], output)
    text.show("\n")
    show(nouns.DEVICES, devices, output)
    text.show("\n" if row["missing"] or row["drained"] else "")
    if row["drained"]:
        text.show(text.fitted(f"no new jobs: {row['drained']}", sys.stdout) + "\n")
    for sentence in drains.sentences(row):
        text.show(text.fitted(sentence, sys.stdout) + "\n")
    for missing in row["missing"]:
        text.show(text.fitted(f"missing: {missing}", sys.stdout) + "\n")


@node_command.command("label")
@click.argument("name", shell_complete=completion.nodes)
@click.argument("labels", nargs=-1, metavar="KEY=VALUE... KEY-...")
@click.option(
    "--cost", type=click.IntRange(0), default=None, help='Cost, for the placement "cost".'
)
@node_option
def node_label_command(
    name: str, labels: Sequence[str], cost: int | None, state: str | None
) -> None:
    """Set labels that jobs require or avoid; KEY- removes a label."""
    from stoker.mesh.wire.schema import NodeLabelRequest

    put, gone = sorted_out(labels)
    if not (put or gone) and cost is None:
        raise BadRequest("name a label: KEY=VALUE, or KEY- to remove one")
    request = NodeLabelRequest(node=name, labels=put, remove=gone, cost=cost)
    settle(state, "node", "label", request, f"labels of node {name}")


@node_command.command("taint")
@click.argument("name", shell_complete=completion.nodes)
@click.argument("taints", nargs=-1, required=True, metavar="KEY=VALUE... KEY-...")
@node_option
def node_taint_command(name: str, taints: Sequence[str], state: str | None) -> None:
    """Set taints, which only jobs that tolerate them accept; KEY- removes a taint."""
    from stoker.mesh.wire.schema import NodeLabelRequest

    put, gone = sorted_out(taints)
    request = NodeLabelRequest(node=name, taints=put, remove=gone)
    settle(state, "node", "label", request, f"taints of node {name}")


@node_command.command("reserve")
@click.argument("name", shell_complete=completion.nodes)
@click.option("--queue", default="default", show_default=True, help="Queue to reserve it for.")
@click.option("--in", "in_s", type=SPAN, default=None, help="Begin after this time, not now.")
@click.option("--for", "for_s", type=SPAN, default=None, help="Length: 2h.")
@click.option("--end", is_flag=True, help="End the reservation.")
@node_option
def node_reserve_command(
    *,
    name: str,
    queue: str,
    in_s: float | None,
    for_s: float | None,
    end: bool,
    state: str | None,
) -> None:
    """Reserve a node for the jobs of one queue; running jobs continue."""
    from stoker.mesh.wire.schema import NodeReserveRequest

    if end == (for_s is not None):
        raise BadRequest("give --for with a time, or --end")
    begin = time.time_ns() + int((in_s or 0) * NS)
    until = None if for_s is None else begin + int(for_s * NS)
    since = begin if in_s is not None else 0
    request = NodeReserveRequest(node=name, queue=queue, from_ns=since, until_ns=until)
    settle(state, "node", "reserve", request, f"reservation of node {name}")


@node_command.command("drain")
@click.argument("name", shell_complete=completion.nodes)
@click.option("--reason", default="", help="Reason to show with the node.")
@click.option("--move", is_flag=True, help="Move jobs that may run again to other nodes.")
@click.option(
    "--grace", "grace_s", type=SPAN, default=None, help="With --move, time to save work: 30s."
)
@node_option
def node_drain_command(
    name: str, reason: str, move: bool, grace_s: float | None, state: str | None
) -> None:
    """Keep new jobs off a node; running jobs continue.

    With --move, jobs that may run again (--restart, --retries, --preemptible) get their checkpoint
    signal, have their own grace or this one, and run again on other nodes, which costs them no
    retry. The others stay until they end, and the command says which and why.
    """
    settle_drain(state, name, reason, move=move, grace_s=grace_s)


@node_command.command("undrain")
@click.argument("name", shell_complete=completion.nodes)
@node_option
def node_undrain_command(name: str, state: str | None) -> None:
    """Let jobs onto a drained node again."""
    settle_undrain(state, name)


@node_command.command("evict")
@click.argument("name", shell_complete=completion.nodes)
@click.option("--reason", default="", help="Reason to show with the node and its jobs.")
@click.option("--force", is_flag=True, help="Even if its agent is heard.")
@node_option
def node_evict_command(name: str, reason: str, force: bool, state: str | None) -> None:
    """Say that a node's host is lost: its jobs end as lost or run again on other nodes.

    The node is answered nothing until its lease must be over, which takes up to 6 s, so that no
    fenced job runs twice. It stays in the cluster, and takes jobs again once its agent is back and
    nothing is left there of what ran. Nodes whose hosts are dead are evicted without this.
    """
    from stoker.mesh.wire.schema import NodeEvictRequest

    request = NodeEvictRequest(node=name, force=force, reason=reason)
    settle(state, "node", "evict", request, f"eviction of node {name}")


@node_command.command("remove")
@click.argument("name", shell_complete=completion.nodes)
@click.option("--reason", default="", help="Reason to show with the node's jobs.")
@click.option("--force", is_flag=True, help="Give its jobs up, as where its host is lost.")
@node_option
def node_remove_command(name: str, reason: str, force: bool, state: str | None) -> None:
    """Take a drained node out of the cluster for good; its name may be used again.

    What its jobs wrote stays on its host. With --force it may have jobs: they end as lost or run
    again elsewhere, as after an eviction. That takes up to 6 s, in which its lease ends.
    """
    from stoker.mesh.wire.schema import NodeRemoveRequest

    request = NodeRemoveRequest(node=name, force=force, reason=reason)
    settle(state, "node", "remove", request, f"removal of node {name}")


def sorted_out(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words to set and the keys to remove, which end in "-" as in `kubectl label`."""
    gone = tuple(word[:-1] for word in words if word.endswith("-") and "=" not in word)
    put = tuple(word for word in words if not (word.endswith("-") and "=" not in word))
    return put, gone
