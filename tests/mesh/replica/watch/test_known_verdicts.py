# SPDX-License-Identifier: Apache-2.0
"""A node's verdict reaches the view of its job, and every lack of one has its reason."""

from __future__ import annotations

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.watch.node_signals import STALE_NS
from stoker.mesh.server import job_views, verdict_words
from stoker.mesh.wire import node_messages, schema
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import (
    VERDICTS_MAX,
    DeviceInfo,
    GangSample,
    JobVerdict,
    NodeReport,
    Observation,
    Outcome,
    TaskKey,
    TroubleSample,
)
from tests.mesh.bench import Bench

S = 1_000_000_000


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    made = Bench(signer).lead()
    cards = tuple(DeviceInfo(f"gpu-{i}", "sim", "m") for i in range(4))
    made.feed(events.NodeReported("hello", NodeReport("n1", "boot", 1, 8000, 1 << 34, cards)))
    return made


def running(bench: Bench, **spec: int) -> int:
    """A job that runs on n1."""
    token = ("job", len(bench.replies))
    bench.submit(token, **{"gpu_milli": 1000, **spec})
    job = int(bench.replies[token].job)
    states = ("ready", "running") if spec.get("tasks", 1) > 1 else ("running",)
    for state in states:
        for key in keys(bench, job):
            told = Outcome(*key, 1, state, bench.now)  # type: ignore[arg-type]
            bench.feed(events.Outcomes(object(), "n1", (told,)))
    return job


def keys(bench: Bench, job: int) -> list[TaskKey]:
    found = bench.replica.state.book.get(job)
    decisions = [rank.decision for rank in found.ranks] or [found.decision]
    return [
        TaskKey(job, found.attempt, task, made.placing)
        for task, made in enumerate(decisions)
        if made is not None
    ]


def observe(bench: Bench, *verdicts: JobVerdict, gangs: tuple[GangSample, ...] = ()) -> None:
    seen = Observation(1, "n1", 1, 0, 0, gangs=gangs, verdicts=verdicts)
    bench.feed(events.Observed("n1", seen))


def view(bench: Bench, job: int) -> schema.JobView:
    return job_views.job_view(bench.replica, bench.replica.state.book.get(job), short=True)


def test_the_newest_verdict_of_a_node_is_the_jobs(bench: Bench) -> None:
    job = running(bench)
    (key,) = keys(bench, job)
    assert view(bench, job).verdict_absent == "node n1 has sent nothing for some seconds"
    observe(bench)
    assert view(bench, job).verdict_absent == "node n1 has not judged it yet"
    for name, milli, said in (
        ("GPU-bound", 930, "GPU-bound 93 %"),
        ("starved of CPU", 412, "starved of CPU 41 %"),
    ):
        observe(bench, JobVerdict(*key, name, milli, 12 * S))
        found = view(bench, job)
        assert found.verdict == schema.VerdictView(name, milli / 1000, 12 * S, 1, said)
        assert found.verdict_absent == ""


def test_a_verdict_is_of_one_start_and_gets_old(bench: Bench) -> None:
    job = running(bench)
    (key,) = keys(bench, job)
    for other in (key._replace(placing=key.placing + 1), key._replace(attempt=2)):
        observe(bench, JobVerdict(*other, "idle", 1000, S))
        assert view(bench, job).verdict is None
    observe(bench, JobVerdict(*key, "idle", 1000, S))
    assert view(bench, job).verdict is not None
    bench.tick(STALE_NS / S + 1)
    found = view(bench, job)
    assert (found.verdict, bool(found.verdict_absent)) == (None, True)


def test_who_does_not_run_or_holds_nothing_has_no_verdict(bench: Bench) -> None:
    observe(bench)
    job = running(bench, gpu_milli=0)
    assert view(bench, job).verdict_absent == verdict_words.NO_DEVICE
    bench.outcome(job, "succeeded", exit_code=0)
    found = view(bench, job)
    assert (found.verdict, found.verdict_absent) == (None, "")


def test_a_gang_adds_up_and_names_the_rank_it_waits_for(bench: Bench) -> None:
    job = running(bench, tasks=4)
    four = keys(bench, job)
    peer = [JobVerdict(*key, "waiting for a peer", 600, S) for key in four[:2]]
    slow = JobVerdict(*four[2], "GPU-bound", 900, S)
    observe(bench, *peer, slow)
    found = view(bench, job)
    assert found.verdict is not None
    assert found.verdict.text == "waiting for a peer 40 % (3 of 4 ranks)"
    assert (found.verdict.tasks, found.verdict_absent) == (3, "node n1 has not judged it yet")
    trouble = TroubleSample(2, "slow", "rank 2 came last", 2, 0.5, 5, 8, 1)
    observe(bench, *peer, slow, gangs=(GangSample(*four[2], troubles=(trouble,)),))
    assert (now := view(bench, job)).troubles and now.verdict is not None
    assert now.verdict.text == "waits for rank 2 40 % (3 of 4 ranks)"


def test_a_node_that_judges_as_many_as_it_may_is_told_of(bench: Bench) -> None:
    job = running(bench)
    observe(bench, *(JobVerdict(900, 1, n, 1, "idle", 1, S) for n in range(VERDICTS_MAX)))
    assert "judges 256 tasks at most" in view(bench, job).verdict_absent


@pytest.mark.parametrize(
    "wrong",
    [
        (JobVerdict(1, 1, 0, 1, "\x1b[2J", 1, S),),
        (JobVerdict(1, 1, 0, 1, "idle", 1001, S),),
        (JobVerdict(1, 1, 0, 1, "idle", -1, S),),
        (JobVerdict(1, 1, 0, 1, "idle", 1, 0),),
        (JobVerdict(0, 1, 0, 1, "idle", 1, S),),
        (JobVerdict(1, 1, 0, 1, "idle", 1, S),) * (VERDICTS_MAX + 1),
    ],
)
def test_a_wrong_verdict_is_refused_with_its_observation(wrong: tuple[JobVerdict, ...]) -> None:
    data = msgspec.msgpack.encode(Observation(1, "n1", 1, 0, 0, verdicts=wrong))
    with pytest.raises(BadRequest, match="a verdict"):
        node_messages.observation(data, "n1")


def test_an_older_node_tells_no_verdicts() -> None:
    data = msgspec.msgpack.encode((1, "n1", 1, 0, 0, (), (), ()))
    assert node_messages.observation(data, "n1").verdicts == ()
