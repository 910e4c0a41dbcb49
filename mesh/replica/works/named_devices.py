# SPDX-License-Identifier: Apache-2.0
"""The devices and labels of nodes that a request names: names become conditions of the core.

Pure. A name that nothing has is refused with the nearest there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from stoker.native.errors import BadRequest
from stoker.scheduler.names import label_key, name_id
from stoker.scheduler.nouns import NodeReport
from stoker.scheduler.wire_fields import Condition
from stoker.scheduler.wire_names import Property, Relation

SHOWN = 8


def named_devices(
    ids: Iterable[str], reports: Sequence[NodeReport], rank: int
) -> Iterator[Condition]:
    """Yield a condition for each name; BadRequest for one that no device has.

    A number means the device in that place on whatever node, NODE:NUMBER that on this node; any
    other name is the id of a device, its beginning where one device alone has it, or NODE:ID.
    """
    for id in ids:
        node, place = _found(id.strip(), reports)
        yield Condition(Property.DEVICE, Relation.IS, node, rank, place + 1)


def _found(name: str, reports: Sequence[NodeReport]) -> tuple[int, int]:
    """Return the id of the node, 0 for any, and the place of the device there."""
    if name.isascii() and name.isdigit():
        return 0, _number(name, reports)
    for report in reports:
        own = name.removeprefix(f"{report.node}:")
        here = own != name
        for place, device in enumerate(report.devices):
            if own.lower() == device.id.lower() or (here and own == str(place)):
                return name_id(report.node), place
    return _begun(name, reports)


def _begun(name: str, reports: Sequence[NodeReport]) -> tuple[int, int]:
    """Return the node and the place of the one device whose id begins with a name."""
    found = [
        (report.node, place, device.id)
        for report in reports
        for place, device in enumerate(report.devices)
        if _begins(name.removeprefix(f"{report.node}:"), device.id)
    ]
    if not found:
        raise _unknown(name, reports)
    if len(found) > 1:
        names = ", ".join(f"{node}:{id}" for node, _, id in found[:SHOWN])
        raise BadRequest(f"{name[:80]!r} is the beginning of several devices", hint=names)
    node, place, _ = found[0]
    return name_id(node), place


def _begins(name: str, id: str) -> bool:
    """Return True if an id begins with a name; a number is a place, never a beginning."""
    return bool(name) and not name.isdigit() and id.lower().startswith(name.lower())


def _number(name: str, reports: Sequence[NodeReport]) -> int:
    most = max((len(report.devices) for report in reports), default=0)
    if int(name[:8]) >= most:
        raise BadRequest(
            f"no node has a device with the number {name[:8]}",
            hint=f"they are 0 to {most - 1}" if most else "no node has a device",
        )
    return int(name)


def _unknown(name: str, reports: Sequence[NodeReport]) -> BadRequest:
    known = [device.id for report in reports for device in report.devices]
    return BadRequest(f"no device is called {name[:80]!r}", hint=_nearest(name, known))


def check_labels(asked: Iterable[str], known: Iterable[str]) -> None:
    """Raise BadRequest for a label that no node has, with the nearest there is."""
    there = sorted(set(known))
    for label in asked:
        if label not in there:
            raise BadRequest(f"no node has the label {label!r}", hint=_nearest(label, there))


def check_levels(asked: Iterable[str], known: Iterable[str]) -> None:
    """Raise BadRequest for a level of which no node has a label, with the nearest there is."""
    there = sorted({label_key(label) for label in known if label})
    for level in asked:
        if level not in there:
            raise BadRequest(
                f"no node has a label {level}=...: there is no level {level!r}",
                hint=f"{_nearest(level, there)}; `stoker node label NODE {level}=NAME` makes one",
            )


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"the nearest is {near[0]}"
    more = ", ..." if len(known) > SHOWN else ""
    return f"There are: {', '.join(known[:SHOWN]) or 'none'}{more}"
