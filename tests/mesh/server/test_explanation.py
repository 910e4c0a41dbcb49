# SPDX-License-Identifier: Apache-2.0
"""`stoker explain` of every kind of job as golden text, for a reader who knows nothing of the code.

Each scene is a replica with one node and one job that is explained. `make golden` rewrites the
texts under tests/golden/explain: read them before they are committed.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.server import administration, explanation, silent_nodes
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema import encode
from stoker.scheduler.array_indexes import ArrayIndexes, Run
from stoker.scheduler.followed_ranges import JobRange
from stoker.scheduler.nouns import DeviceInfo, JobSpec, NodeReport, Outcome
from stoker.tui.render import explain
from tests.mesh.bench import ALICE, BOB, Bench

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "explain"
GIB = 1 << 30
CARDS = (
    DeviceInfo("GPU-a", "nvidia", "L40S", memory_bytes=48 * GIB),
    DeviceInfo("GPU-b", "nvidia", "L40S", memory_bytes=48 * GIB),
    DeviceInfo("pocl-0", "pocl", "cpu", kind="cpu"),
)
SCENES: dict[str, Callable[[Bench], int]] = {}
"""The function of each scene, by name; it makes the scene and returns the job to explain."""


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    made = Bench(signer).lead()
    return report(made, CARDS)


def scene(make: Callable[[Bench], int]) -> Callable[[Bench], int]:
    SCENES[make.__name__] = make
    return make


def report(bench: Bench, devices: tuple[DeviceInfo, ...], **more: Any) -> Bench:
    node = NodeReport("n1", "boot-1", 1, 8000, 16 * GIB, devices, **more)
    bench.feed(events.NodeReported(("hello", bench.now, len(bench.replies)), node))
    return bench


def submit(bench: Bench, **spec: Any) -> int:
    token = ("submit", len(bench.replies))
    bench.submit(token, **spec)
    made = bench.replies[token]
    assert not isinstance(made, Exception), made
    return int(made.job)


def begin(bench: Bench, job: int) -> None:
    bench.outcome(job, "running", started_ns=bench.now)


def settle(bench: Bench, work: Callable[[Any], Any]) -> None:
    """Commit an administrator's request."""
    token = ("admin", len(bench.replies))
    bench.feed(work(token))
    assert not isinstance(bench.replies[token], Exception), bench.replies[token]


def queue_set(bench: Bench, name: str, order: str) -> None:
    request = schema.QueueSetRequest(name, order=order)  # type: ignore[arg-type]
    settle(bench, lambda t: administration.queue_set(t, request, bench.replica.state, bench.now))


def text_of(bench: Bench, job: int) -> str:
    record = bench.replica.state.book.get(job)
    view = explanation.explain_view(bench.replica, record, bench.now)
    return explain.render(msgspec.json.decode(encode(view)), now_ns=bench.now, whole=True) + "\n"


# --- waiting --------------------------------------------------------------------------------------


@scene
def behind_the_order(bench: Bench) -> int:
    """One GPU is free, but the next job in the queue needs two and may not be overtaken."""
    submit(bench, gpu_milli=1000)
    submit(bench, owner=BOB, gpu_milli=2000)
    return submit(bench, gpu_milli=1000)


@scene
def expected_by_time_limits(bench: Bench) -> int:
    """All that hold a GPU have a time limit, so the next job starts at the last of them."""
    for hours in (1.0, 2.0):
        begin(bench, submit(bench, gpu_milli=1000, time_limit_s=hours * 3600))
    begin(bench, submit(bench))
    return submit(bench, gpu_milli=1000)


@scene
def expected_by_estimates(bench: Bench) -> int:
    for hours in (1.0, 2.0):
        begin(bench, submit(bench, gpu_milli=1000, estimate_s=hours * 3600))
    submit(bench, gpu_milli=1000, estimate_s=60.0)
    return submit(bench, gpu_milli=1000)


@scene
def expected_by_nobody(bench: Bench) -> int:
    begin(bench, submit(bench, gpu_milli=1000, time_limit_s=60.0))
    begin(bench, submit(bench, gpu_milli=1000))
    return submit(bench, gpu_milli=1000)


@scene
def behind_a_job_that_cannot_start_in_strict_order(bench: Bench) -> int:
    queue_set(bench, "default", "fifo")
    submit(bench, owner=BOB, gpu_milli=2000)
    report(bench, (CARDS[0], gone_bad(CARDS[1]), CARDS[2]))
    bench.outcome(1, "failed", exit_code=1)
    submit(bench, owner=BOB, gpu_milli=2000)
    return submit(bench, gpu_milli=1000)


