# SPDX-License-Identifier: Apache-2.0
"""The ranks of all gangs as their nodes tell of them: judged over nodes, and known for each job.

Without I/O. Every replica listens and knows; the leader alone tells nodes. Owns two rules: a node
speaks for the tasks that the state has placed there, and for no others; and a node hears only of
its own tasks, as long as a verdict holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.gang_judge import SILENT_NS, GangJudge, RankVerdict
from stoker.mesh.wire import queries
from stoker.mesh.wire.queries import RanksQuery
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import (
    TROUBLE_CHARS_MAX,
    GangSample,
    Observation,
    TaskKey,
    TroubleSample,
)

GONE_NS = SILENT_NS
"""A gang of which nothing was told for this time is forgotten."""
AGAIN_NS = 1_000_000_000
"""A verdict that holds is told again after this time, so that a lost message matters little."""

Name = tuple[int, int, int]
"""Job, attempt and placing."""


class KnownTrouble(NamedTuple):
    """A rank that keeps others waiting, and the node that it is on."""

    node: str
    said: TroubleSample


@dataclass(slots=True)
class _Gang:
    judge: GangJudge = field(default_factory=GangJudge)
    heard_ns: int = 0
    """The time of the last word about it (CLOCK_BOOTTIME)."""
    own: dict[str, tuple[TroubleSample, ...]] = field(default_factory=dict)
    """The troubles that nodes found by themselves."""
    judged: tuple[KnownTrouble, ...] = ()
    told: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """(node, task) -> how many troubles it was told of, and when."""


class GangRanks:
    """The ranks of all gangs at one replica; `leads` says whether it leads now."""

    def __init__(self, state: ReplicaState, outbox: Outbox, leads: Callable[[], bool]) -> None:
        self._state, self._outbox, self._leads = state, outbox, leads
        self._gangs: dict[Name, _Gang] = {}
        self._looked_ns = 0

    def observe(self, node: str, seen: Observation, now: Instant) -> None:
        """Take in what a known node says of its ranks."""
        for sample in seen.gangs:
            if not self._speaks_for(node, sample):
                self._outbox.count("rank_sample_refused")
                continue
            gang = self._gangs.setdefault((sample.job, sample.attempt, sample.placing), _Gang())
            gang.heard_ns, gang.own[node] = now.boot_ns, sample.troubles
            if sample.communicators:
                times = sample.told_ns, sample.resumed_ns
                gang.judge.take(node, sample.communicators, now.boot_ns, *times)
                self._judge(sample.key, gang, now)

    def expire(self, now_ns: int) -> int:
        """Forget the gangs of which nobody speaks any more; return when to look again."""
        if now_ns - self._looked_ns >= AGAIN_NS:
            self._looked_ns = now_ns
            for name, gang in list(self._gangs.items()):
                if now_ns - gang.heard_ns >= GONE_NS:
                    del self._gangs[name]
        return self._looked_ns + AGAIN_NS

    def troubles(self, job: Job) -> tuple[KnownTrouble, ...]:
        """Return the ranks of a job's present attempt that keep others waiting."""
        if not self._gangs:
            return ()
        placing = job.placing(job.attempt)
        gang = self._gangs.get((job.job, job.attempt, placing or 0))
        if gang is None or self._state.book.live(job.job) is None:
            return ()
        own = (KnownTrouble(node, each) for node, said in gang.own.items() for each in said)
        return (*gang.judged, *own)

    def _speaks_for(self, node: str, sample: GangSample) -> bool:
        """Return True if all tasks that a node speaks of were placed there."""
        job = self._state.book.live(sample.job)
        if job is None or job.decision is None or job.attempt != sample.attempt:
            return False
        if job.placing(sample.attempt) != sample.placing:
            return False
        decisions = [rank.decision for rank in job.ranks] or [job.decision]
        tasks = {each.task for row in sample.communicators for each in row.members}
        tasks |= {each.task for each in sample.troubles if each.task is not None}
        return all(
            task < len(decisions) and decisions[task].node == node for task in (*tasks, sample.task)
        )

    # --- the verdicts of this replica -------------------------------------------------------------

    def _judge(self, key: TaskKey, gang: _Gang, now: Instant) -> None:
        before = len(gang.judged)
        found = gang.judge.judge(now.boot_ns)
        gang.judged = tuple(KnownTrouble(each.node, _sample(each, now)) for each in found)
        if len(gang.judged) > before:
            self._outbox.count("ranks_named", len(gang.judged) - before)
        if not self._leads():
            gang.told.clear()
            return
        for node, task, troubles in self._due(gang, now.boot_ns):
            query = RanksQuery(key.job, key.attempt, task, key.placing, troubles)
            self._outbox.put(events.TellRanks(node, queries.encode(query)))

    def _due(
        self, gang: _Gang, now_ns: int
    ) -> Iterator[tuple[str, int, tuple[TroubleSample, ...]]]:
        """Yield what nodes have to hear now: what is new, what still holds, and what is over."""
        by_place: dict[tuple[str, int], list[TroubleSample]] = {}
        for node, said in gang.judged:
            by_place.setdefault((node, said.task or 0), []).append(said)
        for place in by_place.keys() | gang.told.keys():
            troubles = tuple(by_place.get(place, ()))
            count, told_ns = gang.told.get(place, (0, 0))
            if len(troubles) == count and now_ns - told_ns < AGAIN_NS:
                continue
            if troubles:
                gang.told[place] = len(troubles), now_ns
            else:
                del gang.told[place]
            yield (*place, troubles)


def _sample(verdict: RankVerdict, now: Instant) -> TroubleSample:
    """Return a verdict with the date of its times."""
    offset_ns = now.log_ns - now.boot_ns
    return TroubleSample(
        verdict.rank,
        verdict.kind,
        verdict.text[:TROUBLE_CHARS_MAX],
        verdict.task,
        verdict.longer,
        verdict.since_ns + offset_ns,
        verdict.named_ns + offset_ns,
        verdict.lag_ns,
        max(0, now.boot_ns - verdict.since_ns),
    )
