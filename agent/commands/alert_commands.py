# SPDX-License-Identifier: Apache-2.0
"""`stoker alerts`: what fires on this node, what fired, and that somebody has seen it.

It means the same node as this user's other commands; alerts name the jobs of all users, so they are
its owner's. Administrators read those of all nodes with `stoker events --kind alerts`.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from stoker.agent.commands.node_commands import output_option, show_rows, state_option
from stoker.native import row_forms
from stoker.native.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stoker.agent.alerts.alert import Alert
    from stoker.agent.alerts.alert_files import AlertStatus
    from stoker.agent.alerts.judge import AlertBook
    from stoker.agent.state.state_folder import StateFolder
    from stoker.native.row_forms import Form

STALE_INTERVALS = 3
WHY_MAX = 200
HOUR_S, DAY_S = 3600, 86_400


@click.group("alerts", invoke_without_command=True)
@state_option
@output_option
@click.pass_context
def alerts_command(context: click.Context, state: str | None, output: Form) -> None:
    """List the alerts of this node that fire, and its rules that watch nothing.

    Rules are `[[alert]]` tables of config.toml.
    """
    if context.invoked_subcommand is not None:
        return
    where = _own(state)
    status, book = _found(where)
    if _printed(book.firing, output, status):
        return
    _print_table(book.firing, "no alert fires")
    for line in _notes(status, where):
        click.echo(line)


@alerts_command.command("history")
@state_option
@output_option
def history_command(state: str | None, output: Form) -> None:
    """List the alerts that were resolved, the newest first."""
    status, book = _found(_own(state))
    ended = tuple(reversed(book.history))
    if not _printed(ended, output, status):
        _print_table(ended, "no alert was resolved")


def _offered(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Offer a shell the alerts that fire and that nobody has seen, the newest first."""
    from click.shell_completion import CompletionItem

    try:
        _, book = _found(_own(context.params.get("state")))
    except Exception:  # in the middle of a line nobody can do anything about it
        return []
    unseen = [alert for alert in reversed(book.firing) if alert.acknowledged is None]
    offers = [(f"a{alert.id}", f"{alert.rule}: {alert.reason}") for alert in unseen]
    offers += [("all", "every one of them")] if unseen else []
    return [
        CompletionItem(word, help=_clean(said)) for word, said in offers if word.startswith(begun)
    ]


@alerts_command.command("ack")
@click.argument("which", nargs=-1, required=True, metavar="ALERTS", shell_complete=_offered)
@state_option
@click.option("--reason", default="", metavar="TEXT", help="Why it may go on firing.")
def ack_command(which: tuple[str, ...], state: str | None, reason: str) -> None:
    """Say that somebody has seen ALERTS: numbers (`3` or `a3`), names of rules, or `all`."""
    from stoker.agent.alerts import alert_files
    from stoker.agent.alerts.alert import Acknowledgement

    where = _own(state)
    if len(reason) > WHY_MAX or not reason.isprintable():
        raise BadRequest(f"a reason is one line of at most {WHY_MAX} characters")
    status, book = _found(where)
    chosen = _chosen(book.firing, which)
    seen = Acknowledgement(_caller(), time.time_ns(), reason)
    firing = {alert.id for alert in book.firing}
    alert_files.acknowledge(where, firing, {alert.id: seen for alert in chosen})
    for alert in chosen:
        click.echo(f"a{alert.id} {alert.rule}: acknowledged")
    if status is None:
        click.echo("no agent judges alerts now: the next one takes this over")


def _own(state: str | None) -> StateFolder:
    from stoker.agent.supervise.target_node import own_node

    return own_node(state, "alerts")


def _found(where: StateFolder) -> tuple[AlertStatus | None, AlertBook]:
    """Return the newest status, if an agent judges, and the alerts."""
    import msgspec

    from stoker.agent.alerts import alert_answers, alert_files
    from stoker.native.errors import Corrupt

    try:
        return alert_answers.found(where)
    except (OSError, msgspec.MsgspecError) as error:
        raise Corrupt(f"{where.agent / alert_files.BOOK}: {error}", hint="Remove it") from None


