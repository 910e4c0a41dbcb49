# SPDX-License-Identifier: Apache-2.0
"""The figures of a run of faults: by kind of fault, how long each effect took, and the targets.

Pure. A percentile is the nearest rank, so that each figure is a time that was measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
ENOUGH = 100
"""The number of faults of a kind from which on its percentiles decide about a target."""


FRAMES = ("frames", "passed", "lost", "full", "under_way")
"""The counts of one direction of a bad cable; the first is the sum of the others."""


class Round(NamedTuple):
    """One fault and what followed; times are seconds since it began."""

    fault: str
    host: str
    lasted_s: float
    times: Mapping[str, float]
    """`decides`: the longest time without a placement; `elsewhere`: to the job of the host running
    on another one; `in_step`: from the fault's end until every server may be lost again."""
    moved: int
    """The jobs on other hosts that did not stay in their attempt: 0 is right."""
    froze: int
    """The jobs on other hosts that stood still, longer than FROZE_S: 0 is right."""
    cable: Mapping[str, Mapping[str, Any]] = {}
    """The quality of each bad direction of the host's cable, and what became of the frames there.
    """


class Target(NamedTuple):
    """A bound of one figure of one kind of fault, in seconds."""

    fault: str
    time: str
    rank: str
    below_s: float


TARGETS = (
    Target("host of a follower dies", "elsewhere", "p99", 7.0),
    Target("host of the leader dies", "elsewhere", "p99", 10.0),
    Target("host of the log's leader dies", "elsewhere", "p99", 20.0),
    Target("scheduler that leads is killed", "decides", "p99", 4.0),
    Target("broker that leads the log is killed", "decides", "p95", 10.5),
    Target("broker that leads the log is killed", "decides", "max", 16.0),
    Target("host of the leader restarts", "decides", "max", 1.0),
)


def by_fault(rounds: Iterable[Round]) -> list[dict[str, Any]]:
    """Return a row for each kind of fault, with the ranks of each of its times."""
    kinds: dict[str, list[Round]] = defaultdict(list)
    for each in rounds:
        kinds[each.fault].append(each)
    return [_row(fault, each) for fault, each in sorted(kinds.items())]


def _row(fault: str, rounds: Sequence[Round]) -> dict[str, Any]:
    times: dict[str, list[float]] = defaultdict(list)
    for each in rounds:
        for name, seconds in each.times.items():
            times[name].append(seconds)
    return {
        "fault": fault,
        "faults": len(rounds),
        "moved": sum(each.moved for each in rounds),
        "froze": sum(each.froze for each in rounds),
        **_frames([way for each in rounds for way in each.cable.values()]),
        **{f"{name}_s": ranks(each) for name, each in sorted(times.items())},
    }


def _frames(ways: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what became of the frames in the bad directions of cables; nothing without any."""
    if not ways:
        return {}
    counts = {name: sum(way[name] for way in ways) for name in FRAMES}
    return {"frames": {**counts, "late_s": max(way["late_s"] for way in ways)}}


def ranks(values: Sequence[float]) -> dict[str, float]:
    """Return the ranks of values, of which there is at least one."""
    ordered = sorted(values)
    found = {name: ordered[math.ceil(q * len(ordered)) - 1] for name, q in RANKS.items()}
    return {"n": len(ordered), **found, "max": ordered[-1]}


def judged(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the targets with what was measured; `met` is None with fewer than ENOUGH faults, as a
    percentile of few values says little."""
    found = {row["fault"]: row for row in rows}
    judged = []
    for target in TARGETS:
        measured = found.get(target.fault, {}).get(f"{target.time}_s")
        seconds = None if measured is None else measured[target.rank]
        enough = measured is not None and measured["n"] >= ENOUGH
        met = seconds < target.below_s if seconds is not None and enough else None
        judged.append({**target._asdict(), "measured_s": seconds, "met": met})
    return judged
