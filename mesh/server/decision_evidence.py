# SPDX-License-Identifier: Apache-2.0
"""The evidence of a placement for people: what was read, of the chosen and of the next best, and
what would have changed the choice.

Pure. Owns the words of each signal; the values are those of the moment of the decision, as the
replica that decided keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.watch.node_signals import STALE_NS
from stoker.mesh.server import speed_words
from stoker.mesh.wire import schema
from stoker.scheduler.book import Job
from stoker.scheduler.effects import Explained
from stoker.scheduler.hints import (
    COST_PER_MILLI,
    COST_ZERO,
    EVIDENCE_MAX,
    EVIDENCE_NODES_MAX,
    Evidence,
    EvidenceSide,
    Sample,
    score_of,
)
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceInfo
from stoker.scheduler.policies import Placement, word_of
from stoker.scheduler.reasons import Reason

DEGREES: Final = 1000
"""A figure of heat is this less the degrees below the limit."""
LOAD_UNKNOWN: Final = 11
"""The figure of a device whose load is not known; a known one is in tenths."""
NOT_KEPT: Final = (
    "the values are in the memory of the scheduler that decided, for its newest"
    f" {EVIDENCE_MAX} decisions by signals; it has ended or decided more since"
)
NONE_YET: Final = "no observation of it had come yet"
STALE: Final = f"its last observation was older than {STALE_NS // 10**9} s and not used"
NO_SIGNALS: Final = {
    Placement.BINPACK: "the placement binpack takes the first that suffices",
    Placement.RANDOM: "the placement random compares nothing",
    Placement.CUSTOM: "its scoring function chose",
}
"""The reason why a placement has no values of signals."""
_PACKED: Final = frozenset({Reason.FREE_DEVICES, Reason.PACKED_SHARE, Reason.OPENED_DEVICE})
"""The reasons of a choice by what is free, without a score."""
NO_SCORE: Final = (
    "no scores were compared: the first was taken that sufficed, as is done while nothing is known"
    " of usual requests"
)
UNSOUGHT: Final = f"with more than {EVIDENCE_NODES_MAX} nodes the next best is not sought"
_READ: Final[dict[Placement, tuple[str, ...]]] = {
    Placement.THERMAL: ("temperature_c", "limit_c"),
    Placement.POWER: ("power_w", "cap_w"),
    Placement.LEAST_BUSY: ("busy", "memory", "clock"),
}
"""The figures of a device that each placement reads."""
_NAMES: Final = {
    "cap_w": "power_limit_w",
    "busy": "busy_ratio",
    "memory": "memory_used_ratio",
    "clock": "clock_ratio",
}
"""Public names of figures where they differ."""
_NEEDED: Final = {
    Placement.THERMAL: ("temperature_c", "limit_c"),
    Placement.LEAST_BUSY: ("busy",),
}
"""The figures without which a device cannot be compared."""


def evidence_view(
    replica: Replica, job: Job, lines: list[Explained], rank: int = 0
) -> schema.EvidenceView | None:
    """Return what the placement of a rank read; None for a job that was not placed."""
    placed = next((line for line in lines if 200 <= line.reason < 300), None)
    if job.decision is None or placed is None:
        return None
    how = Placement(placed.detail) if placed.detail else Placement.BEST
    name = word_of(how)
    node = job.ranks[rank].decision.node if job.ranks else job.decision.node
    found = replica.state.core.evidence(job.job, job.attempt, rank)
    if found is None or found.chosen.node != name_id(node):
        why = "it started before others that wait" if placed.reason == Reason.BACKFILLED else ""
        return schema.EvidenceView(
            placement=name, absent=NO_SIGNALS.get(how) or why or _not_kept(how, placed.reason)
        )
    series = speed_words.series_words(job.decoded_spec())
    return _Words(replica, found, series).view(word_of(found.placement))


def _not_kept(how: Placement, reason: int) -> str:
    if reason == Reason.LEAST_BUSY:
        return "the numbers of tasks of nodes were compared"
    if reason in _PACKED:
        return NO_SCORE
    return NOT_KEPT


class _Words:
    def __init__(self, replica: Replica, found: Evidence, series: str) -> None:
        self._replica, self._found, self._series = replica, found, series
        self._figures: dict[Placement, Callable[[EvidenceSide], str]] = {
            Placement.THERMAL: self._heat,
            Placement.POWER: lambda side: f"would add {side.figure / 1000:g} W",
            Placement.LEAST_BUSY: self._load,
            Placement.COST_OPTIMIZED: self._cost,
            Placement.SPREAD: self._used,
            Placement.LEAST_LOADED: self._free,
            Placement.CONTIGUOUS: self._gaps,
            Placement.FASTEST: self._speed,
            Placement.BEST: self._gain,
            Placement.FGD: lambda side: f"score {100 + COST_ZERO - side.score}",
            Placement.SCORED: lambda side: f"score {score_of(side.score):g}",
        }
        self._flips: dict[Placement, Callable[[EvidenceSide, EvidenceSide], str]] = {
            Placement.THERMAL: self._flip_heat,
            Placement.POWER: self._flip_power,
            Placement.LEAST_BUSY: self._flip_load,
            Placement.COST_OPTIMIZED: self._flip_cost,
            Placement.SPREAD: self._flip_used,
            Placement.LEAST_LOADED: self._flip_free,
            Placement.CONTIGUOUS: self._flip_gaps,
            Placement.FASTEST: self._flip_speed,
            Placement.BEST: self._flip_score,
            Placement.FGD: self._flip_score,
            Placement.SCORED: self._flip_score,
        }

    def view(self, name: str) -> schema.EvidenceView:
        found = self._found
        return schema.EvidenceView(
            placement=name,
            chosen=self._side(found.chosen),
            next_best=self._side(found.other) if found.other is not None else None,
            flip=self._flip(),
        )

    # --- what was read ----------------------------------------------------------------------------

    def _device(self, side: EvidenceSide) -> DeviceInfo | None:
        report = self._replica.state.book.nodes.get(self._replica.state.node_name(side.node))
        if report is None or side.device is None or side.device >= len(report.devices):
            return None
        return report.devices[side.device]

    def _name(self, side: EvidenceSide) -> str:
        device = self._device(side)
        node = f"node {self._replica.state.node_name(side.node)}"
        return node if device is None else device.id

    def _side(self, side: EvidenceSide) -> schema.SignalsView:
        device, sample = self._device(side), side.sample
        names = _READ.get(self._found.placement, ()) if side.device is not None else ()
        values = {
            _NAMES.get(name, name): value
            for name in names
            if (value := getattr(sample, name)) is not None
        }
        if self._reads_load(side):
            values["load"] = side.load_milli / 1000
        values |= self._score(side) | speed_words.values(side.speed)
        return schema.SignalsView(
            node=self._replica.state.node_name(side.node),
            device=device.id if device is not None else "",
            sim=device is not None and device.sim,
            observation=self._observation(side),
            values=values,
            marks=tuple(mark for mark in ("slowed", "warned") if getattr(sample, mark)),
            compared=self._figures[self._found.placement](side),
            absent=self._absent(side),
        )

    def _observation(self, side: EvidenceSide) -> int | None:
        """Return the observation of which the placement read something."""
        if self._found.placement in {Placement.BEST, Placement.FGD, Placement.FASTEST}:
            return None
        return (side.sample.id if side.device is not None else side.observation) or None

    def _reads_load(self, side: EvidenceSide) -> bool:
        """True if the load of the node was read as well."""
        if not side.observation:
            return False
        return self._found.placement == Placement.LEAST_BUSY

    def _absent(self, side: EvidenceSide) -> str:
        """Return why what the placement needs was not known; empty if it was."""
        how, sample = self._found.placement, side.sample
        if side.device is None:
            return NONE_YET if how == Placement.LEAST_BUSY and not side.observation else ""
        missing = [name for name in _NEEDED.get(how, ()) if getattr(sample, name) is None]
        if sample.stale:
            return STALE
        if not sample.id and how in (*_READ,):
            return NONE_YET
        if missing:
            return f"its driver gave no {', '.join(_NAMES.get(n, n) for n in missing)}"
        return ""

    # --- what was compared ------------------------------------------------------------------------

    def _heat(self, side: EvidenceSide) -> str:
        if not _knows_heat(side.sample):
            return "headroom unknown"
        if side.figure > DEGREES:
            return "at its limit: not to be taken"
        if side.sample.slowed or side.sample.warned:
            return "slowed or warned of: counts as without headroom"
        return f"{DEGREES - side.figure} C below its limit"

    def _load(self, side: EvidenceSide) -> str:
        if side.device is None:
            return f"load {side.load_milli / 1000:g}" if side.observation else "load unknown"
        if side.figure == LOAD_UNKNOWN:
            return "load unknown"
        return f"{side.figure} tenths loaded"

    def _cost(self, side: EvidenceSide) -> str:
        if self._found.reason == Reason.COST_UNKNOWN:
            return self._free(side)
        return f"cost {side.figure}" if self._has_cost(side) else "no cost label"

    def _has_cost(self, side: EvidenceSide) -> bool:
        return any(label.cost for label in self._replica.state.core.labels(side.node))

    def _free(self, side: EvidenceSide) -> str:
        return f"{side.figure / 1000:g} free"

    def _gaps(self, side: EvidenceSide) -> str:
        gaps, apart = side.figure // 2, side.figure % 2
        numbers = f"{gaps} left out between its numbers" if gaps else "numbers follow each other"
        return f"{numbers}, {'no link in common' if apart else 'one link'}"

    def _used(self, side: EvidenceSide) -> str:
        return f"{side.figure / 1000:g} in use"

    def _score(self, side: EvidenceSide) -> dict[str, float]:
        """Return the score of a placement that compares nothing else; the highest is the best."""
        match self._found.placement:
            case Placement.SCORED:
                return {"score": score_of(side.score)}
            case Placement.FGD:
                return {"score": float(100 + COST_ZERO - side.score)}
            case Placement.BEST:
                return {"score": (COST_ZERO - side.score) / COST_PER_MILLI / 1000}
            case _:
                return {}

    def _gain(self, side: EvidenceSide) -> str:
        score = self._score(side)["score"]
        return f"score {score:.6g}: what usual requests gain or lose, in devices"

    def _model(self, side: EvidenceSide | None) -> str:
        device = self._device(side) if side is not None else None
        return device.model if device is not None and device.model else "an unnamed model"

    def _speed(self, side: EvidenceSide) -> str:
        chosen, other = self._found.chosen, self._found.other
        beside = other if side is chosen else chosen
        return speed_words.compared(
            side, self._model(side), beside, self._model(beside), self._series
        )

    # --- what would have changed the choice -------------------------------------------------------

    def _flip(self) -> str:
        chosen, other = self._found.chosen, self._found.other
        if other is None:
            return UNSOUGHT if self._found.unsought else ""
        return self._flips[self._found.placement](chosen, other)

    def _flip_heat(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name, limit = self._name(other), other.sample.limit_c
        if not _knows_heat(other.sample) or limit is None:
            return f"{name} could have been chosen, had its temperature and limit been known"
        if other.sample.slowed or other.sample.warned:
            return f"{name} could have been chosen, had it not been slowed or warned of"
        headroom = DEGREES - chosen.figure + 1 if _knows_heat(chosen.sample) else 1
        return f"{name} would have been chosen at {limit - headroom:g} C or below"

    def _flip_power(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name, adds_w = self._name(other), chosen.figure // 1000
        if not adds_w:
            return f"{name} could not have been chosen by power: none adds less than nothing"
        return f"{name} would have been chosen, had it added less than {adds_w} W"

    def _flip_load(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name = self._name(other)
        if chosen.device is None or other.device is None:
            return f"{name} would have been chosen below load {chosen.load_milli / 1000:g}"
        if other.figure == LOAD_UNKNOWN and chosen.figure < LOAD_UNKNOWN:
            return f"{name} could have been chosen, had its load been known"
        if chosen.figure == other.figure:
            return f"{name} was as good by this signal: the node's load and tasks decided"
        if not chosen.figure:
            return f"{name} could have been chosen below 10 % load, as the chosen one was"
        return f"{name} would have been chosen below {10 * chosen.figure} % load"

    def _flip_speed(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        return speed_words.flip(self._name(other), self._model(other), chosen, other)

    def _flip_cost(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        if self._found.reason == Reason.COST_UNKNOWN:
            return self._flip_free(chosen, other)
        return f"{self._name(other)} would have been chosen with a cost below {chosen.figure}"

    def _flip_free(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name = self._name(other)
        return f"{name} would have been chosen with more than {chosen.figure / 1000:g} free"

    def _flip_gaps(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name, gaps = self._name(other), chosen.figure // 2
        if not gaps:
            return f"{name} could not have been chosen by numbers: those taken follow each other"
        return f"{name} would have been chosen with fewer than {gaps} left out between its numbers"

    def _flip_score(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name = self._name(other)
        if chosen.score == other.score:
            return f"{name} was as good: of equals the first was taken"
        (best,) = self._score(chosen).values()
        return f"{name} would have been chosen with a score above {best:.6g}"

    def _flip_used(self, chosen: EvidenceSide, other: EvidenceSide) -> str:
        name = self._name(other)
        if not chosen.figure:
            return f"{name} could not have been chosen by use: nothing is less than nothing"
        return f"{name} would have been chosen with less than {chosen.figure / 1000:g} in use"


def _knows_heat(sample: Sample) -> bool:
    return sample.temperature_c is not None and sample.limit_c is not None


__all__ = ["NONE_YET", "NOT_KEPT", "STALE", "evidence_view"]
