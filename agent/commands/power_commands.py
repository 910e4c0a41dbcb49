# SPDX-License-Identifier: Apache-2.0
"""`stoker power`: the status of this node's power loop, and its rules.

It means the same node as this user's other commands (`agent/supervise/target_node.py`); only the
node's owner changes rules. Rules are checked here against the agent's last list of cards, and again
by the agent.
"""

from __future__ import annotations

import time
from typing import Any

import click
import msgspec

from stoker.agent.agent_settings import read_config
from stoker.agent.commands import terminal
from stoker.agent.commands.node_commands import output_option, show_rows
from stoker.agent.power import rules_file, status
from stoker.agent.power.plan.card import PowerCard, PowerRange
from stoker.agent.power.plan.rules import CardRule, PowerRules, check
from stoker.agent.power.setters import record
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise.target_node import ForeignNode, call, node, own, require
from stoker.native import row_forms
from stoker.native.errors import BadRequest, NotFound, Unavailable
from stoker.native.row_forms import SCHEMA, Form

STALE_S = 10.0
HEADS = ("DEVICE", "", "LIMIT", "HOLDS", "RANGE", "POWER", "TEMP")

state_option = click.option(
    "--state", "folder", metavar="DIR", help="State folder; by default as in `stoker up`."
)


@click.group("power", invoke_without_command=True)
@output_option
@state_option
@click.pass_context
def power_command(context: click.Context, output: Form, folder: str | None) -> None:
    """Show and set the power budget of this node's cards.

    Without a subcommand it shows the status. Rules set here replace `[power]` in config.toml.
    """
    if context.invoked_subcommand is None:
        context.invoke(status_command, output=output, folder=folder)
    elif folder is not None:
        context.default_map = {context.invoked_subcommand: {"folder": folder}}


@power_command.command("status")
@output_option
@state_option
def status_command(output: Form = "table", folder: str | None = None) -> None:
    """Show limits, power, temperatures, and the latest decisions with their reasons."""
    state = node(folder)
    found = _status(state)
    if output == "json":
        click.echo(row_forms.one({"schema": SCHEMA, **msgspec.to_builtins(found)}), nl=False)
    elif not show_rows("cards", "id", msgspec.to_builtins(found.cards), output):
        click.echo(_text(found, state, whole=output == "wide"))


@power_command.command("budget")
@click.argument("watts")
@state_option
def budget_command(watts: str, folder: str | None) -> None:
    """Set the power budget of all cards together, in watts, or `off`."""
    _change(folder, budget_w=_watts(watts))


@power_command.command("cap")
@click.argument("device")
@click.argument("watts")
@state_option
def cap_command(device: str, watts: str, folder: str | None) -> None:
    """Set the highest power limit of one card, in watts, or `off`."""
    _bound(folder, device, at_most_w=_watts(watts))


@power_command.command("floor")
@click.argument("device")
@click.argument("watts")
@state_option
def floor_command(device: str, watts: str, folder: str | None) -> None:
    """Set the lowest power limit of one card, which only heat may undercut, or `off`."""
    _bound(folder, device, at_least_w=_watts(watts))


@power_command.command("tenant")
@click.argument("user")
@click.argument("watts")
@state_option
def tenant_command(user: str, watts: str, folder: str | None) -> None:
    """Set the power budget of the cards that a user's jobs have, in watts, or `off`."""
    value = _watts(watts)
    tenants = dict(_rules(own(folder, "power")).tenants)
    if value:
        tenants[user] = value
    else:
        tenants.pop(user, None)
    _change(folder, tenants=tenants)


@power_command.command("draws")
@click.argument("device")
@click.argument("watts")
@state_option
def draws_command(device: str, watts: str, folder: str | None) -> None:
    """Declare the full-load draw of a device without a power limit, or `off`.

    The device then counts in the budget, and its jobs' launches or CPU time are throttled to its
    share.
    """
    state, value = own(folder, "power"), _watts(watts)
    declared = dict(_rules(state).declared)
    found = status.read(state.run)
    open_ones = [*found.absent, *(card.id for card in found.cards if not any(card.range))]
    if value and device not in declared and device not in open_ones:
        if any(card.id == device for card in found.cards):
            raise BadRequest(f"{device} has a power limit: it is not declared")
        without_limit = ", ".join(open_ones) or "none"
        raise NotFound(f"no device {device!r}", hint=f"Without a limit are {without_limit}")
    if value:
        declared[device] = value
    else:
        declared.pop(device, None)
    _change(folder, declared=declared)


@power_command.command("ceiling")
@click.argument("celsius")
@state_option
def ceiling_command(celsius: str, folder: str | None) -> None:
    """Set the die temperature that no card may exceed; `off` leaves each card's own."""
    _change(folder, ceiling_c=_watts(celsius))


@power_command.command("control")
@click.argument("how", type=click.Choice(["observe", "on"]))
@state_option
def control_command(how: str, folder: str | None) -> None:
    """Set the mode: `observe` decides and records, `on` also sets limits and clocks."""
    _change(folder, control=how)


