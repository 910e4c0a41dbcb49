# SPDX-License-Identifier: Apache-2.0
"""The verbs of `cluster` for owners of nodes: init, token, join, keys, revoke, rotate, export,
replace.

Only the group `stoker cluster` loads this module. `agent/supervise/broker_address.py` and
`agent/join` do the work. Owns that a join token is shown once, on standard output, and in no
message.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

import click

from stoker.agent.commands.node_commands import output_option, show_rows, state_option
from stoker.mesh.connection.context import LOOPBACK
from stoker.native.row_forms import Form


@click.command("init")
@state_option
@click.option(
    "--address",
    metavar="ADDR",
    default=LOOPBACK,
    show_default=True,
    help="Own IPv4 address at which the broker takes other hosts, with TLS alone.",
)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port at that address.")
@click.option("--name", metavar="NAME", default="", help="Name of a new node; default: the host's.")
@click.option(
    "--servers",
    type=click.Choice(["1", "3", "5"]),
    help="Servers of a new cluster, which begins once all of them have joined; default: 1.",
)
def cluster_init_command(
    *, state: str | None, address: str, port: int | None, name: str, servers: str | None
) -> None:
    """Let other hosts reach this node's broker, from the next `stoker up` on.

    With --servers 3 it is the first of three servers, each with broker and scheduler and a copy of
    the log, so that the cluster outlives any one of them. This is chosen before the first `up`; one
    server whose `init` came before its first `up` becomes three later while jobs run.

    Nothing of an existing node is lost: its log, keys, users and jobs stay. Its broker's port stays
    too from then on, because other hosts know it. With the default address the broker takes this
    host alone again.
    """
    from stoker.agent.supervise import target_node
    from stoker.agent.supervise.broker_address import init

    where = target_node.own(state, "cluster init")
    made = init(where, address, port, name, int(servers) if servers else None)
    reach = f"other hosts reach it at {made.url}" if made.address else "it takes this host alone"
    click.echo(f"node {made.node} of cluster {made.cluster}: {reach}")
    if made.address:
        click.echo(f"  its certificate, which they pin: {where.broker_certificate}")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")
    if made.waits:
        click.echo(f"then, for each of the {made.wanted - 1} other servers:")
        click.echo(f"  {target_node.call(where, 'cluster token --server')}")


_UNITS = {"m": 60, "h": 3600, "d": 86_400}


def parse_life(text: str) -> int:
    """Return the seconds of `30m`, `1h` or `7d`; BadParameter for other text."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 6:
        raise click.BadParameter(f"{text!r} is not a time such as 30m, 1h or 7d")
    return int(number) * _UNITS[unit]


def _life(ctx: click.Context, param: click.Parameter, value: str) -> int:
    return parse_life(value)


@click.command("token")
@state_option
@click.option(
    "--expires",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=_life,
    help="Time in which the token must be used, such as 30m, 1h or 7d.",
)
@click.option("--server", is_flag=True, help="The host becomes a server beside this one.")
def cluster_token_command(*, state: str | None, expires: int, server: bool) -> None:
    """Print a join token, by which one host may become a node or a server of this cluster.

    Whoever has the token can use it, once: carry it over a way that you trust. It is shown now and
    never again.
    """
    from stoker.agent.join.token_issue import issue
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "cluster token")
    token = issue(where, expires, int(time.time()), server=server)
    click.echo(token.text)
    until = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(time.time() + expires))
    what = "server" if server else "host"
    click.echo(f"good for one {what} until {until}; on that host:", err=True)
    click.echo("  stoker cluster join      # reads the token from its input", err=True)


