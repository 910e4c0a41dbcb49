# SPDX-License-Identifier: Apache-2.0
"""Ranks as an observation tells them: by task, as ages, and within bounds."""

from __future__ import annotations

from collections import Counter

from stoker.agent.tracing.gang_samples import COMMUNICATORS_MAX, GangSamples, SampleTime
from stoker.agent.tracing.rank_watch import ToldGang
from stoker.probes.collectives.job_ranks import SpreadGroup, SpreadMember
from stoker.probes.collectives.rank_judge import RankTrouble
from stoker.scheduler.nouns import (
    GANG_SAMPLES_MAX,
    MEMBER_SAMPLES_MAX,
    TROUBLES_MAX,
    CommunicatorSample,
    GangSample,
    MemberSample,
    TaskKey,
    TroubleSample,
)

S = 1_000_000_000
NOW, DATE, BOOT = 100 * S, 1_700_000_000 * S, 130 * S
SLOW = RankTrouble("slow", (5,), "world", "rank 5 came last", 0.2, 90 * S, 93 * S, 7)


def member(rank: int, since_ns: int = 0) -> SpreadMember:
    return SpreadMember(rank, 1000 + rank, 42, 3 * S, S, since_ns, True)


def spread(key: int, *members: SpreadMember) -> SpreadGroup:
    return SpreadGroup(key, 8, "mpi.MPI_Allreduce", members)


def gang(
    *rows: SpreadGroup, troubles: tuple[RankTrouble, ...] = (), resumed_s: int = 0
) -> ToldGang:
    homes = {rank: 50 + rank // 2 for rank in range(MEMBER_SAMPLES_MAX)}
    return ToldGang((7, 1, 99), rows, troubles, homes, resumed_s * S)


class Samples:
    """Two ranks are in each task; task 3 is that of no job any more."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self._samples = GangSamples(self._key_of, self.counters)

    def _key_of(self, cgroup_id: int) -> TaskKey | None:
        return TaskKey(7, 1, cgroup_id - 50, 99) if cgroup_id not in (0, 53) else None

    def of(self, *gangs: ToldGang) -> tuple[GangSample, ...]:
        return self._samples.of(gangs, SampleTime(NOW, DATE, BOOT))


def test_ranks_are_told_with_their_tasks_and_waits_as_ages() -> None:
    rows = gang(spread(5, member(4), member(5, 97 * S), member(6)), troubles=(SLOW,))
    (told,) = Samples().of(rows)
    assert told.key == TaskKey(7, 1, 0, 99)
    assert (told.told_ns, told.resumed_ns) == (BOOT, 0)
    assert told.communicators == (
        CommunicatorSample(
            5, 8, "mpi.MPI_Allreduce",
            (
                MemberSample(4, 2, 42, 3 * S, S, None),
                MemberSample(5, 2, 42, 3 * S, S, 3 * S),  # that of task 3 is left out
            ),
        ),
    )  # fmt: skip
    since, named = DATE - 10 * S, DATE - 7 * S
    assert told.troubles == (TroubleSample(5, "slow", "rank 5 came last", 2, 0.2, since, named, 7),)


def test_the_time_in_which_a_gang_was_frozen_is_no_wait() -> None:
    (told,) = Samples().of(gang(spread(5, member(4, 90 * S)), resumed_s=98))
    assert told.communicators[0].members[0].waits_ns == 2 * S
    assert told.resumed_ns == BOOT - 2 * S


def test_what_does_not_fit_is_counted() -> None:
    samples = Samples()
    many = [spread(key, member(0), member(1)) for key in range(COMMUNICATORS_MAX + 3)]
    (told,) = samples.of(gang(*many))
    assert len(told.communicators) == COMMUNICATORS_MAX
    assert samples.counters == {"communicator_samples_dropped": 3}

    samples = Samples()
    large = spread(5, *map(member, range(MEMBER_SAMPLES_MAX - 1)))
    (told,) = samples.of(gang(large, spread(6, member(0), member(1))))
    assert len(told.communicators) == 1
    assert samples.counters == {"communicator_samples_dropped": 1}

    samples = Samples()
    assert len(samples.of(*[gang(spread(5, member(0)))] * (GANG_SAMPLES_MAX + 2))) == 64
    assert samples.counters == {"gang_samples_dropped": 2}

    samples = Samples()
    (told,) = samples.of(gang(troubles=(SLOW,) * (TROUBLES_MAX + 4)))
    assert len(told.troubles) == TROUBLES_MAX
    assert samples.counters == {"trouble_samples_dropped": 4}
