# SPDX-License-Identifier: Apache-2.0
"""Nodes tell of a gang's ranks, at one replica without I/O: who is believed, and who hears."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.watch.gang_ranks import GONE_NS
from stoker.mesh.server import explanation, job_views
from stoker.mesh.wire import queries
from stoker.mesh.wire.queries import RanksQuery
from stoker.mesh.wire.schema import RankTroubleView
from stoker.scheduler.nouns import (
    CommunicatorSample,
    GangSample,
    MemberSample,
    Observation,
    Outcome,
    TaskKey,
    TroubleSample,
)
from tests.mesh.bench import Bench

S = 1_000_000_000
NODES = ("n1", "n2")
SLOW = TroubleSample(3, "slow", "rank 3 came last", 3, 0.25, 5, 8, 1)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


class Gang:
    """Four running ranks, two on each of two nodes; rank 2 works a quarter longer than others."""

    def __init__(self, signer: Identity) -> None:
        self.bench = Bench(signer).lead()
        for node in NODES:
            self.bench.hello(node, boot=f"boot-{node}")
        self.bench.submit("s", tasks=4, tasks_per_node=2, gpu_milli=500)
        for state in ("ready", "running"):
            for task in range(4):
                made = Outcome(*self.key(task), 1, state, self.bench.now)  # type: ignore[arg-type]
                self.bench.feed(events.Outcomes(object(), NODES[task // 2], (made,)))
        self.entered = 0
        self.told: list[tuple[str, RanksQuery]] = []
        self.bench.watch = self._watch  # type: ignore[method-assign]

    def _watch(self, effect: events.Effect) -> list[events.Event]:
        if isinstance(effect, events.TellRanks):
            query = queries.decode_query(effect.data)
            assert isinstance(query, RanksQuery)
            self.told.append((effect.node, query))
        return []

    def key(self, task: int) -> TaskKey:
        return self.bench.replica.state.book.key(1, 1, task)

    def observe(self, node: str, *samples: GangSample) -> None:
        self.bench.feed(events.Observed(node, Observation(1, node, 1, 1, 1, gangs=samples)))

    def sample(self, node: str, **changes: Any) -> GangSample:
        tasks = (0, 1) if node == "n1" else (2, 3)
        members = tuple(
            MemberSample(t, t, self.entered, self.entered * (25 if t == 2 else 20) * S // 1000, 0)
            for t in tasks
        )
        row = CommunicatorSample(5, 4, "nccl.ncclAllReduce", members)
        return msgspec.structs.replace(GangSample(*self.key(tasks[0]), (row,)), **changes)

    def seconds(self, count: int) -> None:
        for _ in range(count):
            self.bench.now += S
            self.entered += 40
            for node in NODES:
                self.observe(node, self.sample(node))

    def views(self) -> list[RankTroubleView]:
        job = self.bench.replica.state.book.get(1)
        return list(job_views.troubles(self.bench.replica, job))

    @property
    def counters(self) -> dict[str, int]:
        return self.bench.replica.counters


@pytest.fixture
def gang(signer: Identity) -> Gang:
    return Gang(signer)


def test_a_slow_rank_is_shown_with_its_place_and_its_node_alone_is_told(gang: Gang) -> None:
    gang.seconds(6)
    (view,) = gang.views()
    assert (view.rank, view.kind, view.node, view.task) == (2, "slow", "n2", 2)
    assert view.longer == pytest.approx(0.25)
    ranks = gang.bench.replica.state.book.get(1).ranks
    report = gang.bench.replica.state.book.nodes["n2"]
    assert view.devices == (report.devices[ranks[2].decision.devices[0].index].id,)
    assert {node for node, _ in gang.told} == {"n2"}
    _, query = gang.told[0]
    assert query.key == gang.key(2)
    assert [(each.rank, each.kind) for each in query.troubles] == [(2, "slow")]
    assert query.troubles[0].lasts_ns >= 2 * S
    job = gang.bench.replica.state.book.get(1)
    assert job_views.job_view(gang.bench.replica, job, short=True).troubles == (view,)
    explained = explanation.explain_view(gang.bench.replica, job, gang.bench.now)
    assert explained.troubles == (view,)


def test_it_is_told_again_each_second_and_once_that_it_is_over(gang: Gang) -> None:
    gang.seconds(6)
    gang.told.clear()
    gang.seconds(3)
    assert [len(query.troubles) for _, query in gang.told] == [1, 1, 1]
    gang.told.clear()
    for _ in range(10):  # all are as fast
        gang.bench.now += S
        gang.entered += 40
        for node in NODES:
            found = gang.sample(node)
            (row,) = found.communicators
            evenly = tuple(
                msgspec.structs.replace(m, own_ns=10**12 + gang.entered * S // 50)
                for m in row.members
            )
            row = msgspec.structs.replace(row, members=evenly)
            gang.observe(node, msgspec.structs.replace(found, communicators=(row,)))
    assert gang.views() == []
    assert gang.told[-1][1].troubles == () and gang.told[-2][1].troubles != ()


@pytest.mark.parametrize(
    "changes",
    [
        {"attempt": 2},
        {"placing": 1},
        {"job": 9},
        {"task": 2},
        {"troubles": (SLOW,)},
        {"troubles": (msgspec.structs.replace(SLOW, task=60),)},
    ],
)
def test_a_node_speaks_for_its_own_tasks_alone(gang: Gang, changes: dict[str, Any]) -> None:
    gang.observe("n1", gang.sample("n1", **changes))
    assert gang.counters["rank_sample_refused"] == 1
    assert gang.views() == []


def test_what_a_node_finds_by_itself_is_shown_and_not_told_back(gang: Gang) -> None:
    gang.observe("n2", gang.sample("n2", troubles=(SLOW,)))
    (view,) = gang.views()
    assert (view.rank, view.node, view.text, view.lag_ns) == (3, "n2", "rank 3 came last", 1)
    assert gang.told == []


def test_nothing_is_known_of_a_gang_of_which_nobody_speaks(gang: Gang) -> None:
    gang.seconds(6)
    gang.bench.now += GONE_NS
    gang.bench.feed(events.TimePassed())
    assert gang.views() == []
