# SPDX-License-Identifier: Apache-2.0
"""Conditions on devices a second time, dumb: each device is compared with each condition anew.

Both oracles use it. It knows nothing of masks or positions of traits.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.scheduler import records as rec
from stoker.scheduler.wire_names import Property, Relation

TRAITS = (Property.COMPUTE, Property.ARCH, Property.PROFILE, Property.DRIVER)
OF_TRAITS = (*TRAITS, Property.PARTITION)
NO_TRAITS = (0, 0, 0, 0, 0, 0)
OF_DEVICES = tuple(each for each in Property if each != Property.LEVEL)


def meets(
    values: Mapping[Property, int],
    request: rec.Submit,
    level: int,
    among: tuple[Property, ...] = OF_DEVICES,
) -> bool:
    """True if a device with these values meets what is required and the first `level` preferences,
    as far as these properties are concerned."""
    return all(
        _rank_met(values, [c for c in request.conditions if c.rank == rank and c.property in among])
        for rank in range(level + 1)
    )


def _rank_met(values: Mapping[Property, int], conditions: list[rec.Condition]) -> bool:
    for which in Property:
        named = [c for c in conditions if c.property == which]
        equal = [c.value for c in named if c.relation == Relation.IS]
        if equal and values[which] not in equal:
            return False
        if any(c.relation == Relation.LEAST and values[which] < c.value for c in named):
            return False
        if any(c.relation == Relation.MOST and not 0 < values[which] <= c.value for c in named):
            return False
    return True


def levels(request: rec.Submit) -> range:
    """The numbers of preferences that are tried together, in turn: all, one less, at last none."""
    return range(max((c.rank for c in request.conditions), default=0), -1, -1)


def keys_of_levels(request: rec.Submit, most: int) -> list[int]:
    """The keys of labels that all nodes of the job share, for what is required and the first `most`
    preferences."""
    conditions = [c for c in request.conditions if c.property == Property.LEVEL]
    return [c.value for c in conditions if c.rank <= most]


def condition_is_bad(condition: rec.Condition, gpu_milli: int) -> bool:
    """True if the core refuses the condition whatever devices there are."""
    which, relation, value, rank, place = condition
    names = (
        Property.VENDOR, Property.MODEL, Property.ARCH, Property.PROFILE, Property.PARTITION,
        Property.DEVICE, Property.LEVEL,
    )  # fmt: skip
    device = which == Property.DEVICE
    return (
        which not in list(Property)
        or relation not in list(Relation)
        or rank > 4
        or not (value or device)
        or device != bool(place)
        or not (gpu_milli or which == Property.LEVEL)
        or (which == Property.PARTITION and value > 2)
        or (which == Property.LINK and (relation != Relation.LEAST or gpu_milli < 1000))
        or (which == Property.NUMA and (relation != Relation.LEAST or rank))
        or (which in names and relation != Relation.IS)
        or (which == Property.VENDOR and value > 15)
        or (which == Property.MODEL and not rank)
        or (which == Property.MEMORY and relation != Relation.LEAST)
    )
