# SPDX-License-Identifier: Apache-2.0
"""Jobs that run more than once, wait for others or come in arrays, through the whole replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.works.submit_work import SubmitWork
from stoker.mesh.replica.works.work import Fate
from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler.book import Book, Job
from stoker.scheduler.effects import Rejected
from stoker.scheduler.nouns import (
    ForgetJob,
    JobSample,
    JobSpec,
    NodeReport,
    Observation,
    Outcome,
    StartJob,
    StopJob,
)
from stoker.scheduler.reasons import Reason
from stoker.scheduler.records import Preempt
from tests.mesh.bench import ALICE, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def job(bench: Bench, number: int) -> Job:
    return bench.replica.state.book.get(number)


def says(bench: Bench, number: int, attempt: int, state: Any, **fields: Any) -> None:
    token = ("says", number, attempt, state)
    made = Outcome(*bench.key(number, attempt), 1, state, bench.now, **fields)
    bench.feed(events.Outcomes(token, "n1", (made,)))


def starts(bench: Bench) -> list[tuple[int, int]]:
    return [(a.job, a.attempt) for a in bench.actions() if isinstance(a, StartJob)]


def test_a_job_that_its_node_gave_back_waits_again_without_a_failure(bench: Bench) -> None:
    bench.submit("s", gpu_milli=1000)
    why = "device card-0 is occupied: held by pid 812 (python3)"
    says(bench, 1, 1, "pending", reason=why)
    waiting = job(bench, 1)
    assert (waiting.state, waiting.reason) == (
        "pending",
        f"was not begun, will be tried again: {why}",
    )
    (first,) = waiting.attempts
    assert (first.state, first.reason, first.started_ns) == ("cancelled", why, None)
    bench.tick(2)
    assert starts(bench) == [(1, 1), (1, 2)], "without a retry of its own"
    says(bench, 1, 2, "running")
    says(bench, 1, 2, "pending", reason=why)
    assert job(bench, 1).state == "running", "what has begun is not given back"
    says(bench, 1, 2, "succeeded")
    assert job(bench, 1).state == "succeeded"


def test_a_job_that_nodes_cannot_launch_fails_at_the_third_launch_with_the_whole_story(
    bench: Bench,
) -> None:
    """It may run once only: nothing of it has run, so this is no second run."""
    why = "it could not be launched on node n1: No space left on device"
    bench.submit("s", restart="never")
    bench.submit("s2", after=(1,))
    for attempt, pause_s in ((1, 1.2), (2, 2.3)):
        says(bench, 1, attempt, "unlaunched", reason=why)
        waits = job(bench, 1)
        assert (waits.state, waits.reason) == (
            "pending",
            f"was not launched, will be tried again: {why}",
        )
        last = waits.attempts[-1]
        assert (last.state, last.reason, last.started_ns) == ("cancelled", why, None)
        restored = Book.restore(bench.replica.state.book.snapshot())
        assert restored.get(1) == waits
        bench.tick(pause_s * 0.8)
        assert starts(bench)[-1] == (1, attempt), "the pause doubles"
        bench.tick(pause_s * 0.2)
        assert starts(bench)[-1] == (1, attempt + 1)
    says(bench, 1, 3, "unlaunched", reason=why)
    ended = job(bench, 1)
    assert (ended.state, ended.exit_code) == ("failed", None)
    assert ended.reason == f"{why}; before that on n1, n1"
    assert job(bench, 2).state == "cancelled"
    assert bench.replica.state.core.counters()["retried"] == 0


def test_a_job_that_runs_is_not_given_back_and_counts_its_launches_anew(bench: Bench) -> None:
    bench.submit("s", retries=1, backoff_s=1)
    for attempt in (1, 2):
        says(bench, 1, attempt, "unlaunched", reason="no cgroup")
        bench.tick(3)
    says(bench, 1, 3, "running")
    says(bench, 1, 3, "unlaunched", reason="no cgroup")
    assert job(bench, 1).state == "running"
    says(bench, 1, 3, "failed", exit_code=1)
    bench.tick(2)
    for attempt in (4, 5):
        says(bench, 1, attempt, "unlaunched", reason="no cgroup")
        bench.tick(6)
    says(bench, 1, 6, "succeeded", exit_code=0)
    assert job(bench, 1).state == "succeeded"


def test_a_launch_that_failed_after_a_cancel_is_cancelled(bench: Bench) -> None:
    bench.submit("s")
    bench.feed(events.CancelRequested("c", [1], "enough"))
    says(bench, 1, 1, "unlaunched", reason="no cgroup")
    assert (job(bench, 1).state, job(bench, 1).reason) == (
        "cancelled",
        "cancelled on request: enough",
    )


def test_a_failed_job_is_tried_again_after_its_pause_and_its_first_attempt_is_kept(
    bench: Bench,
) -> None:
    bench.submit("s", retries=1, backoff_s=5)
    says(bench, 1, 1, "running")
    says(bench, 1, 1, "failed", exit_code=3)
    waiting = job(bench, 1)
    assert (waiting.state, waiting.attempt, waiting.decision) == ("pending", 1, None)
    assert waiting.reason == "failed, will be tried again: exit code 3"
    (first,) = waiting.attempts
    assert (first.attempt, first.state, first.exit_code) == (1, "failed", 3)
    assert first.decision is not None and first.decision.node == "n1"
    bench.tick(4.9)
    assert starts(bench) == [(1, 1)]
    bench.tick(0.7)  # the pause is 5 s plus up to a tenth
    assert starts(bench) == [(1, 1), (1, 2)]
    says(bench, 1, 2, "running")
    says(bench, 1, 2, "failed", signal=9)
    ended = job(bench, 1)
    assert (ended.state, ended.exit_code, ended.signal) == ("failed", None, 9)
    assert [each.attempt for each in ended.attempts] == [1]
    restored = Book.restore(bench.replica.state.book.snapshot())
    assert restored.get(1) == ended


def test_a_cancelled_job_is_not_tried_again_and_shows_no_old_exit_code(bench: Bench) -> None:
    bench.submit("s", retries=3, backoff_s=5)
    says(bench, 1, 1, "failed", exit_code=3)
    bench.feed(events.CancelRequested("c", [1], "enough"))
    ended = job(bench, 1)
    assert (ended.state, ended.exit_code) == ("cancelled", None)
    assert ended.reason == "cancelled on request: enough"
    bench.tick(30)
    assert starts(bench) == [(1, 1)]


def test_waiting_for_the_end_waits_for_the_last_attempt(bench: Bench) -> None:
    bench.submit("s", retries=1, backoff_s=1)
    bench.feed(events.Get("w", 1, "ended", bench.now + 60_000_000_000))
    says(bench, 1, 1, "failed", exit_code=3)
    assert "w" not in bench.replies
    bench.tick(1.2)
    says(bench, 1, 2, "succeeded", exit_code=0)
    assert bench.replies["w"].state == "succeeded"


def test_a_job_after_another_starts_when_that_succeeded(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b", after=(1,))
    assert starts(bench) == [(1, 1)]
    says(bench, 1, 1, "succeeded", exit_code=0)
    assert starts(bench) == [(1, 1), (2, 1)]


def test_a_job_after_one_that_failed_is_cancelled_unless_any_end_will_do(bench: Bench) -> None:
    bench.submit("a")
    bench.submit("b", after=(1,))
    bench.submit("c", after_any=(1,))
    bench.submit("e", after_fail=(1,))
    says(bench, 1, 1, "failed", exit_code=1)
    assert job(bench, 2).state == "cancelled"
    assert job(bench, 2).reason == "job 1, which it was to follow, failed"
    assert (job(bench, 3).state, job(bench, 4).state) == ("starting", "starting")
    bench.submit("d", after=(1,))
    assert isinstance(bench.replies["d"], BadRequest)


def array(bench: Bench, token: str, indexes: tuple[int, ...], key: bytes = b"", **spec: Any) -> Any:
    spec.setdefault("argv", ("true",))
    bench.feed(events.JobSubmitted(token, ALICE, key, JobSpec(**spec), indexes))
    return bench.replies[token]


def test_an_array_is_jobs_in_a_row_each_with_its_index(bench: Bench) -> None:
    bench.submit("before")
    first = array(bench, "s", (7, 3, 5), b"key")
    assert first.job == 2
    specs = [job(bench, number).decoded_spec() for number in (2, 3, 4)]
    assert [(s.array_index, s.array_place, s.array_size) for s in specs] == [
        (7, 0, 3),
        (3, 1, 3),
        (5, 2, 3),
    ]
    assert array(bench, "again", (7, 3, 5), b"key").job == 2
    assert len(bench.replica.state.book) == 4
    assert isinstance(array(bench, "other", (7, 3, 6), b"key"), BadRequest | Refused)
    assert len(bench.replica.state.book) == 4


def test_an_array_that_does_not_fit_as_a_whole_is_refused_as_a_whole(bench: Bench) -> None:
    limit = bench.replica.state.core.limits.jobs
    assert array(bench, "s", tuple(range(limit - 2))).job == 1
    bench.answering = False
    bench.submit("in flight")
    bench.feed(events.JobSubmitted("torn", ALICE, b"", JobSpec(("true",)), (0, 1, 2)))
    bench.submit("last")
    bench.answering = True
    bench.feed(bench.land())
    refused = bench.replies["torn"]
    assert isinstance(refused, Refused), refused
    assert "of 3 jobs 2 cannot be taken" in str(refused)
    assert bench.replies["last"].job == limit
    assert len(bench.replica.state.book) == limit


def test_a_preemptor_of_higher_priority_takes_the_place_and_the_other_runs_again(
    bench: Bench,
) -> None:
    bench.submit("low", gpu_milli=1000, preemptible=True)
    says(bench, 1, 1, "running")
    bench.submit("high", gpu_milli=1000, priority=10, preemptor=True)
    if job(bench, 1).state != "stopping":  # the outcome when the core decides it
        bench.feed(events.Admin("p", (Preempt(1, 1, 2, Reason.PREEMPTED),), ()))
    (stop,) = [a for a in bench.actions() if isinstance(a, StopJob)]
    assert (stop.job, stop.attempt, stop.state) == (1, 1, "cancelled")
    assert stop.reason == "preempted: job 2 needs the room"
    says(bench, 1, 1, "cancelled", signal=15, reason=stop.reason)
    again = job(bench, 1)
    assert (again.state, again.reason) == ("pending", "preempted, waits again")
    assert again.attempts[0].reason == stop.reason
    assert starts(bench) == [(1, 1), (2, 1)]
    says(bench, 2, 1, "succeeded", exit_code=0)
    assert starts(bench) == [(1, 1), (2, 1), (1, 2)]


def test_a_forgotten_job_is_deleted_at_every_node_that_has_something_of_it(bench: Bench) -> None:
    bench.submit("s", retries=1, backoff_s=1)
    says(bench, 1, 1, "failed", exit_code=1)
    bench.hello("n2")
    bench.feed(events.Admin("d", drained("n1", bench).requests, drained("n1", bench).settings))
    bench.tick(1.2)
    record = job(bench, 1)
    assert record.decision is not None and record.decision.node == "n2"
    made = Outcome(*bench.key(1, 2), 1, "succeeded", bench.now)
    bench.feed(events.Outcomes("o", "n2", (made,)))
    for number in range(2, 20):
        bench.submit(number)
        made = Outcome(*bench.key(number), 1, "succeeded", bench.now)
        bench.feed(events.Outcomes(-number, "n2", (made,)))
    with pytest.raises(NotFound):
        job(bench, 1)
    assert ForgetJob(1) in bench.actions("n1") and ForgetJob(1) in bench.actions("n2")


def drained(node: str, bench: Bench) -> events.Admin:
    from stoker.mesh.server import administration
    from stoker.mesh.wire.schema import NodeDrainRequest

    request = NodeDrainRequest(node=node)
    return administration.node_drain("d", request, bench.replica.state, bench.now)


def test_a_model_may_be_named_in_part_and_an_unknown_one_is_refused(bench: Bench) -> None:
    bench.submit("s", gpu_milli=1000, models=("M",))
    assert bench.replies["s"].state == "starting"
    bench.submit("t", gpu_milli=1000, models=("h100",))
    assert isinstance(bench.replies["t"], BadRequest)
    assert "'h100' is known. There are: m" in str(bench.replies["t"])


def test_a_label_of_the_nodes_own_decides_where_a_job_may_run(bench: Bench) -> None:
    bench.submit("none", require=("zone=a",))
    assert isinstance(bench.replies["none"], BadRequest)
    report = bench.replica.state.book.nodes["n1"]
    labelled = NodeReport(
        "n2", "b2", 2, 8000, 1 << 34, report.devices, labels=("zone=a", "disk=fast")
    )
    bench.feed(events.NodeReported("h", labelled))
    bench.submit("one", require=("zone=a",))
    assert bench.replies["one"].decision.node == "n2"
    bench.submit("two", avoid=("zone=a",))
    assert bench.replies["two"].decision.node == "n1"
    plain = NodeReport("n2", "b2", 3, 8000, 1 << 34, report.devices, labels=("disk=fast",))
    bench.feed(events.NodeReported("h2", plain))
    bench.submit("three", require=("zone=a",))
    assert isinstance(bench.replies["three"], BadRequest)


def test_running_jobs_are_charged_now_and_then_by_what_was_measured(bench: Bench) -> None:
    from stoker.mesh.server import administration
    from stoker.mesh.wire.schema import QueueSetRequest

    state = bench.replica.state
    bench.feed(administration.queue_set("q", QueueSetRequest(queue="batch"), state, bench.now))
    bench.submit("s", gpu_milli=1000, queue="batch")
    says(bench, 1, 1, "running")
    bench.tick(1)
    sample = Observation(5, "n1", bench.now, 0, 0, jobs=(JobSample(*bench.key(1), 3_000_000_000),))
    bench.feed(events.Observed("n1", sample))
    bench.tick(10)
    info = state.core.job(1)
    assert info is not None and info.charged_ns == 3_000_000_000
    bench.feed(events.Observed("n1", Observation(6, "n1", bench.now, 0, 0)))
    bench.tick(10)
    info = state.core.job(1)
    assert info is not None and 20_000_000_000 < info.charged_ns < 23_000_000_000
    says(bench, 1, 1, "succeeded", device_ns=4_000_000_000)
    info = state.core.job(1)
    assert info is not None and info.attained_ns > 20_000_000_000  # charges stay


def test_a_snapshot_knows_queues_labels_and_drained_nodes(bench: Bench, tmp_path: Path) -> None:
    from stoker.mesh.replica.state import ReplicaState
    from stoker.mesh.server import administration
    from stoker.mesh.wire.schema import NodeLabelRequest, QueueSetRequest

    state = bench.replica.state
    bench.feed(administration.queue_set("q", QueueSetRequest(queue="a"), state, bench.now))
    label = NodeLabelRequest(node="n1", labels=("zone=b",), taints=("gpu=only",))
    bench.feed(administration.node_label("l", label, state, bench.now))
    bench.feed(drained("n1", bench))
    restored = ReplicaState.restore(state.snapshot())
    assert restored.digest() == state.digest()
    assert list(restored.book.queues.values()) == ["a"]
    assert restored.book.drained == {"n1": "on request"}


def test_a_job_lost_by_a_reboot_is_tried_again_and_only_then(bench: Bench) -> None:
    bench.submit("again", retries=1, backoff_s=1)
    bench.submit("once")
    for number in (1, 2):
        says(bench, number, 1, "running")
    bench.hello("n1", "boot-2", 2)
    (lost,) = job(bench, 1).attempts
    assert (lost.state, lost.reason) == ("lost", "its node rebooted or was given up")
    assert lost.exit_code is None
    assert job(bench, 2).state == "lost"
    bench.tick(1.2)
    assert starts(bench)[-1] == (1, 2)


def test_an_array_cut_by_a_full_batch_is_not_refused_for_that() -> None:
    taken = Fate(0, None)
    full = Fate(-1, Rejected(1, 5, Reason.BATCH_FULL, 0, 0, 0))
    held = Fate(-1, Rejected(1, 5, Reason.JOBS_FULL, 0, 0, 9))
    work = SubmitWork(None, ALICE, b"", JobSpec(("x",)), array=(1, 2))
    assert work.is_torn([taken, full]) and work.why_torn([taken, full]) is None
    assert "9 jobs are waiting" in str(work.why_torn([taken, held]))
    assert not work.is_torn([taken, taken]) and not work.is_torn([held, held])


def test_a_short_job_that_is_only_reported_with_its_end_has_its_start(bench: Bench) -> None:
    bench.submit("s", retries=1, backoff_s=5)
    says(bench, 1, 1, "failed", exit_code=1, started_ns=bench.now - 7)
    assert job(bench, 1).attempts[0].started_ns == bench.now - 7
    assert job(bench, 1).started_ns is None
    bench.submit("t")
    says(bench, 2, 1, "succeeded", exit_code=0, started_ns=bench.now - 5)
    assert (job(bench, 2).started_ns, job(bench, 2).ended_ns) == (bench.now - 5, bench.now)


def test_the_start_that_was_reported_first_stays(bench: Bench) -> None:
    bench.submit("s")
    begun = bench.now
    says(bench, 1, 1, "running")
    says(bench, 1, 1, "succeeded", exit_code=0, started_ns=begun + 9)
    assert job(bench, 1).started_ns == begun
