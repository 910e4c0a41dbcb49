# SPDX-License-Identifier: Apache-2.0
"""Scripts of faults: TOML files that say what befalls which simulated card, and when.

    [[fault]]
    kind = "xid"        # one of `kinds()`
    card = 2            # every card when missing
    at_s = 5.0          # on the node's clock; 0 when missing
    until_s = 8.0       # for good when missing
    value = 79          # what it means depends on the kind: native/sim/node.h
    count = 10          # of events, spread evenly from at_s to until_s
    call = "PowerUsage" # functions with this in their name; all when missing

Relied on by `stoker sim driver --fault` and tests. Pure but for `inject`.
"""

from __future__ import annotations

import tomllib
from typing import Any, Final, NamedTuple

from stoker.native import _sim
from stoker.native.errors import BadRequest

KEYS: Final = {"kind", "card", "at_s", "until_s", "value", "count", "call"}
MOST: Final = 64
"""Faults of one script: SK_SIM_FAULTS."""


class Fault(NamedTuple):
    """One of a script; times in ns on the node's clock."""

    kind: str
    card: int = -1
    from_ns: int = 0
    until_ns: int = 0
    value: int = 0
    events: int = 0
    """Told as `count`."""
    call: str = ""


def kinds() -> list[str]:
    """Names of all faults that can be scripted."""
    return _sim.fault_kinds()


def parse(text: str) -> list[Fault]:
    """The faults of a script; BadRequest says which of them is wrong, and how."""
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise BadRequest(f"script of faults: {wrong}") from None
    listed = told.pop("fault", [])
    if told:
        raise BadRequest(f"script of faults: {', '.join(told)}: only [[fault]] is known")
    if len(listed) > MOST:
        raise BadRequest(f"script of faults: {len(listed)} of them, at most {MOST}")
    return [_fault(number, each) for number, each in enumerate(listed, 1)]


def inject(node: _sim.Node, faults: list[Fault]) -> None:
    """Add them to the node's own script; BadRequest for a card that the node has not."""
    cards = node.describe()["cards"]
    for fault in faults:
        if fault.card >= cards:
            raise BadRequest(f"fault {fault.kind}: no card {fault.card}, there are {cards}")
        node.inject(*fault)


def _fault(number: int, told: dict[str, Any]) -> Fault:
    where = f"fault {number}"
    if unknown := set(told) - KEYS:
        raise BadRequest(f"{where}: {', '.join(sorted(unknown))} is none of {sorted(KEYS)}")
    if told.get("kind") not in kinds():
        raise BadRequest(f"{where}: kind {told.get('kind')!r} is none of {', '.join(kinds())}")
    try:
        fault = Fault(
            kind=str(told["kind"]),
            card=int(told.get("card", -1)),
            from_ns=round(float(told.get("at_s", 0)) * 1e9),
            until_ns=round(float(told.get("until_s", 0)) * 1e9),
            value=int(told.get("value", 0)),
            events=int(told.get("count", 0)),
            call=str(told.get("call", "")),
        )
    except (TypeError, ValueError, OverflowError) as wrong:
        raise BadRequest(f"{where}: {wrong}") from None
    if fault.from_ns < 0 or fault.events < 0 or 0 < fault.until_ns < fault.from_ns:
        raise BadRequest(f"{where}: it ends before it begins, or a number is negative")
    return fault