def _chosen(firing: Sequence[Alert], words: Sequence[str]) -> list[Alert]:
    found: dict[int, Alert] = {}
    for word in words:
        named = [each for each in firing if word in ("all", str(each.id), f"a{each.id}", each.rule)]
        if not named and word != "all":
            known = ", ".join(f"a{each.id}" for each in firing) or "none"
            raise NotFound(f"no alert {word!r} fires", hint=f"Those that fire: {known}")
        found |= {each.id: each for each in named}
    return list(found.values())


def _notes(status: AlertStatus | None, where: StateFolder) -> list[str]:
    """Return what else there is to say: rules that watch nothing, changes that were lost."""
    if status is None:
        from stoker.agent.supervise import pids

        runs = "agent" in pids.find(where)
        why = "config.toml has no [[alert]]" if runs else "the node is down: stoker up"
        return [f"no agent judges alerts now: {why}"]
    age_s = (time.time_ns() - status.t_ns) / 1e9
    notes = [
        f"rule {_clean(rule.name)} watches nothing: this node has no such series {rule.metric}"
        for rule in status.rules
        if not rule.series
    ]
    if age_s > STALE_INTERVALS * status.interval_s + 1:
        notes.append(f"the last judgement is {_span(age_s)} old")
    lost = {name: n for name, n in status.counters.items() if n and not name.endswith("_told")}
    if lost:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(lost.items()))
        notes.append(f"not told or not kept: {counts}")
    return notes


def _printed(alerts: Sequence[Alert], output: Form, status: AlertStatus | None) -> bool:
    """Print alerts in a form for programs; False if the form is one for people."""
    from stoker.agent.alerts.sinks import row

    rows = [row(alert) for alert in alerts]
    if output != "json":
        named = rows if output != "name" else [{"id": f"a{alert.id}"} for alert in alerts]
        return show_rows("alerts", "id", named, output)
    body: dict[str, Any] = {"schema": row_forms.SCHEMA, "alerts": rows}
    if status is not None:
        rules = [{"name": r.name, "metric": r.metric, "series": r.series} for r in status.rules]
        body |= {"judged_ns": status.t_ns, "rules": rules, "counters": status.counters}
    click.echo(row_forms.one(body), nl=False)
    return True


def _print_table(alerts: Sequence[Alert], nothing: str) -> None:
    """Print two lines for each alert: which and since when, then what and why."""
    if not alerts:
        click.echo(nothing)
        return
    click.echo(f"{'ALERT':<7} {'STATE':<12} {'SINCE':<15} {'LASTED':>7}  RULE")
    for alert in alerts:
        state = "acknowledged" if alert.acknowledged and not alert.resolved_ns else alert.state
        until_ns = alert.resolved_ns or time.time_ns()
        since = datetime.fromtimestamp(alert.fired_ns / 1e9).strftime("%b %d %H:%M:%S")
        lasted = _span((until_ns - alert.fired_ns) / 1e9)
        click.echo(f"{f'a{alert.id}':<7} {state:<12} {since:<15} {lasted:>7}  {_clean(alert.rule)}")
        click.echo(f"        {_clean(alert.said)}")
        click.echo(f"        {_clean(alert.reason)}")
        if alert.acknowledged is not None:
            seen = alert.acknowledged
            why = f": {seen.why}" if seen.why else ""
            click.echo(f"        seen by {_clean(seen.by)}{_clean(why)}")
        if alert.text:
            click.echo(f"        {_clean(alert.text)}")


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 0):.0f}s"
    if seconds < HOUR_S:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / HOUR_S:.0f}h" if seconds < 2 * DAY_S else f"{seconds / DAY_S:.0f}d"


def _caller() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _clean(text: object) -> str:
    """Return a text of others without characters that could move a cursor."""
    return "".join(char if char.isprintable() else "?" for char in str(text))
