# SPDX-License-Identifier: Apache-2.0
"""The ranks of this node's jobs as an observation tells them to the scheduler.

Pure. Owns the bounds: what does not fit is left out and counted, the communicators with the fewest
operations first. Times of this boot become ages, which need no common clock, or CLOCK_REALTIME. All
of a sample was so at one time, which it names, so that it may come late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from stoker.agent.tracing.rank_watch import ToldGang
from stoker.probes.collectives.job_ranks import SpreadGroup, SpreadMember
from stoker.probes.collectives.rank_judge import RankTrouble
from stoker.scheduler.nouns import (
    GANG_SAMPLES_MAX,
    MEMBER_SAMPLES_MAX,
    TROUBLE_CHARS_MAX,
    TROUBLES_MAX,
    CommunicatorSample,
    GangSample,
    MemberSample,
    TaskKey,
    TroubleSample,
)

COMMUNICATORS_MAX = 4
"""The most communicators of one gang that are told."""


class SampleTime(NamedTuple):
    """One moment by three clocks: that of the calls, that of dates, and one that never stops."""

    monotonic_ns: int
    real_ns: int
    boot_ns: int


KeyOf = Callable[[int], TaskKey | None]
"""cgroup id -> the start of the task that it is of."""


class GangSamples:
    """Makes the samples, and counts what finds no room."""

    def __init__(self, key_of: KeyOf, counters: Counter[str]) -> None:
        self._key_of = key_of
        self._counters = counters
        self._room = self._troubles = 0

    def of(self, gangs: Iterable[ToldGang], at: SampleTime) -> tuple[GangSample, ...]:
        """Return what one observation tells of the ranks at this moment."""
        self._room = MEMBER_SAMPLES_MAX
        self._troubles = TROUBLES_MAX
        found: list[GangSample] = []
        for gang in gangs:
            keys = filter(None, map(self._key_of, gang.homes.values()))
            if (key := next(keys, None)) is None:
                continue
            if len(found) >= GANG_SAMPLES_MAX:
                self._counters["gang_samples_dropped"] += 1
                continue
            communicators = tuple(self._communicators(gang, at.monotonic_ns))
            troubles = tuple(self._told(gang, at.real_ns - at.monotonic_ns))
            resumed_ns = gang.resumed_ns and gang.resumed_ns + at.boot_ns - at.monotonic_ns
            times = at.boot_ns, min(max(0, resumed_ns), at.boot_ns)
            found.append(GangSample(*key, communicators, troubles, *times))
        return tuple(found)

    def _communicators(self, gang: ToldGang, now_ns: int) -> Iterator[CommunicatorSample]:
        for place, row in enumerate(gang.spread):
            if place >= COMMUNICATORS_MAX or len(row.members) > self._room:
                self._counters["communicator_samples_dropped"] += 1
                continue
            self._room -= len(row.members)
            yield self._communicator(gang, row, now_ns)

    def _communicator(self, gang: ToldGang, row: SpreadGroup, now_ns: int) -> CommunicatorSample:
        members = (self._member(gang, each, now_ns) for each in row.members)
        known = tuple(each for each in members if each is not None)
        return CommunicatorSample(row.key, row.size, row.call, known)

    def _member(self, gang: ToldGang, each: SpreadMember, now_ns: int) -> MemberSample | None:
        task = self._task(gang, each.rank)
        if task is None:
            return None
        waits_ns = None
        if each.since_ns:
            waits_ns = max(0, now_ns - max(each.since_ns, gang.resumed_ns))
        counts = each.entered, each.own_ns, each.queued_ns
        return MemberSample(each.rank, task, *counts, waits_ns, each.from_start, each.part)

    def _told(self, gang: ToldGang, offset_ns: int) -> Iterator[TroubleSample]:
        for trouble in gang.troubles:
            for rank in trouble.ranks:
                if self._troubles <= 0:
                    self._counters["trouble_samples_dropped"] += 1
                    continue
                self._troubles -= 1
                yield self._trouble(gang, trouble, rank, offset_ns)

    def _trouble(
        self, gang: ToldGang, trouble: RankTrouble, rank: int, offset_ns: int
    ) -> TroubleSample:
        return TroubleSample(
            rank,
            trouble.kind,
            trouble.text[:TROUBLE_CHARS_MAX],
            self._task(gang, rank),
            trouble.longer,
            trouble.since_ns + offset_ns,
            trouble.named_ns + offset_ns,
            trouble.lag_ns,
        )

    def _task(self, gang: ToldGang, rank: int) -> int | None:
        key = self._key_of(gang.homes.get(rank, 0))
        return key.task if key is not None else None