@scene
def no_device_of_its_kind_any_more(bench: Bench) -> int:
    submit(bench, gpu_milli=2000)
    waits = submit(bench, gpu_milli=1000)
    gone = tuple(msgspec.structs.replace(card, gone=True) for card in CARDS[:2])
    report(bench, (*gone, CARDS[2]))
    bench.outcome(1, "failed", exit_code=1)
    return waits


@scene
def at_its_queues_limit(bench: Bench) -> int:
    queue_set(bench, "small", "backfill")
    request = schema.QueueQuotaRequest("small", limit_milli=1000)
    settle(bench, lambda t: administration.queue_quota(t, request, bench.replica.state, bench.now))
    submit(bench, queue="small", gpu_milli=1000)
    return submit(bench, queue="small", gpu_milli=500)


@scene
def after_another_job(bench: Bench) -> int:
    return submit(bench, after=(submit(bench),))


@scene
def after_several_jobs(bench: Bench) -> int:
    """One of them has ended as wanted, and is no reason to wait any more."""
    ended, runs = submit(bench), submit(bench)
    chained = submit(bench, after=(submit(bench, after_any=(runs,)),))
    job = submit(bench, after=(ended,), after_any=(chained,), after_fail=(runs,))
    bench.outcome(ended, "succeeded", exit_code=0)
    return job


@scene
def after_a_job_that_ended_otherwise(bench: Bench) -> int:
    first, second = submit(bench), submit(bench)
    job = submit(bench, after=(first,), after_fail=(second,))
    bench.outcome(second, "succeeded", exit_code=0)
    return job


@scene
def after_an_array(bench: Bench) -> int:
    """One of its jobs has failed; another job wants all of them to succeed, and is cancelled."""
    array = JobRange(array_of(bench, 1000), 1000)
    job = submit(bench, after_any=(array.number,), after_fail=(submit(bench),))
    submit(bench, after=(array.number,))
    bench.outcome(array.first, "failed", exit_code=1)
    return job


@scene
def after_the_success_of_an_array(bench: Bench) -> int:
    array = JobRange(array_of(bench, 3), 3)
    job = submit(bench, after=(array.number,))
    bench.outcome(array.first, "succeeded", exit_code=0)
    return job


@scene
def after_an_array_that_failed(bench: Bench) -> int:
    array = JobRange(array_of(bench, 1000), 1000)
    job = submit(bench, after=(array.number,))
    bench.outcome(array.first, "failed", exit_code=1)
    return job


@scene
def after_the_failure_of_an_array(bench: Bench) -> int:
    array = JobRange(array_of(bench, 3), 3)
    job = submit(bench, after_fail=(array.number,))
    bench.outcome(array.first, "timeout")
    return job


@scene
def after_a_job_that_waits_in_its_array(bench: Bench) -> int:
    first = array_of(bench, 1000)
    return submit(bench, after=(JobRange(first + 900, 1).number,))


def array_of(bench: Bench, size: int) -> int:
    """An array of which one job runs; the number of its first job."""
    spec = JobSpec(("true",), cpu_milli=8000)
    indexes = ArrayIndexes((Run(1, 1, size),))
    bench.feed(events.JobSubmitted("array", ALICE, b"", spec, indexes=indexes))
    return int(bench.replies["array"].job)


@scene
def between_two_attempts(bench: Bench) -> int:
    job = submit(bench, retries=2, backoff_s=30)
    bench.outcome(job, "running")
    bench.outcome(job, "failed", exit_code=3)
    return job


@scene
def runs_as_its_third_attempt(bench: Bench) -> int:
    """Each wait is that of one attempt, and does not have the earlier ones in it."""
    job = submit(bench, retries=2, backoff_s=1)
    for attempt, seconds in ((1, 60), (2, 20)):
        outcome_of(bench, job, attempt, "running", started_ns=bench.now)
        bench.tick(seconds)
        outcome_of(bench, job, attempt, "failed", exit_code=3)
        bench.tick(5)
    outcome_of(bench, job, 3, "running", started_ns=bench.now)
    return job


