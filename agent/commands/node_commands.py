# SPDX-License-Identifier: Apache-2.0
"""The verbs of a node's owner: up, down, user, install-service, doctor.

Only `stoker.main` loads this module, when one of them is called, and each verb imports its heavy
parts itself. This module prints; startup, teardown, accounts, units and doctor do the work.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.agent.commands import terminal
from stoker.native import row_forms

if TYPE_CHECKING:
    from stoker.agent.supervise.startup import StartedNode

LINE = 80
"""The columns of a line that may become longer than a terminal."""

state_option = click.option(
    "--state",
    metavar="DIR",
    help="State folder; by default STOKER_STATE, your context's node, your default folder.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(row_forms.FORMS),
    default="table",
    show_default=True,
    help="Output form.",
)


def show_rows(plural: str, name: str, rows: Sequence[row_forms.Row], form: row_forms.Form) -> bool:
    """Print rows in a form for programs; return False for a form for people, which the verb makes.

    `name` is the field that names a row.
    """
    if form in ("table", "wide"):
        return False
    click.echo(row_forms.rendered(plural, name, rows, form), nl=False)
    return True


def parse_size(text: str) -> int:
    """Return the bytes of `64MiB`, `2GB` or `65536`; BadParameter for other text."""
    units = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    units |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
    units |= {"KB": 10**3, "MB": 10**6, "GB": 10**9}
    number = text.strip().rstrip("BKMGi")
    unit = text.strip()[len(number) :]
    if not number.isascii() or not number.isdigit() or unit not in units:
        raise click.BadParameter(f"{text!r} is not a size such as 64MiB")
    return int(number) * units[unit]


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else parse_size(value)


@click.command("up")
@state_option
@click.option("--foreground", is_flag=True, help="Stay in the foreground, for systemd.")
@click.option(
    "--port", type=click.IntRange(1, 65535), metavar="N", help="Broker port on 127.0.0.1."
)
@click.option("--beside", is_flag=True, help="Start even if another node runs on this host.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="K=V",
    help='Label, kept until changed; "" for none.',
)
@click.option("--root-jobs-as", metavar="USER", help="Run root's jobs as this Unix user.")
@click.option(
    "--metrics",
    metavar="ADDR:PORT",
    help='Metrics page, kept until changed; "off"; "" for config.toml.',
)
@click.option(
    "--log-max-bytes",
    metavar="SIZE",
    callback=_size,
    help="Log size of one process.  [default: 64MiB]",
)
def up_command(
    *,
    state: str | None,
    foreground: bool,
    port: int | None,
    beside: bool,
    root_jobs_as: str | None,
    labels: tuple[str, ...],
    metrics: str | None,
    log_max_bytes: int | None,
) -> None:
    """Start a node: broker, scheduler, agent. The first start makes keys and settings.

    What no option says is as config.toml has it: `stoker config print`.

    One node per host is enough: a second one starts only with --beside, or in a folder that
    --state or STOKER_STATE names.
    """
    from stoker.agent.supervise import other_nodes, target_node
    from stoker.agent.supervise.start_options import StartOptions
    from stoker.agent.supervise.startup import start

    where = target_node.to_start(state, beside=beside)
    others = other_nodes.check(where, wanted=beside or target_node.is_named(state))
    folder = str(where.root)
    started = start(
        StartOptions(folder, foreground, port, root_jobs_as, labels, log_max_bytes, metrics)
    )
    _print_started(started)
    for other in others:
        click.echo(f"beside it runs {other.text}\n  {other.way}")


def _print_started(started: StartedNode) -> None:
    from stoker.agent.state import gossip_files
    from stoker.agent.supervise import target_node

    adopted = started.adopted
    if started.cluster.waits:
        _print_waiting(started)
        return
    if started.waits:
        _print_away(started)
        return
    verb = "goes on" if adopted else "is up"
    click.echo(f"stoker {verb}: {started.url}")
    click.echo(f"  node {started.cluster.node}, supervisor pid {started.pid}")
    click.echo(f"  state {started.state.root}")
    if adopted:
        click.echo(f"  adopted: {', '.join(adopted)}")
    if started.jobs_as:
        click.echo(f"  {started.jobs_as}")
    lack = gossip_files.lack(started.state)
    if lack and not gossip_files.unwanted(started.state, started.cluster):
        click.echo(f"stoker: this host is no member of the gossip mesh: {lack}", err=True)
    click.echo("next:")
    if not target_node.is_usual(started.state):
        click.echo(f"  export STOKER_STATE={started.state.root}")
    joined = started.cluster.joined  # its users have their keys from where the cluster was made
    if started.cluster.several:
        click.echo("  stoker cluster status")
    for command in ("stoker run -- echo hello", "stoker jobs", "stoker down")[2 * joined :]:
        click.echo(f"  {command}")


def _print_waiting(started: StartedNode) -> None:
    from stoker.agent.supervise import target_node

    cluster, where = started.cluster, started.state
    click.echo(f"stoker waits for the {cluster.wanted} servers of its cluster: {cluster.url}")
    click.echo(f"  server {cluster.node}, supervisor pid {started.pid}")
    click.echo(f"  state {where.root}")
    click.echo("it begins by itself once the first server has all of them; next:")
    if cluster.is_first:
        token = target_node.call(where, "cluster token --server")
        click.echo(f"  {token}    # for each of the others")
    click.echo(f"  {target_node.call(where, 'cluster status')}    # once it has begun")


def _print_away(started: StartedNode) -> None:
    from stoker.agent.supervise import target_node

    click.echo(f"stoker waits for its cluster at {started.url}: {started.waits}")
    click.echo(f"  node {started.cluster.node}, supervisor pid {started.pid}")
    click.echo(f"  state {started.state.root}")
    click.echo("it takes jobs by itself once a scheduler answers; next:")
    doctor = target_node.call(started.state, "doctor")
    click.echo(f"  {doctor}    # on this host: what it waits for")


@click.command("down")
@state_option
def down_command(state: str | None) -> None:
    """Stop a node and its jobs; only the state folder stays."""
    from stoker.agent.state.state_folder import check_private, disk_errors
    from stoker.agent.supervise import target_node
    from stoker.agent.supervise.teardown import finish

    where = target_node.own(state, "down")
    with disk_errors():
        if where.root.exists():
            check_private(where.root)
        ended = finish(where)
    if not ended.anything:
        click.echo(f"nothing runs in {where.root}")
    else:
        stopped = f"stopped: {', '.join(ended.processes) or 'no process'}"
        click.echo(click.wrap_text(stopped, LINE, subsequent_indent="  "))
        if ended.jobs:
            click.echo(f"ended {ended.jobs} job{'s' if ended.jobs > 1 else ''} that still ran")
    for text in ended.left:
        click.echo(f"stoker: left behind: {text}", err=True)
    sys.exit(1 if ended.left else 0)


@click.group("user")
def user_command() -> None:
    """Give local users keys, list users, remove a user's access."""


