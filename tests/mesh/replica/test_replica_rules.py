# SPDX-License-Identifier: Apache-2.0
"""The replica's rules one by one: nothing is answered early, done twice or guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work_queue import QUEUE_NS
from stoker.mesh.server import cluster_views
from stoker.mesh.wire import command
from stoker.mesh.wire.command import CommandAccepted, DesiredState, NodeReply
from stoker.native.errors import BadRequest, KeyWindow, NotFound, Refused, Unavailable
from stoker.scheduler.book import Job
from stoker.scheduler.hints import Sample
from stoker.scheduler.nouns import (
    DeviceInfo,
    DeviceSample,
    ForgetJob,
    Observation,
    StartJob,
    StopJob,
    TaskKey,
    Usage,
)
from tests.mesh.bench import BOB, CLUSTER, LEADER, LIMITS, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


# --- jobs -----------------------------------------------------------------------------------------


def test_device_samples_reach_the_core(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bytes]] = []
    monkeypatch.setattr(
        bench.replica.state.core, "observe_packed", lambda _, *more: seen.append(more)
    )
    known = bench.replica.state.book.nodes["n1"].devices
    samples = (DeviceSample("nowhere", 1.0), DeviceSample(known[-1].id, 0.5, 300.0, None))
    bench.feed(events.Observed("n1", Observation(41, "n1", 1, 100, 1 << 30, samples)))
    assert seen == [(len(known) - 1, Sample(41, 300.0, None, None, 0.5).pack())]


def test_from_submit_to_end(bench: Bench) -> None:
    bench.feed(events.Observed("n1", Observation(41, "n1", 1, 100, 1 << 30)))
    bench.submit("s", gpu_milli=1000, argv=("train", "x"), env={"A": "b"})
    job = bench.replies["s"]
    assert (job.job, job.state, job.owner.user) == (1, "starting", "alice")
    (start,) = bench.actions()
    assert isinstance(start, StartJob)
    assert start.spec.argv == ("train", "x")
    assert start.owner.groups == (27,)
    assert start.decision == job.decision
    assert (start.decision.node, start.decision.devices[0].milli) == ("n1", 1000)
    assert start.decision.observations == ()  # this placement reads no observation
    assert start.decision.id >> 16 == bench.replica.state.seen
    bench.outcome(1, "running")
    assert bench.replica.state.book.get(1).started_ns == bench.now
    reply = bench.outcome(1, "failed", exit_code=3, usage=Usage(1, 2, 3, 4))
    assert reply == NodeReply(True, term=1)
    done = bench.replica.state.book.get(1)
    assert (done.state, done.exit_code, done.reason) == ("failed", 3, "exit code 3")
    assert done.usage == Usage(1, 2, 3, 4)


def test_nothing_is_answered_or_started_before_it_is_in_the_log(bench: Bench) -> None:
    bench.answering = False
    bench.submit("s")
    assert "s" not in bench.replies
    assert bench.actions() == []
    bench.feed(bench.land())
    assert bench.replies["s"].job == 1
    assert len(bench.actions()) == 1


def test_requests_that_arrive_meanwhile_go_into_the_next_entry(bench: Bench) -> None:
    bench.answering = False
    for n in range(20):
        bench.submit(n)
    assert len(bench.appends) == 1
    bench.feed(bench.land())
    assert len(bench.appends) == 1
    bench.feed(bench.land())
    assert not bench.appends
    assert [bench.replies[n].job for n in range(20)] == list(range(1, 21))


@pytest.mark.parametrize("reason", ["exit code 0", "", "spawn: no such file"])
def test_the_nodes_words_are_kept(bench: Bench, reason: str) -> None:
    bench.submit("s")
    bench.outcome(1, "failed", reason=reason)
    assert bench.replica.state.book.get(1).reason == (reason or "reported by the node")


def test_the_same_outcome_twice_is_one(bench: Bench) -> None:
    bench.submit("s")
    for _ in range(3):
        assert bench.outcome(1, "running") == NodeReply(True, term=1)
        assert bench.outcome(1, "succeeded", exit_code=0) == NodeReply(True, term=1)
    assert bench.replica.state.book.get(1).state == "succeeded"
    assert bench.replica.state.core.check() == ""


def test_another_node_cannot_end_a_job(bench: Bench) -> None:
    bench.submit("s")
    bench.hello("n2")
    reply = bench.outcome(1, "succeeded", node="n2")
    assert reply.ok
    assert "does not run that task" in reply.message
    assert bench.replica.state.book.get(1).state == "starting"


def test_more_than_exists_is_refused_and_changes_nothing(bench: Bench) -> None:
    before = bench.replica.state.digest()
    bench.submit("s", gpu_milli=2000)
    assert isinstance(bench.replies["s"], BadRequest)
    assert "the largest node has 1" in bench.replies["s"].message
    assert bench.replica.state.digest() == before


def test_a_full_queue_refuses_and_takes_again(signer: Identity) -> None:
    bench = Bench(signer).lead()
    for n in range(LIMITS.jobs + 1):
        bench.submit(n)
    assert isinstance(bench.replies[LIMITS.jobs], Refused)
    bench.feed(events.CancelRequested("c", [1], ""))
    bench.submit("again")
    assert bench.replies["again"].job == LIMITS.jobs + 1


def test_a_reboot_loses_what_ran(bench: Bench) -> None:
    bench.submit("s")
    bench.outcome(1, "running")
    bench.hello(boot="boot-2", incarnation=2)
    job = bench.replica.state.book.get(1)
    assert (job.state, job.reason) == ("lost", "node rebooted")


def test_retention_forgets_at_the_node_too(bench: Bench) -> None:
    for n in range(LIMITS.finished * 2 // 3 + 1):
        bench.submit(n)
        bench.outcome(n + 1, "succeeded", exit_code=0)
    with pytest.raises(NotFound):
        bench.replica.state.book.get(1)
    assert bench.replica.state.book.get(2).state == "succeeded"
    assert [a for a in bench.actions() if isinstance(a, ForgetJob)] == [ForgetJob(1)]


# --- idempotency ----------------------------------------------------------------------------------


def test_a_key_is_one_job_also_in_flight_and_after_a_restart(
    bench: Bench, signer: Identity
) -> None:
    bench.answering = False
    bench.submit("a", key=b"k")
    bench.submit("b", key=b"k")
    bench.feed(bench.land())
    bench.submit("c", key=b"k")
    while bench.appends:
        bench.feed(bench.land())
    assert {bench.replies[token].job for token in "abc"} == {1}
    bench.submit("other", key=b"k", argv=("false",))
    assert isinstance(bench.replies["other"], BadRequest)
    assert "asked for something else" in bench.replies["other"].message
    bench.submit("bob", key=b"k", owner=BOB, argv=("false",))
    again = Bench(signer, bench.log).lead()
    again.submit("d", key=b"k")
    assert again.replies["d"].job == 1


def test_a_repeat_that_may_have_been_forgotten_is_refused(signer: Identity) -> None:
    bench = Bench(signer, limits=LIMITS._replace(keys=8, jobs=256)).lead()
    began = bench.now
    bench.submit("bob", owner=BOB, key=b"b")
    for number in range(20):
        bench.tick()
        bench.submit(number, key=b"%d" % number)
    bench.submit("old", key=b"0", since_ns=began)
    assert isinstance(bench.replies["old"], KeyWindow)
    bench.submit("new", key=b"19", since_ns=bench.now)
    assert bench.replies["new"].job == bench.replies[19].job
    bench.submit("never arrived", key=b"20", since_ns=bench.now)
    assert bench.replies["never arrived"].job == 22
    bench.submit("bob again", owner=BOB, key=b"b", since_ns=began)
    assert bench.replies["bob again"].job == 1
    bench.submit("bob's other", owner=BOB, key=b"c", since_ns=began)
    assert bench.replies["bob's other"].job == 23


# --- cancelling -----------------------------------------------------------------------------------


def test_cancel_pending_starting_running_and_ended(bench: Bench) -> None:
    bench.submit("run")
    bench.submit("gpu", gpu_milli=1000)
    bench.submit("wait", gpu_milli=1000)
    bench.outcome(1, "running")
    bench.feed(events.CancelRequested("c", [1, 2, 3], "enough"))
    assert [tuple(row[:3]) for row in bench.replies["c"]] == [
        (1, "stopping", True),
        (2, "stopping", True),
        (3, "cancelled", True),
    ]
    stops = [action for action in bench.actions() if isinstance(action, StopJob)]
    assert [stop.job for stop in stops] == [1, 2]
    assert stops[0].reason == "cancelled on request: enough"
    bench.outcome(1, "cancelled", signal=15, reason="ended by signal 15")
    ended = bench.replica.state.book.get(1)
    assert (ended.state, ended.reason) == ("cancelled", "cancelled on request: enough")
    bench.feed(events.CancelRequested("d", [1, 3], ""))
    assert [row.changed for row in bench.replies["d"]] == [False, False]


def test_cancelling_more_than_one_entry_holds(signer: Identity) -> None:
    limits = LIMITS._replace(jobs=3000, finished=4500)
    bench = Bench(signer, limits=limits).lead()
    bench.submit_many(2500)
    bench.feed(events.CancelRequested("c", list(range(1, 2501)), "x" * 200))
    answer = bench.replies["c"]
    assert len(answer) == 2500
    assert all(row.state == "cancelled" for row in answer)


# --- waiting --------------------------------------------------------------------------------------


def test_get_waits_for_the_state_or_the_deadline(bench: Bench) -> None:
    bench.submit("s")
    soon = bench.now + 10**9
    bench.feed(events.Get("now", 1, "", soon), events.Get("run", 1, "running", soon))
    bench.feed(events.Get("end", 1, "ended", soon), events.Get("none", 9, "ended", soon))
    assert bench.replies["now"].state == "starting"
    assert isinstance(bench.replies["none"], NotFound)
    assert "run" not in bench.replies
    bench.outcome(1, "running")
    assert bench.replies["run"].state == "running"
    bench.tick(2.0)
    assert bench.replies["end"].state == "running"


# --- commands -------------------------------------------------------------------------------------


def test_a_node_that_caught_up_follows_the_chain(bench: Bench) -> None:
    chain = bench.chain()
    bench.feed(events.StateRequested("r", "n1", chain.state_request(())))
    assert isinstance(chain.reconcile(bench.replies["r"]), DesiredState)
    for n in range(3):
        bench.submit(n)
    assert bench.sent
    for sent in bench.sent:
        assert isinstance(chain.offer(sent.data), CommandAccepted)


def test_the_wanted_state_after_everything_was_missed(bench: Bench) -> None:
    for n in range(4):
        bench.submit(n)
    bench.outcome(2, "running")
    bench.outcome(3, "running")
    bench.outcome(3, "succeeded")
    bench.feed(events.CancelRequested("c", [4], ""))
    chain = bench.chain()
    have = tuple(map(bench.key, (2, 3, 4, 99)))
    bench.feed(events.StateRequested("r", "n1", chain.state_request(have)))
    desired = chain.reconcile(bench.replies["r"])
    assert isinstance(desired, DesiredState)
    assert desired.wanted == tuple(map(bench.key, (1, 2, 4)))
    assert [start.job for start in desired.starts] == [1]
    assert [(stop.job, stop.state) for stop in desired.stops] == [(4, "cancelled"), (3, "lost")]
    assert desired.forgets == (99,)


def test_an_attempt_that_ran_is_never_started_again(bench: Bench) -> None:
    """A node that lost its journal must report the loss; the scheduler does not run it twice."""
    bench.submit("s")
    bench.outcome(1, "running")
    chain = bench.chain()
    bench.feed(events.StateRequested("r", "n1", chain.state_request(())))
    desired = chain.reconcile(bench.replies["r"])
    assert isinstance(desired, DesiredState)
    assert (desired.wanted, desired.starts) == ((bench.key(1),), ())


def test_large_starts_come_in_parts(signer: Identity) -> None:
    bench = Bench(signer, limits=LIMITS._replace(node_tasks=64)).lead().hello()
    for n in range(12):
        bench.submit(n, argv=("x" * 100_000,))
    chain = bench.chain()
    have: tuple[TaskKey, ...] = ()
    rounds = 0
    while True:
        bench.feed(events.StateRequested(("round", rounds), "n1", chain.state_request(have)))
        answer = bench.replies["round", rounds]
        assert len(answer) <= command.COMMAND_BYTES_MAX
        desired = chain.reconcile(answer)
        assert isinstance(desired, DesiredState)
        have += tuple(start.key for start in desired.starts)
        rounds += 1
        if not desired.more:
            break
    assert sorted(key.job for key in have) == list(range(1, 13))
    assert rounds > 2


def test_the_largest_answer_fits_into_one_message(signer: Identity) -> None:
    limits = LIMITS._replace(jobs=4096, tasks=4096, node_tasks=4096, finished=4096)
    bench = Bench(signer, limits=limits).lead().hello()
    bench.submit_many(3000)
    bench.feed(events.CancelRequested("c", list(range(1, 2501)), "r" * 200))
    have = tuple(TaskKey(job, 2, 0) for job in range(1, command.HAVE_MAX + 1))
    chain = bench.chain()
    bench.feed(events.StateRequested("r", "n1", chain.state_request(have)))
    assert len(bench.replies["r"]) <= command.COMMAND_BYTES_MAX
    assert isinstance(chain.reconcile(bench.replies["r"]), DesiredState)


def test_many_large_actions_of_one_entry_are_several_commands(signer: Identity) -> None:
    bench = Bench(signer).lead()
    for n in range(8):
        bench.submit(n, argv=("x" * 100_000,))
    bench.hello()
    assert len(bench.actions()) == 8
    sealed = [sent.data for sent in bench.sent]
    assert len(sealed) > 2
    assert all(len(data) <= command.COMMAND_BYTES_MAX for data in sealed)


def test_a_date_set_back_stops_nothing(bench: Bench) -> None:
    bench.replica.step(events.TimePassed(), bench.now, bench.now)
    bench.submit("late", gpu_milli=1000)
    out = bench.replica.step(events.TimePassed(), bench.now - 10**15, bench.now + 2 * 10**9)
    assert any(isinstance(effect, events.RenewLeases) for effect in out)


# --- what the log may do --------------------------------------------------------------------------


def forge(bench: Bench, signer: Any, **changes: Any) -> bytes:
    state = bench.replica.state
    made = entry.Entry(
        entry.FORMAT,
        CLUSTER,
        state.term,
        LEADER,
        state.batch + 1,
        state.index,
        state.hash,
        state.index,
        bench.now,
        b"",
    )
    return entry.seal(msgspec.structs.replace(made, **changes), signer).data


def read_back(bench: Bench, *data: bytes) -> None:
    """Append entries that the replica did not make, and make it read forward."""
    for item in data:
        bench.log.append(bench.log.last, item)
    bench.feed(events.LogFailed("test"))
    bench.tick(2.0)


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"cluster": "other"}, "entry_cluster"),
        ({"term": 0}, "entry_term"),
        ({"batch": 1}, "entry_repeat"),
        ({"prev_index": 1}, "entry_stale"),
        ({"leader": 5}, "entry_signature"),
    ],
)
def test_entries_that_do_not_count_are_passed_over(
    bench: Bench, signer: Identity, changes: dict[str, Any], counter: str
) -> None:
    read_back(bench, forge(bench, signer, **changes))
    assert bench.replica.state.refused == {counter: 1}
    assert bench.replica.role == "leading"
    bench.submit("after")
    assert bench.replies["after"].job == 1


def test_a_forged_entry_is_passed_over(bench: Bench, signer: Identity, tmp_path: Path) -> None:
    thief = identity.create(tmp_path / "t")
    read_back(bench, forge(bench, thief))
    assert bench.replica.state.refused == {"entry_signature": 1}


@pytest.mark.parametrize(
    "changes", [{"prev_hash": b"x" * 32}, {"prev_index": 10**6, "prev_hash": b"y" * 32}]
)
def test_a_broken_chain_halts(bench: Bench, signer: Identity, changes: dict[str, Any]) -> None:
    bench.submit("s")
    digest = bench.replica.state.digest()
    read_back(bench, forge(bench, signer, **changes))
    assert "the chain is broken" in bench.halted
    assert bench.replica.status().startswith("blocked")
    bench.submit("after")
    assert isinstance(bench.replies["after"], Unavailable)
    assert bench.replica.state.digest() == digest


def test_a_gap_halts(bench: Bench, signer: Identity) -> None:
    data = forge(bench, signer, prev_index=bench.replica.state.seen + 1)
    bench.feed(events.LogFailed("test"))
    bench.feed(events.LogEntries([(bench.replica.state.seen + 2, data)]))
    assert "is missing" in bench.halted


def test_damaged_bytes_halt(bench: Bench, signer: Identity) -> None:
    data = bytearray(forge(bench, signer))
    data[100] ^= 4
    read_back(bench, bytes(data))
    assert "checksum" in bench.halted


def test_a_second_scheduler_ends_the_first(bench: Bench, signer: Identity) -> None:
    Bench(signer, bench.log).lead()
    bench.submit("s")
    bench.tick(2.0)
    assert "another scheduler took the lead" in bench.halted
    assert isinstance(bench.replies["s"], Unavailable)


def test_a_log_that_lost_entries_halts(bench: Bench) -> None:
    bench.feed(events.LogBroken("the log ends at entry 1, though it confirmed entry 3"))
    assert bench.replica.role == "halted"


def test_an_unknown_append_that_landed_is_done_once(bench: Bench) -> None:
    bench.answering = False
    bench.submit("s")
    landed = bench.appends.pop()
    bench.log.append(landed.tail, landed.data)
    bench.feed(events.LogFailed("no answer"))
    assert "s" not in bench.replies
    bench.answering = True
    bench.tick(2.0)
    assert bench.replies["s"].job == 1
    assert [type(action) for action in bench.actions()] == [StartJob]
    assert bench.leads == 2  # in the same term, since the log ended with an entry of this replica


def test_an_unknown_append_that_got_lost_is_made_again_behind_a_barrier(bench: Bench) -> None:
    term = bench.replica.state.term
    bench.answering = False
    bench.submit("s")
    lost = bench.appends.pop()
    bench.feed(events.LogFailed("no answer"))
    bench.answering = True
    bench.tick(2.0)
    assert bench.replies["s"].job == 1
    assert bench.replica.state.term == term + 8
    tail = bench.log.last
    bench.log.append(tail, lost.data)  # it arrives late, and the engine's check fails
    bench.submit("t")
    bench.tick(2.0)
    assert bench.replica.state.refused == {"entry_stale": 1}
    assert bench.replies["t"].job == 2


def test_a_dead_log_refuses_users_and_names_unknown_outcomes(bench: Bench) -> None:
    bench.answering = False
    bench.submit("sent")
    bench.submit("queued")
    bench.feed(events.LogFailed("disk full"))
    bench.appends.clear()
    for _ in range(60):
        bench.now += 10**8
        for effect in bench.replica.step(events.TimePassed(), bench.now, bench.now):
            if isinstance(effect, events.Read):
                bench.feed(events.LogFailed("disk full"))
            elif isinstance(effect, events.Reply):
                bench.replies[effect.token] = effect.value
    assert isinstance(bench.replies["sent"], Unavailable)
    assert "not known" in bench.replies["sent"].message
    assert isinstance(bench.replies["queued"], Refused)
    assert "nothing was changed" in bench.replies["queued"].message
    bench.submit("late")
    assert isinstance(bench.replies["late"], Refused)
    assert bench.replica.status() == "blocked: disk full"
    bench.answering = True
    bench.feed(events.LogReachable())
    assert bench.replica.status() == "ok"
    bench.submit("fine")
    assert isinstance(bench.replies["fine"], Job)


def test_a_full_disk_refuses_submits_and_nothing_else(bench: Bench) -> None:
    bench.submit("s")
    bench.feed(events.Disk("1 MiB free, 64 MiB are kept in reserve"))
    bench.submit("no")
    assert "64 MiB are kept" in bench.replies["no"].message
    assert bench.outcome(1, "succeeded").ok
    bench.feed(events.Disk(""))
    bench.submit("yes")
    assert bench.replies["yes"].job == 2


# --- nodes ----------------------------------------------------------------------------------------


def test_a_repeated_hello_appends_nothing(bench: Bench) -> None:
    last = bench.log.last
    bench.feed(events.NodeReported("again", bench.replica.state.book.nodes["n1"]))
    assert bench.replies["again"] == NodeReply(True, term=1)
    assert bench.log.last == last


def test_a_report_that_differs_in_words_is_kept(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    changed = msgspec.structs.replace(report, missing=("no BPF: not permitted",))
    bench.feed(events.NodeReported("changed", changed))
    assert bench.replica.state.book.nodes["n1"] == changed


def test_an_unavailable_device_is_not_granted(bench: Bench) -> None:
    report = bench.replica.state.book.nodes["n1"]
    held = msgspec.structs.replace(report.devices[0], unavailable="held by pid 812 (python3)")
    bench.feed(events.NodeReported("held", msgspec.structs.replace(report, devices=(held,))))
    bench.submit("s", gpu_milli=1)
    assert bench.replies["s"].state == "pending"
    bench.feed(events.NodeReported("free", report))
    assert bench.replica.state.book.get(1).state == "starting"


def test_a_device_that_is_gone_and_unused_is_not_listed(bench: Bench) -> None:
    """Admission, errors and lists ignore a device that is gone, until it is back."""
    report = bench.replica.state.book.nodes["n1"]
    cpu = DeviceInfo("pocl-0", "pocl", "cpu", kind="cpu")
    bench.feed(
        events.NodeReported("two", msgspec.structs.replace(report, devices=(*report.devices, cpu)))
    )
    bench.submit("held", gpu_milli=1000)
    ghost = msgspec.structs.replace(report.devices[0], gone=True)
    bench.feed(events.NodeReported("gone", msgspec.structs.replace(report, devices=(ghost, cpu))))

    def listed() -> list[str]:
        return [d.id for d in cluster_views.device_list(bench.replica, None).devices]

    assert listed() == ["gpu-0", "pocl-0"]
    bench.outcome(1, "failed", exit_code=1)
    assert listed() == ["pocl-0"]
    (node,) = cluster_views.node_list(bench.replica, bench.now).nodes
    assert node.devices == 1
    bench.submit("gpu", gpu_milli=1000)
    bench.submit("model", gpu_milli=1000, models=("m",))
    assert "this node has no GPU. --device-kind cpu" in str(bench.replies["gpu"])
    assert "no device of model 'm' is known" in str(bench.replies["model"])
    bench.feed(
        events.NodeReported("back", msgspec.structs.replace(report, devices=(*report.devices, cpu)))
    )
    bench.submit("again", gpu_milli=1000, models=("m",))
    assert bench.replies["again"].state == "starting"
    assert listed() == ["gpu-0", "pocl-0"]


def test_an_unknown_node_has_no_wanted_state(bench: Bench) -> None:
    bench.feed(events.StateRequested("r", "n9", bench.chain("n9").state_request(())))
    assert isinstance(bench.replies["r"], Unavailable)
    bench.feed(events.Observed("n9", Observation(1, "n9", 1, 1, 1)))
    assert bench.replica.counters["observation_unknown_node"] == 1


def test_work_that_waits_too_long_is_refused_and_never_done(bench: Bench) -> None:
    """An append that is neither confirmed nor refused keeps everything behind it waiting."""
    bench.answering = False
    bench.submit("sent")
    bench.submit("queued")
    bench.tick(QUEUE_NS / 1e9 - 1)
    bench.submit("later")
    bench.tick(1)
    assert isinstance(bench.replies.get("queued"), Refused) and "sent" not in bench.replies
    assert bench.replica.counters["queue_late"] == 1
    bench.answering = True
    bench.feed(bench.land())
    assert [bench.replies[token].job for token in ("sent", "later")] == [1, 2]