def _watts(text: str) -> float:
    if text == "off":
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not value > 0:  # refuses NaN too
        raise click.BadParameter(f"{text!r} is neither a number above 0 nor `off`")
    return value


def _status(state: StateFolder | ForeignNode) -> status.Status:
    """Return the status of the node's agent, which everybody can read on another user's node."""
    if isinstance(state, StateFolder):
        require(state)
        return status.read(state.run, start=f"Start the node: {call(state, 'up')}")
    run = state.run()
    if run is None:
        raise Unavailable(
            f"{state.text} reports nothing about power here",
            hint=f"Ask {state.whose}: `stoker power` there",
        )
    return status.read(run, start=f"ask {state.whose}")


def _rules(state: StateFolder) -> PowerRules:
    """Return the rules in force."""
    require(state)
    here = rules_file.read(state.agent / rules_file.NAME)
    return here or read_config(state.root / "config.toml").power


def _bound(folder: str | None, device: str, **bounds: float) -> None:
    state = own(folder, "power")
    cards, device = dict(_rules(state).cards), _whole_id(state, device)
    rule = msgspec.structs.replace(cards.get(device, CardRule()), **bounds)
    if rule == CardRule():
        cards.pop(device, None)
    else:
        cards[device] = rule
    _change(folder, cards=cards)


def _whole_id(state: StateFolder, device: str) -> str:
    """Return the id that begins with what was typed, if one card's alone does."""
    found = [card.id for card in _cards(state)[0] if card.id.startswith(device)]
    return found[0] if len(found) == 1 else device


def _change(folder: str | None, **changes: Any) -> None:
    state = own(folder, "power")
    rules = msgspec.structs.replace(_rules(state), **changes)
    cards, uncapped = _cards(state)
    check(rules, cards, uncapped)
    rules_file.write(state.agent, rules)
    if rules.control == "observe":
        click.echo("stoker: decisions are recorded and nothing is set (control observe)")


def _cards(state: StateFolder) -> tuple[list[PowerCard], float]:
    """Return the cards of the agent's last list, and the watts of those without a limit."""
    found = status.read(state.run)
    cards = [
        PowerCard(
            each.id, PowerRange(*each.range) if any(each.range) else None, None, each.ceiling_c
        )
        for each in found.cards
    ]
    uncapped = sum(each.power_w or 0.0 for each in found.cards if not any(each.range))
    return cards, uncapped


def _text(found: status.Status, state: StateFolder | ForeignNode, *, whole: bool) -> str:
    rules = found.rules
    budget = f"{rules.budget_w:g} W" if rules.budget_w else "none"
    lines = [f"control {found.control}, budget {budget}"]
    if found.committed_w is not None:
        lines[0] += f", committed {found.committed_w:.0f} W"
    age = time.time() - found.t_ns / 1e9
    if age > STALE_S:
        lines.append(f"the agent has not reported for {age:.0f} s")
    if found.why:
        lines.append(f"note: {found.why}")
    if isinstance(state, ForeignNode):
        lines.append(f"it is {state.text}: only its owner may set this")
    elif record.path(state.agent).exists():
        lines.append("cards are set by stoker; their former limits are on record")
    if found.cards:
        if all(each.power_w is None for each in found.cards):
            lines.append("nothing is read for it meanwhile: `stoker devices` shows power and heat")
        rows = [_row(each, whole=whole) for each in found.cards]
        lines += terminal.table([HEADS, *rows], cut=0, right=range(2, 7))
    lines += [f"{each.id}: {each.refused}" for each in found.cards if each.refused]
    lines += _held(found)
    lines += [f"{each.id}: {each.note}" for each in found.cards if each.note]
    lines += [f"{id}: takes no part: {why}" for id, why in found.absent.items()]
    lines += [_decision(each) for each in found.decisions[-8:]]
    return "\n".join(map(terminal.wrapped, lines))


def _row(each: status.CardStatus, *, whole: bool) -> tuple[str, ...]:
    """Return the cells of a card; without `whole` its id is the short one."""
    bounds = f"{each.range[0]:.0f}-{each.range[2]:.0f}" if any(each.range) else "none"
    watts, power = _cell(each.limit_w, "W"), _cell(each.power_w, "W")
    held, heat = _cell(each.holds_w, "W"), _cell(each.temperature_c, "C")
    id = each.id if whole else row_forms.short_id(each.id)
    return id, "SIM" if each.sim else "", watts, held, bounds, power, heat


def _held(found: status.Status) -> list[str]:
    """Return why cards hold more of the budget than they draw."""
    lines = [
        f"{each.id}: off the bus, draws nothing; {each.holds_w:.0f} W are reserved for its return"
        for each in found.cards
        if each.gone and each.holds_w is not None
    ]
    if found.rules.budget_w and any(each.idle and each.range[0] for each in found.cards):
        lines.append("idle cards hold their limits: work may begin before another limit is set")
    return lines


def _decision(each: status.DecidedAction) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(each.t_ns / 1e9))
    unit = "MHz" if each.what == "clocks" else "W"
    done = "" if each.done else " (observed)"
    return f"{at} {each.card} {each.what} {each.value:.0f} {unit}{done}: {each.reason}"


def _cell(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f} {unit}"