@user_command.command("add")
@click.argument("name")
@state_option
@click.option("--unix-user", metavar="USER", help="Run the jobs as this user; default: NAME.")
@click.option(
    "--key-out", metavar="FILE", type=click.Path(path_type=Path), help="Write the key to this file."
)
def user_add_command(
    name: str, state: str | None, unix_user: str | None, key_out: Path | None
) -> None:
    """Make a key for NAME and write it, with a context that uses it, into their home."""
    from stoker.agent.commands.user_accounts import add
    from stoker.agent.supervise.target_node import own_node

    added = add(own_node(state, "user"), name, unix_user, key_out)
    click.echo(f"{added.name} may submit; their jobs run as {added.unix_user}")
    click.echo(f"  key      {added.key}")
    if added.context is not None:
        click.echo(f"  context  {added.context} (`stoker jobs` works for them at once)")
    if not added.live:
        click.echo("  the node does not run: the key works from the next `stoker up` on")


@user_command.command("list")
@state_option
@output_option
def user_list_command(state: str | None, output: row_forms.Form) -> None:
    """List the users who may submit, and the Unix users that run their jobs."""
    from stoker.agent.commands.user_accounts import listed
    from stoker.agent.supervise.target_node import own_node

    rows = listed(own_node(state, "user"))
    if not show_rows("users", "name", rows, output):
        cells = [("USER", "JOBS RUN AS", "ADMIN", "KEY")]
        for row in rows:
            admin = "yes" if row["admin"] else "no"
            name, unix, key = (str(row[each]) for each in ("name", "unix_user", "key"))
            cells.append((name, unix, admin, key))
        for line in terminal.table(cells, cut=3):
            click.echo(line)


@user_command.command("remove")
@click.argument("name")
@state_option
def user_remove_command(name: str, state: str | None) -> None:
    """Remove the access of NAME; their jobs go on."""
    from stoker.agent.commands.user_accounts import remove
    from stoker.agent.supervise.target_node import own_node

    live = remove(own_node(state, "user"), name)
    click.echo(f"{name} may not submit any more" + ("" if live else " (the node does not run)"))


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script: eval "$(stoker completion bash)" in ~/.bashrc."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root().command
    click.echo(found(root, {}, "stoker", "_STOKER_COMPLETE").source())


@click.command("install-service")
@click.option("--user", is_flag=True, help="Write a unit of this user, not of the system.")
@click.option("--dry-run", is_flag=True, help="Print the unit and write nothing.")
@click.option(
    "--root", type=click.Path(path_type=Path), help="Prepend this to the path, for packages."
)
def install_service_command(user: bool, dry_run: bool, root: Path | None) -> None:
    """Write a hardened systemd unit, which stays disabled until you enable it."""
    from stoker.agent.supervise.systemd_units import install, unit

    wanted = unit(user=user, root=root.absolute() if root else None)
    if dry_run:
        click.echo(f"# {wanted.path}\n{wanted.text}", nl=False)
        return
    written = install(wanted)
    click.echo(f"{wanted.path}: {'written' if written else 'unchanged'}, not enabled")
    click.echo(f"next:\n  {wanted.enable}")


@click.command("doctor")
@state_option
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    help="Write FILE as well, a tar.gz to share: this report, settings, logs, lists of the node, "
    "with stand-ins for names and without secrets.",
    metavar="FILE",
)
@output_option
def doctor_command(state: str | None, bundle: Path | None, output: row_forms.Form) -> None:
    """Check this machine. Exit code: 0 everything works, 1 warnings, 2 failures."""
    import msgspec

    from stoker.agent.commands.doctor import exit_code, lines, report, summary
    from stoker.agent.state.state_folder import locate

    checks = report(locate(state))
    rows = [msgspec.to_builtins(check) for check in checks]
    if bundle is not None:
        from stoker.agent.commands import doctor_bundle

        click.echo(doctor_bundle.write(locate(state), bundle, rows), err=True)
    if not show_rows("checks", "id", rows, output):
        click.echo(terminal.wrapped(summary(checks)))
        for line in lines(checks, terminal.columns()):
            click.echo(terminal.wrapped(line, 6))
    sys.exit(exit_code(checks))
