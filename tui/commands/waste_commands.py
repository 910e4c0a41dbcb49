# SPDX-License-Identifier: Apache-2.0
"""The verb `waste`: who holds devices and does not use them.

The requests are in `tui/calls/waste.py`, the columns in `tui/render/tables.py`.
"""

from __future__ import annotations

import click

from stoker.tui.commands.replies import call, show
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables


@click.command("waste")
@click.option("--since", "since_s", type=SPAN, help="Add the jobs that ended in this time: 7d.")
@click.option("--user", default="", metavar="NAME", help="Jobs of this user, for administrators.")
@click.option("--by-user", is_flag=True, help="Add up the jobs of each user.")
@node_option
@output_option("table")
def waste_command(
    *, since_s: float | None, user: str, by_user: bool, state: str | None, output: tables.Output
) -> None:
    """List device time that jobs hold and do not use, the most wasted first.

    Running jobs, from their start up to now; with --since also those that are over.
    """
    import msgspec

    from stoker.tui.calls import waste

    found = call(waste.waste(state, user, since_s))
    rows = waste.by_user(found.jobs) if by_user else found.jobs
    if rows or output not in ("table", "wide"):
        show(nouns.WASTE_USERS if by_user else nouns.WASTE, msgspec.to_builtins(rows), output)
    else:
        click.echo("no job holds a device" + (", nor did one in that time" if since_s else ""))
    if found.cut:
        click.echo(f"stoker: the newest {waste.JOBS_MAX} jobs were looked at, not all", err=True)
    unknown = sum(each.idle_ns is None for each in found.jobs)
    if unknown and output in ("table", "wide"):
        jobs = "1 job" if unknown == 1 else f"{unknown} jobs"
        click.echo(f"stoker: the device time of {jobs} is not known", err=True)
