# SPDX-License-Identifier: Apache-2.0
"""Rules that an operator sets for the power loop, and the check that refuses impossible ones.

Invariant: the cards can keep all rules that passed `check` at once. Rules that they cannot keep are
refused, and the refusal names the range that they could.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from stoker.agent.power.plan.card import PowerCard
from stoker.native.errors import BadRequest, NotFound

RULES_MAX = 256
"""Cards or tenants that rules may name."""
CEILING_MIN_C = 40.0
DECLARED_MAX_W = 10_000.0


class CardRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of one card's limit, in watts; 0 is none."""

    at_most_w: float = 0.0
    """The highest limit; 0 is none."""
    at_least_w: float = 0.0
    """The lowest limit, which only heat may undercut; 0 is none."""


class PowerRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[power]` of config.toml."""

    control: Literal["observe", "on"] = "observe"
    """With `observe`, actions are decided and logged, but not carried out."""
    budget_w: float = 0.0
    """The budget of all cards together in watts; with 0 only the other rules hold."""
    ceiling_c: float = 0.0
    """The ceiling of every die in C; 0 stands for each card's own target temperature."""
    give_up: float = 0.0155
    """The share of the work, by the model, that may be given up to save energy. The work of equal
    limits is never given up."""
    cards: dict[str, CardRule] = msgspec.field(default_factory=dict)
    """Device -> bounds of its limit."""
    tenants: dict[str, float] = msgspec.field(default_factory=dict)
    """User -> the highest sum in watts of the limits of all cards that the user's jobs hold, cards
    shared with other users included."""
    declared: dict[str, float] = msgspec.field(default_factory=dict)
    """Device -> watts at full load, for a device that has neither a power sensor nor a limit."""


def check(rules: PowerRules, cards: Sequence[PowerCard], uncapped_w: float = 0.0) -> None:
    """Raise BadRequest or NotFound for rules that contradict each other or these cards."""
    known = {card.id: card for card in cards}
    check_numbers(rules)
    for id, rule in rules.cards.items():
        if id not in known:
            raise NotFound(f"no device {id!r}", hint=f"Known are {', '.join(known) or 'none'}")
        _check_card(known[id], rule)
    for tenant, watts in rules.tenants.items():
        _check_tenant(tenant, watts, cards)
    _check_ceiling(rules, cards)
    _check_budget(rules, cards, uncapped_w)


def check_numbers(rules: PowerRules) -> None:
    """Raise BadRequest for rules that no cards whatever could keep."""
    if max(len(rules.cards), len(rules.tenants), len(rules.declared)) > RULES_MAX:
        raise BadRequest(f"power rules name more than {RULES_MAX} cards, tenants or devices")
    named = {"the power budget": rules.budget_w, "ceiling_c": rules.ceiling_c}
    named |= {f"the cap of {id}": rule.at_most_w for id, rule in rules.cards.items()}
    named |= {f"the floor of {id}": rule.at_least_w for id, rule in rules.cards.items()}
    for name, value in named.items():
        if not math.isfinite(value) or value < 0:
            raise BadRequest(f"{name} is {value:g}: it must be a number above 0, or 0 for none")
    for id, watts in rules.declared.items():
        if not 1 <= watts <= DECLARED_MAX_W:
            raise BadRequest(
                f"{id} is declared to draw {watts:g} W: possible are 1 to {DECLARED_MAX_W:g} W"
            )
    if not 0 <= rules.give_up < 0.5:
        raise BadRequest(f"give_up is {rules.give_up:g}: it must be from 0 to below 0.5")


def _check_card(card: PowerCard, rule: CardRule) -> None:
    bounds = {"cap": rule.at_most_w, "floor": rule.at_least_w}
    for name, watts in bounds.items():
        if not watts:
            continue
        if card.power is None:
            raise BadRequest(f"{card.id} takes no power limit, so it can have no {name}")
        if not card.power.min_w <= watts <= card.power.max_w:
            raise BadRequest(
                f"the {name} of {card.id} is {watts:g} W: the device takes {card.power}"
            )
    if rule.at_most_w and rule.at_least_w > rule.at_most_w:
        raise BadRequest(
            f"{card.id} is to have at least {rule.at_least_w:g} W and at most {rule.at_most_w:g} W"
        )


def _check_tenant(tenant: str, watts: float, cards: Sequence[PowerCard]) -> None:
    least = min((card.power.min_w for card in cards if card.power), default=0.0)
    most = sum(card.power.max_w for card in cards if card.power)
    if not math.isfinite(watts) or not least <= watts <= most:
        raise BadRequest(
            f"the cap of tenant {tenant!r} is {watts:g} W: possible are {least:g} W, the lowest"
            f" limit of a card, to {most:g} W"
        )


def _check_ceiling(rules: PowerRules, cards: Sequence[PowerCard]) -> None:
    if not rules.ceiling_c:
        return
    for card in cards:
        if not CEILING_MIN_C <= rules.ceiling_c <= card.ceiling_c:
            raise BadRequest(
                f"ceiling_c is {rules.ceiling_c:g}: {card.id} takes {CEILING_MIN_C:g} to"
                f" {card.ceiling_c:g} C"
            )


def floor_w(card: PowerCard, rules: PowerRules) -> float:
    """The lowest limit this card may have; 0 for one without limits."""
    if card.power is None:
        return 0.0
    return max(card.power.min_w, rules.cards.get(card.id, CardRule()).at_least_w)


def roof_w(card: PowerCard, rules: PowerRules) -> float:
    """The highest limit this card may have by the rules about it; 0 for one without limits."""
    if card.power is None:
        return 0.0
    most = rules.cards.get(card.id, CardRule()).at_most_w
    return min(card.power.max_w, most) if most else card.power.max_w


def _check_budget(rules: PowerRules, cards: Sequence[PowerCard], uncapped_w: float) -> None:
    if not rules.budget_w:
        return
    least = sum(floor_w(card, rules) for card in cards) + uncapped_w
    most = sum(roof_w(card, rules) for card in cards) + uncapped_w
    if rules.budget_w < least:
        raise BadRequest(
            f"the power budget is {rules.budget_w:g} W: the lowest limits and floors of"
            f" {len(cards)} cards{_with(uncapped_w)} are {least:.0f} W, so {least:.0f} to"
            f" {most:.0f} W can be kept"
        )


def _with(uncapped_w: float) -> str:
    return f" and {uncapped_w:.0f} W of what cannot be capped" if uncapped_w else ""


def tenants_caps(
    rules: PowerRules, holders: Mapping[str, frozenset[str]]
) -> list[tuple[str, float]]:
    """(tenant, watts) of the tenants that hold cards now."""
    present = frozenset[str]().union(*holders.values()) if holders else frozenset[str]()
    return [(name, watts) for name, watts in rules.tenants.items() if name in present]