def outcome_of(bench: Bench, job: int, attempt: int, state: Any, **fields: Any) -> None:
    made = Outcome(*bench.key(job, attempt), 1, state, bench.now, **fields)
    bench.feed(events.Outcomes(("outcome", len(bench.replies)), "n1", (made,)))


def gone_bad(card: DeviceInfo) -> DeviceInfo:
    why = "lost: the driver does not find it on its bus (Xid 79)"
    return msgspec.structs.replace(card, unavailable=why)


@scene
def a_card_is_sick(bench: Bench) -> int:
    report(bench, (CARDS[0], gone_bad(CARDS[1]), CARDS[2]))
    return submit(bench, gpu_milli=2000)


@scene
def a_card_is_cordoned(bench: Bench) -> int:
    request = schema.DeviceCordonRequest(node="n1", device="GPU-b", reason="a new fan")
    settle(
        bench, lambda t: administration.device_cordon(t, request, bench.replica.state, bench.now)
    )
    return submit(bench, gpu_milli=2000)


@scene
def the_node_is_drained(bench: Bench) -> int:
    request = schema.NodeDrainRequest("n1", reason="the disk is changed at 9")
    settle(bench, lambda t: administration.node_drain(t, request, bench.replica.state, bench.now))
    return submit(bench, gpu_milli=1000)


@scene
def the_node_cannot_launch_jobs(bench: Bench) -> int:
    report(
        bench, CARDS, drain="3.0 MiB are free at /var/lib/stoker/agent/jobs, fewer than 64.0 MiB"
    )
    return submit(bench, gpu_milli=1000)


@scene
def the_node_is_drained_and_cannot_launch_jobs(bench: Bench) -> int:
    the_node_is_drained(bench)
    return the_node_cannot_launch_jobs(bench)


