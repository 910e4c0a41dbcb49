# SPDX-License-Identifier: Apache-2.0
"""Profiles of simulated nodes: the cards and their figures in native/sim/profiles/*.toml.

A card becomes the dictionary that stoker.native._sim takes, with its own identity: serial number
and UUID come from the seed, so that equal seeds give equal nodes. Invariant: a figure that a
profile lacks is an error here and never a default.
"""

from __future__ import annotations

import random
import tomllib
import uuid
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from stoker.native import _sim
from stoker.native.errors import BadRequest, NotFound

Card = dict[str, Any]

FEATURES: Final = {
    "ecc": 1,
    "partitions": 2,
    "energy": 4,
    "instant_power": 8,
    "locked_clocks": 16,
    "memory_temperature": 32,
    "tile_power": 64,
}
"""The `enum sk_sim_feature` of each name in profiles."""
NVIDIA, AMD, INTEL = 1, 2, 3
_ONCE = {"count", "bus_ids", "numas", "switch_groups", "features", "layouts", "partition"}


def names() -> list[str]:
    """Return the names of all profiles."""
    return sorted(Path(each.name).stem for each in _folder().iterdir() if each.name[-5:] == ".toml")


def load(name: str, seed: int = 0) -> list[Card]:
    """Return the cards of a profile, each with its identity. NotFound lists the profiles."""
    cards: list[Card] = []
    for kind in _kinds(name):
        cards += [_card(kind, index) for index in range(kind["count"])]
    chance = random.Random(seed)
    minors = dict.fromkeys((NVIDIA, AMD, INTEL), 0)
    for index, card in enumerate(cards):
        card["minor"] = minors[card["vendor"]]
        minors[card["vendor"]] += 1
        card["bus_id"] = _bus_id(card["bus_id"], index, cards)
        _identify(card, chance)
    return cards


def node(name: str, path: Path | None = None, *, virtual: bool = False, seed: int = 0) -> _sim.Node:
    """Return a node of this profile at `path`, or without one in this process, in virtual time."""
    return _sim.Node.create(
        str(path) if path else None, load(name, seed), virtual or path is None, seed, name
    )


def _folder() -> Any:
    return files("stoker.native").joinpath("sim", "profiles")


def _kinds(name: str) -> list[dict[str, Any]]:
    if name not in names():
        raise NotFound(f"no profile {name!r}", hint=f"There are: {', '.join(names())}")
    told = tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    kinds: list[dict[str, Any]] = list(told.get("card", []))
    for use in told.get("use", []):
        kinds += [kind | {"count": use["count"]} for kind in _kinds(use["profile"])]
    if not kinds:
        raise BadRequest(f"profile {name}: no cards")
    return kinds


def _card(kind: dict[str, Any], index: int) -> Card:
    card: Card = {key: value for key, value in kind.items() if key not in _ONCE}
    card["physics"] = dict(kind["physics"])
    card["sensor"] = dict(kind["sensor"])
    card["bus_id"] = kind["bus_ids"][index]
    card["numa"] = kind["numas"][index]
    card["switch_group"] = kind["switch_groups"][index]
    card["flags"] = sum(FEATURES[feature] for feature in kind["features"])
    layouts = kind.get("layouts")
    if layouts:
        card["partitions"] = [
            {"profile": name, "instance": instance} | kind["partition"][name]
            for instance, name in enumerate(layouts[index % len(layouts)], 1)
        ]
    return card


def _bus_id(bus: str, index: int, cards: list[Card]) -> str:
    """Return a free bus id: if two kinds name the same bus, the later one gets its own domain."""
    taken = {card["bus_id"] for card in cards[:index]}
    domain = 0
    while (at := f"{domain:08X}:{bus}:00.0") in taken:
        domain += 1
    return at


def _identify(card: Card, chance: random.Random) -> None:
    """Give a card a UUID and a serial number of the vendor's form that no real card has."""
    prefix = {NVIDIA: "GPU-", AMD: "", INTEL: ""}[card["vendor"]]
    card["uuid"] = prefix + str(uuid.UUID(int=chance.getrandbits(128), version=4))
    card["serial"] = f"{chance.randrange(10**12, 10**13)}"
    for partition in card.get("partitions", []):
        partition["uuid"] = "MIG-" + str(uuid.UUID(int=chance.getrandbits(128), version=5))
