# SPDX-License-Identifier: Apache-2.0
"""The verbs of a node's owner: up, down, user, install-service, doctor.

Loaded by `stoker.main` alone and only when one of them is called; everything heavy is imported
inside the verb. Owns what they print; what they do is in startup, teardown, accounts, service and
doctor.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stoker.agent.startup import Started
    from stoker.agent.state import State

state_option = click.option(
    "--state", metavar="DIR", help="State folder; else STOKER_STATE, else this user's default."
)


def parse_size(text: str) -> int:
    """`64MiB`, `2GB` or `65536` in bytes; BadParameter for anything else."""
    units = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    units |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    units |= {"KB": 10**3, "MB": 10**6, "GB": 10**9}
    number = text.strip().rstrip("BKMGi")
    unit = text.strip()[len(number) :]
    if not number.isascii() or not number.isdigit() or unit not in units:
        raise click.BadParameter(f"{text!r} is not a size such as 64MiB")
    return int(number) * units[unit]


def _size(ctx: click.Context, param: click.Parameter, value: str) -> int:
    return parse_size(value)


@click.command("up")
@state_option
@click.option("--foreground", is_flag=True, help="Stay, as systemd and containers want it.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the broker on loopback.")
@click.option("--root-jobs-as", metavar="USER", help="Unix user that root's jobs run as.")
@click.option(
    "--log-max-bytes", default="64MiB", show_default=True, callback=_size, help="Per process."
)
def up_command(
    state: str | None,
    foreground: bool,
    port: int | None,
    root_jobs_as: str | None,
    log_max_bytes: int,
) -> None:
    """Start a node: broker, scheduler, agent. The first start makes keys and settings."""
    from stoker.agent.startup import Options, start

    started = start(Options(state, foreground, port, root_jobs_as, log_max_bytes))
    _print_started(started)


def _print_started(started: Started) -> None:
    verb = "goes on" if started.adopted else "is up"
    click.echo(f"stoker {verb}: {started.url}")
    click.echo(f"  node {started.cluster.node}, supervisor pid {started.pid}")
    click.echo(f"  state {started.state.root}")
    if started.adopted:
        click.echo(f"  adopted: {', '.join(started.adopted)}")
    if started.jobs_as:
        click.echo(f"  {started.jobs_as}")
    click.echo("next:")
    if not _is_default(started.state):
        click.echo(f"  export STOKER_STATE={started.state.root}")
    for command in ("stoker run -- echo hello", "stoker jobs", "stoker down"):
        click.echo(f"  {command}")


def _is_default(state: State) -> bool:
    from stoker.mesh import context

    return state.root == context.default_state().resolve()


@click.command("down")
@state_option
def down_command(state: str | None) -> None:
    """End a node and its jobs; leaves the state folder and nothing else."""
    from stoker.agent.state import check_private, locate
    from stoker.agent.teardown import finish

    where = locate(state)
    if where.root.exists():
        check_private(where.root)
    ended = finish(where)
    if not ended.anything:
        click.echo(f"nothing runs in {where.root}")
    else:
        click.echo(f"stopped: {', '.join(ended.processes) or 'no process'}")
        if ended.jobs:
            click.echo(f"ended {ended.jobs} job{'s' if ended.jobs > 1 else ''} that still ran")
    for text in ended.left:
        click.echo(f"stoker: left behind: {text}", err=True)
    sys.exit(1 if ended.left else 0)
