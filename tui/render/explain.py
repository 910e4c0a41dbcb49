# SPDX-License-Identifier: Apache-2.0
"""The text of `stoker explain`: the answer, its efficiency and reasons, then what would help.

Pure: the reply's object in, text of a given width out. The whole text has the decision as well,
with its id, what it read and all that was compared; the other one the devices, and what was
measured of them where that decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stoker.native.row_forms import short_id
from stoker.tui.render import efficiency, rank_troubles, text, units

Object = Mapping[str, Any]
Line = tuple[str, str]
"""The start of a line, and the words that are wrapped beside it."""
EXPECTED = "expected_start"
"""The reason that has a line of its own."""


def render(explained: Object, *, now_ns: int, width: int = text.PAGE, whole: bool = False) -> str:
    """The explanation of one job, without a final newline. `now_ns` is CLOCK_REALTIME."""
    return "\n".join(
        _wrapped(start, words, width) for start, words in _lines(explained, now_ns, whole)
    )


def efficient(explained: Object, width: int = text.PAGE) -> str:
    """The use that one job makes of what it holds, without a final newline."""
    lines = list(efficiency.lines(explained))
    unknown = "it has not started" if not explained.get("efficiency") else "it holds no device"
    lines = lines or [("", f"nothing is known of its use: {unknown}")]
    head = f"job {explained['job']}, {explained['state']}"
    return "\n".join([head, *(_wrapped(start, words, width) for start, words in lines)])


def _lines(explained: Object, now_ns: int, whole: bool) -> Iterator[Line]:
    yield f"job {explained['job']}, {explained['state']}: ", explained["summary"]
    for kind, sentence in rank_troubles.sentences(explained):
        yield f"  {kind} rank: " if kind else "  ", sentence
    yield from efficiency.lines(explained)
    yield from _reasons(explained)
    yield from _expected(explained.get("expected") or {}, now_ns)
    yield from _actions(explained)
    yield from _attempts(explained)
    decision, evidence = explained.get("decision"), explained.get("evidence")
    if decision and whole:
        yield from _decision(decision)
    elif decision:
        yield from _granted(decision)
    if evidence and whole:
        yield from _evidence(evidence)
    elif evidence and any(_is_measured(evidence.get(side)) for _, side in _SIDES):
        yield from _measured(evidence)


def _reasons(explained: Object) -> Iterator[Line]:
    """The reasons that the first line does not give already."""
    told = [
        reason
        for reason in explained["reasons"]
        if not explained["summary"].endswith(reason["text"]) and reason["code"] != EXPECTED
    ]
    for rank, reason in enumerate(told, start=1):
        known = f"node {reason.get('node')}" in reason["text"]
        where = f"node {reason['node']}: " if reason.get("node") and not known else ""
        yield (f"  {rank}. ", where + reason["text"])


def _expected(found: Object, now_ns: int) -> Iterator[Line]:
    """The expected start of a job that waits, and what it rests on."""
    if found.get("t_ns") is not None:
        wait = units.duration(max(0, found["t_ns"] - now_ns))
        most = "at the latest " if found["latest"] else ""
        yield "expected start: ", f"{most}in {wait}, by {found['basis']}"
    elif found.get("absent"):
        yield "expected start: ", f"not known: {found['absent']}"


def _actions(explained: Object) -> Iterator[Line]:
    if explained["actions"]:
        yield "what would help", ""
    for action in explained["actions"]:
        yield ("  - ", action)


def _attempts(explained: Object) -> Iterator[Line]:
    """A line for each attempt before the present one: where it was, how long, and why it is not
    there."""
    before: Object = {}
    for attempt in explained.get("attempts") or ():
        where = f" on node {attempt['node']}" if attempt.get("node") else ""
        later = units.between(before.get("ended_ns"), attempt.get("placed_ns"))
        after = f", placed {later} later" if later else ""
        ran = units.between(attempt.get("started_ns"), attempt.get("ended_ns"))
        words = f"{attempt['state']}, {attempt['reason']}" + (f"; it ran {ran}" if ran else "")
        yield (f"attempt {attempt['attempt']}{where}{after}: ", words)
        before = attempt


def _granted(decision: Object) -> Iterator[Line]:
    """The devices by their short ids, and what was bound beside them."""
    if decision["devices"]:
        yield "devices: ", _shares(decision, short_id)
    if decision.get("numa"):
        yield "NUMA: ", decision["numa"]


def _shares(decision: Object, named: Callable[[str], str]) -> str:
    return ", ".join(
        f"{_part(d['milli'])}{named(d['id'])}{' (SIM)' if d.get('sim') else ''}"
        for d in decision["devices"]
    )


def _decision(decision: Object) -> Iterator[Line]:
    shares = _shares(decision, str)
    yield (f"decision {decision['id']}: ", f"node {decision['node']}{shares and ', '}{shares}")
    yield ("  why: ", decision["reason"])
    read = ", ".join(map(str, decision["observations"]))
    seen = f"observations {read}" if read else "no observation"
    took = units.duration(decision["latency_ns"])
    yield ("  read: ", f"{seen}; decided in {took}")
    if decision.get("numa"):
        yield ("  NUMA: ", decision["numa"])


_SIDES = (("chosen: ", "chosen"), ("next best: ", "next_best"))


def _is_measured(side: Object | None) -> bool:
    """True if somebody measured what was compared; a score or a count is no measurement."""
    return bool(side and (side.get("marks") or _SIGNALS.keys() & side.get("values", {}).keys()))


def _measured(evidence: Object) -> Iterator[Line]:
    """The measurements that decided, by the short ids of devices."""
    flip = evidence.get("flip") or ""
    for start, name in _SIDES:
        side = evidence.get(name)
        if not side:
            continue
        device = side.get("device") or ""
        flip = flip.replace(device, short_id(device)) if device else flip
        yield (start, _signals({**side, "device": short_id(device), "observation": None}))
    if flip:
        yield ("instead: ", flip)


def _evidence(evidence: Object) -> Iterator[Line]:
    """The values that the placement read, and what would have changed the choice."""
    for start, side in _SIDES:
        if evidence.get(side):
            yield (f"  {start}", _signals(evidence[side]))
    if evidence.get("flip"):
        yield ("  instead: ", evidence["flip"])
    if evidence.get("absent"):
        yield ("  signals: ", f"none: {evidence['absent']}")


_SIGNALS: dict[str, tuple[str, Callable[[float], str]]] = {
    "temperature_c": ("temperature", lambda value: f"{value:g} C"),
    "limit_c": ("limit", lambda value: f"{value:g} C"),
    "power_w": ("power", lambda value: f"{value:.0f} W"),
    "power_limit_w": ("power limit", lambda value: f"{value:.0f} W"),
    "busy_ratio": ("busy", units.percent),
    "memory_used_ratio": ("memory in use", units.percent),
    "clock_ratio": ("clock allowed", units.percent),
    "load": ("load of the node", lambda value: f"{value:g}"),
}
"""The words and the unit of each signal."""


def _signals(side: Object) -> str:
    sim = " (SIM)" if side.get("sim") else ""
    device = f", {side['device']}{sim}" if side.get("device") else ""
    values = [
        f"{_SIGNALS[name][0]} {_SIGNALS[name][1](value)}"
        for name, value in side.get("values", {}).items()
        if name in _SIGNALS
    ]
    words = ", ".join([*values, *side.get("marks", ())])
    read = f", observation {side['observation']}" if side.get("observation") is not None else ""
    seen = f" ({words}{read})" if words else ""
    absent = f"; {side['absent']}" if side.get("absent") else ""
    return f"node {side['node']}{device}: {side.get('compared', '')}{seen}{absent}"


def _part(milli: int) -> str:
    return "" if milli == 1000 else f"{units.share(milli)} of "


def _wrapped(start: str, words: str, width: int) -> str:
    start = text.clean(start)
    return start + text.wrap(text.clean(words), width, text.cells(start))
