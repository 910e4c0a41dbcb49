# SPDX-License-Identifier: Apache-2.0
"""Scripts of faults: TOML files with the faults of simulated cards and their times.

    [[fault]]
    kind = "xid"        # one of `kinds()`
    card = 2            # every card when missing
    at_s = 5.0          # on the node's clock; 0 when missing
    until_s = 8.0       # for good when missing
    value = 79          # what it means depends on the kind: native/sim/node/node.h
    count = 10          # of events, spread evenly from at_s to until_s
    call = "PowerUsage" # functions with this in their name; all when left out

Pure but for `read` and `inject`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from stoker.native import _sim
from stoker.native.errors import BadRequest

KEYS: Final = {"kind", "card", "at_s", "until_s", "value", "count", "call"}
MISSING: Final = "missing"
"""The kind of fault that leaves functions with `call` in their name out of the library, as an older
driver does. It concerns the library, so it has no card and no time."""
MOST: Final = 64
"""The most faults of one script: SK_SIM_FAULTS."""
CALL_MAX: Final = 47
LAST_S: Final = 1e9


class Fault(NamedTuple):
    """One fault of a script; times are ns on the node's clock."""

    kind: str
    card: int = -1
    from_ns: int = 0
    until_ns: int = 0
    value: int = 0
    events: int = 0
    """The number of events, `count` in the script."""
    call: str = ""


def kinds() -> list[str]:
    """Return the names of all faults that can be scripted."""
    return [*_sim.fault_kinds(), MISSING]


def parse(text: str) -> list[Fault]:
    """Parse the faults of a script; BadRequest says which of them is wrong, and how."""
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise BadRequest(f"script of faults: {wrong}") from None
    listed = told.pop("fault", [])
    if told:
        raise BadRequest(f"script of faults: {', '.join(told)}: only [[fault]] is known")
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise BadRequest("script of faults: each fault begins with a line [[fault]]")
    if len(listed) > MOST:
        raise BadRequest(f"script of faults: {len(listed)} of them, at most {MOST}")
    return [_fault(number, each) for number, each in enumerate(listed, 1)]


def read(path: Path) -> list[Fault]:
    """Read faults from a file; BadRequest also if it cannot be read."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise BadRequest(f"script of faults {path}: it is no text (UTF-8)") from None
    except OSError as wrong:
        raise BadRequest(f"script of faults {path}: {wrong.strerror}") from None


def inject(node: _sim.Node, faults: list[Fault]) -> None:
    """Add faults to the node's script; BadRequest for a card that the node lacks."""
    cards = node.describe()["cards"]
    for fault in faults:
        if fault.kind == MISSING:
            continue
        if fault.card >= cards:
            raise BadRequest(f"fault {fault.kind}: no card {fault.card}, there are {cards}")
        node.inject(*fault)


def missing(faults: list[Fault]) -> list[str]:
    """Return parts of the names of functions to leave out, for `libraries.environment`."""
    return [fault.call for fault in faults if fault.kind == MISSING]


def _fault(number: int, told: dict[str, Any]) -> Fault:
    where = f"fault {number}"
    if unknown := set(told) - KEYS:
        raise BadRequest(f"{where}: {', '.join(sorted(unknown))} is none of {sorted(KEYS)}")
    if told.get("kind") not in kinds():
        raise BadRequest(f"{where}: kind {told.get('kind')!r} is none of {', '.join(kinds())}")
    if told["kind"] == MISSING and (set(told) != {"kind", "call"} or not told["call"]):
        raise BadRequest(f"{where}: {MISSING} wants `call`, a part of a function's name, alone")
    fault = Fault(
        kind=told["kind"],
        card=_whole(where, told, "card", 0, 2**31) if "card" in told else -1,
        from_ns=_time_ns(where, told, "at_s"),
        until_ns=_time_ns(where, told, "until_s"),
        value=_whole(where, told, "value", -(2**63), 2**63),
        events=_whole(where, told, "count", 0, 2**32),
        call=_call(where, told.get("call", "")),
    )
    if 0 < fault.until_ns < fault.from_ns:
        raise BadRequest(f"{where}: it ends before it begins")
    return fault


def _whole(where: str, told: dict[str, Any], key: str, low: int, end: int) -> int:
    value: object = told.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < end:
        raise BadRequest(f"{where}: {key} = {value!r} is no whole number from {low} to {end - 1}")
    return value


def _time_ns(where: str, told: dict[str, Any], key: str) -> int:
    value = told.get(key, 0)
    if type(value) not in (int, float) or not 0 <= value <= LAST_S:
        raise BadRequest(f"{where}: {key} = {value!r} is no number of seconds from 0 to {LAST_S:g}")
    return round(float(value) * 1e9)


def _call(where: str, value: object) -> str:
    if not isinstance(value, str) or len(value.encode()) > CALL_MAX:
        raise BadRequest(f"{where}: call = {value!r} is no name of at most {CALL_MAX} bytes")
    return value