@click.command("join")
@click.argument("token", default="-")
@state_option
@click.option("--token-file", metavar="FILE", type=click.Path(path_type=Path), help="Read it here.")
@click.option("--name", metavar="NAME", default="", help="Short name; default: the host's.")
@click.option(
    "--address",
    metavar="ADDR",
    default="",
    help="Own IPv4 address of a server; default: the one from which it reaches the first one.",
)
def cluster_join_command(
    *, token: str, state: str | None, token_file: Path | None, name: str, address: str
) -> None:
    """Make this host a node, or a server, of the cluster that printed TOKEN.

    Without TOKEN, or with -, it is read from the input: other users of a host can see arguments.
    A node gets another name if one of that name has joined before. `stoker up` then starts it.
    """
    from stoker.agent.join.newcomer import join
    from stoker.agent.supervise import target_node
    from stoker.mesh.identity import join_token

    where = target_node.own(state, "cluster join")
    made = join(where, join_token.parse(_token(token, token_file)), name, address)
    if made.several:
        click.echo(f"server {made.node} of cluster {made.cluster}: others reach it at {made.url}")
    else:
        click.echo(f"node {made.node} of cluster {made.cluster}: its broker is {made.url}")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")


@click.command("keys")
@state_option
@output_option
def cluster_keys_command(*, state: str | None, output: Form) -> None:
    """List the keys that the broker takes, and those that were revoked; never their secrets."""
    import msgspec

    from stoker.agent.join import key_list
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "cluster keys")
    rows = key_list.listed(where, _seen(str(where.root)))
    if not show_rows("keys", "name", [msgspec.to_builtins(row) for row in rows], output):
        for line in key_list.lines(rows):
            click.echo(line)


def _seen(root: str) -> dict[str, int]:
    """Return when each node was heard last; nothing, and a line on stderr, if nobody says."""
    import asyncio

    from stoker.mesh.client.client import Client
    from stoker.native.errors import StokerError

    async def heard() -> dict[str, int]:
        async with Client.open(root, patience_s=SEEN_S) as client:
            nodes = (await client.nodes()).nodes
            return {each.node: each.observed_ns for each in nodes if each.observed_ns is not None}

    try:
        return asyncio.run(heard())
    except StokerError as error:
        click.echo(f"stoker: when a node was heard last is not known: {error.message}", err=True)
        return {}


def _counting(root: str) -> set[str] | None:
    """Return the keys of the schedulers in the roster, as the leader knows them; None without."""
    import asyncio

    from stoker.mesh.client.client import Client
    from stoker.native.errors import StokerError

    async def roster() -> set[str]:
        async with Client.open(root, patience_s=SEEN_S) as client:
            return {each.public_key for each in (await client.cluster()).schedulers}

    try:
        return asyncio.run(roster())
    except StokerError:
        return None


def _drain(root: str, name: str, why: str) -> bool:
    """Keep new jobs off a node; False if the scheduler does not do that now."""
    import asyncio

    from stoker.mesh.client.client import Client
    from stoker.mesh.wire.schema import NodeDrainRequest
    from stoker.native.errors import StokerError

    async def drained() -> bool:
        async with Client.open(root, patience_s=SEEN_S) as client:
            await client.settle("node", "drain", NodeDrainRequest(node=name, reason=why))
            return True

    try:
        return asyncio.run(drained())
    except StokerError:
        return False


SEEN_S = 2.0
"""The longest wait for the scheduler, whose answer these verbs can do without."""


@click.command("revoke")
@click.argument("name")
@state_option
@click.option("--kind", type=click.Choice(["node", "user"]), help="Needed if both have this name.")
@click.option("--reason", default="on request", show_default=True, help="Reason to show.")
def cluster_revoke_command(
    *, name: str, state: str | None, kind: Literal["node", "user"] | None, reason: str
) -> None:
    """Revoke the key of the node or user NAME: its connections are cut, and it gets no new ones.

    Nobody else notices. A server that counts keeps its keys: `cluster remove` comes first. Jobs of
    a user go on. A node is drained, too, and its jobs follow the rules
    of leases, as if its network had failed. It may join again with a new token; a user gets a key
    by `user add`.
    """
    from stoker.agent.join import key_revocation
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "cluster revoke")
    holder = key_revocation.holder(where, name, kind, lambda: _counting(str(where.root)))
    live = key_revocation.revoke(where, holder, reason, int(time.time()))
    rest = "its connections are cut" if live else "the broker does not run"
    click.echo(f"the key of {holder.kind} {holder.name} is revoked: {rest}")
    if holder.kind == "node":
        drained = live and _drain(str(where.root), name, f"its key is revoked: {reason}")
        still = "" if drained else f"stoker node drain {name}; "
        click.echo(f"next, to give its jobs up:\n  {still}stoker node remove {name} --force")