@scene
def short_of_memory(bench: Bench) -> int:
    submit(bench, owner=BOB, memory_bytes=12 * GIB)
    return submit(bench, memory_bytes=6 * GIB + GIB // 2)


@scene
def short_of_a_share(bench: Bench) -> int:
    submit(bench, gpu_milli=700)
    submit(bench, owner=BOB, gpu_milli=800)
    return submit(bench, gpu_milli=500)


# --- running and ended ----------------------------------------------------------------------------


def running(bench: Bench, **spec: Any) -> int:
    job = submit(bench, gpu_milli=1000, **spec)
    bench.tick(2)
    bench.outcome(job, "running")
    bench.now += 238_266_506_497
    return job


@scene
def runs(bench: Bench) -> int:
    return running(bench, placement="thermal")


@scene
def placed_by_speed(bench: Bench) -> int:
    """Jobs of this name have run on both models; the faster one is free."""
    report(bench, (*CARDS[:1], DeviceInfo("GPU-h", "nvidia", "H200", memory_bytes=141 * GIB)))
    for launch_ns, model in ((7200, "L40S"), (4000, "H200"), (4100, "H200")):
        job = running(bench, name="train", models=(model,))
        bench.outcome(job, "succeeded", exit_code=0, started_ns=bench.now, launch_ns=launch_ns)
    return running(bench, name="train", placement="fastest")


@scene
def no_speed_is_measured(bench: Bench) -> int:
    return running(bench, placement="fastest")


@scene
def ended_well(bench: Bench) -> int:
    job = running(bench)
    bench.outcome(job, "succeeded", exit_code=0)
    return job


@scene
def ended_by_its_exit_code(bench: Bench) -> int:
    job = running(bench)
    bench.outcome(job, "failed", exit_code=3)
    return job


@scene
def ended_out_of_memory(bench: Bench) -> int:
    job = running(bench)
    why = "killed by the kernel: memory limit 20 MiB reached"
    bench.outcome(job, "failed", signal=9, reason=why)
    return job


@scene
def ended_after_a_process_of_it_was_killed_for_memory(bench: Bench) -> int:
    job = running(bench)
    why = "memory limit 20 MiB was reached: the kernel killed 1 of its processes"
    bench.outcome(job, "failed", exit_code=1, reason=why)
    return job


@scene
def ended_as_all_jobs_were_out_of_memory(bench: Bench) -> int:
    job = running(bench)
    why = "killed by the kernel: all jobs together reached the node's memory limit 2 GiB"
    bench.outcome(job, "failed", signal=9, reason=why)
    return job


@scene
def ended_at_its_limit_of_processes(bench: Bench) -> int:
    job = running(bench)
    bench.outcome(job, "failed", exit_code=2, reason="pids limit 20 was reached 3 times")
    return job


def not_started(bench: Bench, argv: tuple[str, ...], why: int, **spec: Any) -> int:
    """A job whose program could not be started, as the node's shim reports it."""
    job = submit(bench, argv=argv, gpu_milli=1000, **spec)
    bench.outcome(job, "failed", reason=f"cannot start {argv[0]}: {os.strerror(why)}")
    return job


@scene
def ended_without_its_program(bench: Bench) -> int:
    return not_started(bench, ("python", "train.py"), errno.ENOENT)


@scene
def ended_without_its_program_in_its_own_path(bench: Bench) -> int:
    return not_started(bench, ("train",), errno.ENOENT, env={"PATH": "/opt/bin"})


@scene
def ended_for_quotes_around_the_command(bench: Bench) -> int:
    return not_started(bench, ("python3 train.py",), errno.ENOENT)


@scene
def ended_without_its_script(bench: Bench) -> int:
    return not_started(bench, ("./train.sh",), errno.ENOENT, cwd="/data/run")


@scene
def ended_for_a_program_of_others(bench: Bench) -> int:
    return not_started(bench, ("/root/train",), errno.EACCES)


@scene
def ended_for_a_script_without_interpreter(bench: Bench) -> int:
    return not_started(bench, ("/data/train",), errno.ENOEXEC)


@scene
def ended_outside_its_folder(bench: Bench) -> int:
    job = submit(bench, cwd="/root", gpu_milli=1000)
    bench.outcome(job, "failed", reason="cannot enter /root as uid 1000: Permission denied")
    return job


@scene
def cancelled(bench: Bench) -> int:
    job = running(bench)
    bench.feed(events.CancelRequested("cancel", (job,), "wrong data"))
    bench.outcome(job, "cancelled", signal=15)
    return job


@scene
def lost(bench: Bench) -> int:
    job = running(bench)
    bench.outcome(job, "lost", reason="shim killed")
    return job


def test_a_job_on_a_node_that_nobody_hears_says_so(bench: Bench) -> None:
    job = running(bench)
    record, heard = bench.replica.state.book.get(job), bench.replica.nodes.greeted["n1"]

    def first(silent_s: float) -> schema.ReasonView:
        now_ns = heard + int(silent_s * 1e9)
        return explanation.explain_view(bench.replica, record, bench.now, now_ns=now_ns).reasons[0]

    assert first(4.9).code != silent_nodes.CODE
    line = first(600)
    assert (line.code, line.node) == (silent_nodes.CODE, "n1")
    assert line.text.startswith("node n1 was not heard for 10 min 0 s. ")
    assert "`stoker node evict n1`" in line.text
    bench.outcome(job, "lost", reason="shim killed")
    assert first(600).code != silent_nodes.CODE


def test_a_node_that_was_removed_keeps_its_name(bench: Bench) -> None:
    job = running(bench)
    record = bench.replica.state.book.get(job)
    bench.replica.state._names.clear()
    found = explanation.explain_view(bench.replica, record, bench.now).reasons[0]
    assert found.node == "n1" and found.text.startswith("placed on node n1: ")


@pytest.mark.parametrize("name", SCENES)
def test_golden(bench: Bench, name: str) -> None:
    text = text_of(bench, SCENES[name](bench))
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.write_text(text)
    assert text == path.read_text(), f"{path} is not what is said now: see `make golden`"


@pytest.mark.parametrize("name", SCENES)
def test_no_unit_and_no_word_of_the_core_is_shown(bench: Bench, name: str) -> None:
    text = text_of(bench, SCENES[name](bench))
    assert not re.search(r"\d{7,}|\bmilli|\bj\d|[0-9] bytes|_ns\b", text), text
    holders = re.findall(r"stoker cancel (\d+)", text)
    owners = [bench.replica.state.book.get(int(job)).owner for job in holders]
    assert all(owner == ALICE for owner in owners), text


def test_a_reason_of_an_earlier_version_reads_as_the_present_one(bench: Bench) -> None:
    texts = []
    for reason in ("shim killed", "keeper killed"):
        job = running(bench)
        bench.outcome(job, "lost", reason=reason)
        texts.append(re.sub(rf"\b{job}\b", "N", text_of(bench, job).split("\n", 1)[0]))
    assert texts[0] == texts[1]
    assert "was killed" in texts[1]


def test_every_golden_text_has_its_scene() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(SCENES)
