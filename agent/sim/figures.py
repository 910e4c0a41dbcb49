# SPDX-License-Identifier: Apache-2.0
"""The figures of one simulated run, and of many together.

Owns the rule of what counts: a run that was too small, too short or too quiet is no seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

ENTRIES_MIN = 200
"""The fewest entries of a run that counts."""
TOLD_MAX = 50
"""The most violations that a summary names."""


class Shape(NamedTuple):
    """The size of a cluster and of its work."""

    schedulers: int
    servers: int
    nodes: int
    users: int
    wishes: int
    """Jobs of each user."""
    spares: int = 0
    """Schedulers that are not in the roster at first and may enter it."""
    upgrades: bool = False
    """True if the cluster begins with an older build, and is upgraded while it works."""
    arrays: bool = False
    """True if some requests are arrays."""
    drains: bool = False
    """True if an administrator drains nodes, moves their jobs, and removes some."""
    grows: bool = False
    """True if one scheduler begins, and the spare ones enter beside it and leave it again."""


class SeedFigures(NamedTuple):
    """The figures of one run."""

    seed: int
    violations: tuple[str, ...]
    events: int
    entries: int
    simulated_s: float
    faults: dict[str, int]
    states: tuple[str, ...]
    shape: Shape
    freezes: int
    evictions: int = 0
    """The number of nodes that were given up."""
    gangs: int = 0
    """The number of attempts of gangs that began."""
    thaws: int = 0
    """The number of times that a node let its jobs go on."""
    rosters: int = 0
    """The number of changes of the roster."""
    exchanges: int = 0
    """The number of exchanges of a scheduler's build."""
    too_old: int = 0
    """The number of starts of an older build behind a raise of the feature level."""
    drains: int = 0
    """The number of drains of nodes that began or ended."""
    moves: int = 0
    """The number of stops of tasks that move off drained nodes."""
    removals: int = 0
    """The number of nodes that were removed and installed anew."""
    most: int = 0
    """The most schedulers that any roster had."""

    @property
    def counts(self) -> bool:
        """True if the run was large enough to count as a seed."""
        return (
            self.shape.schedulers + self.shape.spares >= 3
            and self.shape.nodes >= 8
            and self.simulated_s >= 30
            and self.events >= 5000
            and self.entries >= ENTRIES_MIN
            and sum(self.faults.values()) >= 5
            and len(self.faults) >= 3
        )


def summary(runs: Iterable[SeedFigures], elapsed_s: float) -> dict[str, Any]:
    """Return the figures of a campaign, as `stoker sim cluster --json` prints them."""
    faults: Counter[str] = Counter()
    states: set[str] = set()
    violations: list[dict[str, Any]] = []
    done = counted = events = entries = broken = freezes = thaws = evictions = gangs = 0
    exchanges = too_old = drains = moves = removals = grown = 0
    for each in runs:
        done, counted = done + 1, counted + each.counts
        events, entries = events + each.events, entries + each.entries
        freezes, evictions = freezes + each.freezes, evictions + each.evictions
        thaws, gangs = thaws + each.thaws, gangs + each.gangs
        exchanges, too_old = exchanges + each.exchanges, too_old + each.too_old
        drains, moves = drains + each.drains, moves + each.moves
        removals += each.removals
        grown += each.shape.grows and each.most > 2
        broken += bool(each.violations)
        faults.update(each.faults)
        states.update(each.states)
        told = [{"seed": each.seed, "what": what} for what in each.violations]
        violations += told[: TOLD_MAX - len(violations)]
    per_hour = 3600 / elapsed_s if elapsed_s > 0 else 0.0
    return {
        "seeds": done,
        "counted": counted,
        "broken_seeds": broken,
        "violations": violations,
        "elapsed_s": round(elapsed_s, 1),
        "seeds_per_h": round(done * per_hour),
        "counted_per_h": round(counted * per_hour),
        "events_per_s": round(events * per_hour / 3600),
        "events_per_seed": round(events / max(done, 1)),
        "entries_per_seed": round(entries / max(done, 1)),
        "gangs": gangs,
        "exchanges": exchanges,
        "too_old": too_old,
        "drains": drains,
        "moves": moves,
        "removals": removals,
        "grown": grown,
        "freezes": freezes,
        "thaws": thaws,
        "evictions": evictions,
        "fault_kinds": dict(sorted(faults.items())),
        "state_coverage": len(states),
    }