@click.command("rotate")
@state_option
@click.option("--gossip", is_flag=True, help="Replace the key of the gossip mesh, for all hosts.")
@click.option("--despite-failed", is_flag=True, help="With --gossip, even if members are failed.")
def cluster_rotate_command(*, state: str | None, gossip: bool, despite_failed: bool) -> None:
    """Give this node, which joined a cluster, another key; its jobs and its agent go on.

    The private half never leaves this host. The former key is given up. If this is interrupted,
    call it again.

    With --gossip, on the host where the cluster was made, all hosts get another key of the gossip
    mesh, in three steps; the verb follows them, and names who still lacks the key.
    """
    from stoker.agent.join.key_rotation import rotate
    from stoker.agent.supervise import target_node

    if despite_failed and not gossip:
        raise click.UsageError("--despite-failed goes with --gossip")
    if gossip:
        from stoker.agent.commands.gossip_commands import replace_keys

        replace_keys(target_node.own(state, "cluster rotate"), despite_failed=despite_failed)
        return
    node, public = rotate(target_node.own(state, "cluster rotate"))
    click.echo(f"node {node} has the key {public}; its former key is given up")


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@state_option
def cluster_export_command(*, file: Path, state: str | None) -> None:
    """Write what makes this server to FILE, from which another host can take its place.

    FILE has private keys: keep it as safe as the server itself. It has no log and no jobs, so it
    stays good until keys, addresses or, on the first server, users and nodes change.
    """
    from stoker.agent.join import server_export
    from stoker.agent.supervise import target_node

    made = server_export.write(target_node.own(state, "cluster export"), file)
    click.echo(f"server {made.node} is in {file}, with its private keys")
    click.echo(f"if its host is lost, on another one with its address:\n  {_REPLACES}{file}")


_REPLACES = "stoker cluster replace "


@click.command("replace")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@state_option
def cluster_replace_command(*, file: Path, state: str | None) -> None:
    """Make this host the server that FILE was exported from, whose own host is lost.

    This host needs its address. Refused while that server answers, or while so few others do that
    it could not learn what it had acknowledged. The log and the users come from the others.
    """
    from stoker.agent.join import host_replacement, server_export
    from stoker.agent.supervise import target_node

    where, found = target_node.own(state, "cluster replace"), server_export.read(file)
    made = host_replacement.replace(where, found)
    click.echo(f"this host is server {made.node} of cluster {made.cluster} now, at {made.url}")
    click.echo("  the former host may never start its folder again: it would vote as this one does")
    if made.is_first:
        day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.made_s))
        click.echo(f"  users, nodes and revoked keys are those of {day}: before `up`, change again")
        click.echo("  what was changed since, above all `stoker cluster revoke`")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")


def _token(given: str, file: Path | None) -> str:
    """Return the text of a token from the argument, the file, or the input."""
    if file is not None:
        if given != "-":
            raise click.UsageError("give TOKEN or --token-file, not both")
        try:
            with file.open(encoding="ascii", errors="replace") as opened:
                return opened.read(_TEXT_CHARS_MAX)
        except OSError as error:
            raise click.UsageError(f"{file}: {error.strerror}") from None
    if given != "-":
        return given
    if sys.stdin.isatty():
        asked: str = click.prompt("join token", hide_input=True)
        return asked
    return sys.stdin.read(_TEXT_CHARS_MAX)


_TEXT_CHARS_MAX = 4096
"""The most that is read where a token should be."""
