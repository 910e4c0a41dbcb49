# SPDX-License-Identifier: Apache-2.0
"""Further attempts, dependencies, arrays, queues and labels on a whole node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound

pytestmark = pytest.mark.needs_root
FAILS_ONCE = 'echo "try $STOKER_ATTEMPT"; test "$STOKER_ATTEMPT" -gt 1 || exit 7'


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node("--label", "zone=a", "--label", "disk=nvme") as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


def logs(node: LiveNode, job: int, attempt: int) -> bytes:
    request = schema.LogsRequest(job=job, attempt=attempt)
    return node.ask(lambda client: client.logs(request)).data


def test_a_retried_job_keeps_the_output_of_each_attempt(node: LiveNode) -> None:
    done = node.stoker("run", "--retries", "2", "--", "sh", "-c", FAILS_ONCE)
    assert done.stdout == b"try 1\ntry 2\n"
    job = node.jobs()[0]
    assert f"job {job}: attempt 1 is over (exit code 7), attempt 2 follows" in done.stderr.decode()
    view = node.wait(job)
    assert (view.state, view.attempt, view.exit_code) == ("succeeded", 2, 0)
    assert [(each.attempt, each.exit_code) for each in view.attempts] == [(1, 7)]
    assert node.stoker("logs", str(job)).stdout == b"try 2\n"
    assert node.stoker("logs", "--attempt", "1", str(job)).stdout == b"try 1\n"
    assert "attempt 1" in node.stoker("job", str(job)).stdout.decode()
    gone = node.stoker("logs", "--attempt", "3", str(job), check=False)
    assert (gone.returncode, gone.stdout) == (1, b"")
    assert f"attempt 3 of job {job} is not known" in gone.stderr.decode()


def test_retries_end_and_the_job_has_failed(node: LiveNode) -> None:
    done = node.stoker("run", "--retries", "1", "--", "sh", "-c", "exit 9", check=False)
    assert done.returncode == 9
    view = node.wait(node.jobs()[0])
    assert (view.state, view.attempt) == ("failed", 2)


def test_a_job_starts_after_another_and_not_after_one_that_failed(node: LiveNode) -> None:
    first = node.submit("sh", "-c", "sleep 0.5; date +%s%N")
    second = int(node.stoker("submit", "--after", "last", "--", "date", "+%s%N").stdout)
    ended = node.wait(second)
    assert ended.state == "succeeded" and ended.spec.after == (first,)
    assert int(node.output(first)) < int(node.output(second))
    failing = node.submit("sh", "-c", "sleep 1; exit 1")
    doomed = node.submit("true", after=(failing,), retries=1)
    anyway = node.submit("true", after_any=(failing,))
    assert node.wait(doomed).state == "cancelled"
    assert node.wait(anyway).state == "succeeded"
    with pytest.raises(NotFound):
        node.submit("true", after=(99_999,))


def test_a_job_follows_several_others_each_in_its_way(node: LiveNode) -> None:
    """The scheduler is killed while it waits: what it waits for is in the log."""
    gate = node.submit("sleep", "600", name="gate")
    well = node.submit("true", after_any=(gate,), name="well")
    ill = node.submit("sh", "-c", "exit 3", after_any=(gate,), name="ill")
    flags = ("--after", f"{well},{gate}", "--after-fail", str(ill))
    doomed = int(node.stoker("submit", *flags, "--", "true").stdout)
    flags = ("--after", str(well), "--after-any", f"{gate}", "--after-fail", str(ill))
    follows = int(node.stoker("submit", *flags, "--", "true").stdout)
    behind = int(node.stoker("submit", "--after", str(follows), "--", "true").stdout)
    said = node.stoker("job", str(follows)).stdout.decode()
    assert (
        f"the success of job {well} (pending), the end of job {gate} (running),"
        f" the failure of job {ill} (pending)"
    ) in " ".join(said.split()), said
    said = node.explained(behind)
    chain = f"it is pending now, and waits for job {well}, which waits for job {gate}"
    assert chain in " ".join(said.split()), said

    node.wait_for_new("scheduler", node.kill("scheduler"))
    node.stoker("cancel", str(gate))
    assert node.wait(well).state == "succeeded"
    assert node.wait(ill).exit_code == 3
    assert node.wait(behind).state == "succeeded"
    assert node.wait(follows).state == "succeeded"
    ended = node.wait(doomed)
    assert ended.reason == f"job {gate}, which it was to follow, was cancelled"
    assert (ended.state, ended.attempt) == ("cancelled", 0)


def test_what_cannot_be_followed_is_refused_in_one_line(node: LiveNode) -> None:
    well = node.run("true").job
    for flags, says in (
        (("--after", "99999"), "there is no job 99999"),
        (("--after", f"{well},{well}"), f"job {well} is named twice"),
        (("--after", str(well), "--after-any", str(well)), f"job {well} is named twice"),
        (("--after-fail", str(well)), f"job {well}, which it is to follow, is unknown or ended"),
        (("--after", f"{well}-{well + 9}"), "is not an array as `stoker submit` named it"),
        (("--after", "1,2,3,4,5", "--after-any", "6,7,8,9"), "name 9 jobs, at most 8"),
    ):
        refused = node.stoker("submit", *flags, "--", "true", check=False)
        said = refused.stderr.decode()
        assert refused.returncode != 0 and says in said, said
        assert not refused.stdout


def test_an_array_is_one_name_for_many_jobs(node: LiveNode) -> None:
    script = "echo $STOKER_ARRAY_INDEX of $STOKER_ARRAY_COUNT from $STOKER_ARRAY_ID"
    name = node.stoker("submit", "--array", "0-8:4,3", "--", "sh", "-c", script).stdout.decode()
    first, last = map(int, name.split("-"))
    assert last - first == 3
    assert node.stoker("wait", name.strip()).returncode == 0
    row = node.stoker("jobs").stdout.decode().splitlines()[1].split()
    assert row[0] == name.strip() and "4 succeeded" in " ".join(row)
    rows = node.stoker("jobs", "--array", "-n", "4").stdout.decode().splitlines()[1:]
    assert [int(row.split()[0]) for row in rows] == list(range(last, first - 1, -1))
    said = [node.output(job).decode() for job in range(first, last + 1)]
    assert said == [f"{index} of 4 from {first}\n" for index in (0, 4, 8, 3)]
    bad = node.stoker("submit", "--array", "0-100000", "--", "true", check=False)
    assert bad.returncode == 2 and b"more than 100000 jobs" in bad.stderr


def test_an_array_of_one_record_is_one_name_to_its_end(node: LiveNode) -> None:
    """More jobs than are made from the start: each runs once, with its own index."""
    script = "echo $STOKER_ARRAY_INDEX of $STOKER_ARRAY_COUNT"
    words = ("submit", "--array", "0-598:2", "--idempotency-key", "sweep-of-300", "--", "sh", "-c")
    name = node.stoker(*words, script).stdout.decode().strip()
    first, last = map(int, name.split("-"))
    assert last - first == 299
    assert node.stoker(*words, script).stdout.decode().strip() == name  # a repeat makes nothing
    assert node.jobs()[0] == last
    assert node.stoker("wait", name).stdout.decode() == f"jobs {name}: 300 succeeded\n"
    numbers = [str(first), str(last)]
    ended = node.stoker("wait", ",".join(numbers)).stdout.decode().splitlines()
    assert ended == [f"job {number}: succeeded, exit 0" for number in numbers]
    said = node.stoker("logs", name).stdout.decode().splitlines()
    assert said == [f"{index} of 300" for index in range(0, 599, 2)]


def test_a_job_follows_a_whole_array_and_sees_each_of_its_ends(node: LiveNode) -> None:
    """A job that wants them all to succeed, one that wants a failure, and a script of Slurm's."""
    gate = node.submit("sleep", "600")
    words = ("submit", "--array", "0-999", "--after-any", str(gate), "--")
    well = node.stoker(*words, "true").stdout.decode().strip()
    script = 'test "$STOKER_ARRAY_INDEX" != 700'
    ill = node.stoker(*words, "sh", "-c", script).stdout.decode().strip()
    first = int(ill.split("-")[0])
    merge = int(node.stoker("submit", "--after", well, "--", "true").stdout)
    tell = int(node.stoker("submit", "--after-fail", f"{first}-", "--", "true").stdout)
    doomed = int(node.stoker("submit", "--after", ill, "--", "true").stdout)
    never = int(node.stoker("submit", "--after-fail", well, "--", "true").stdout)
    said = " ".join(node.explained(merge).split())
    assert f"waits for 1,000 of the 1,000 jobs of array {well} to succeed" in said
    said = " ".join(node.stoker("job", str(tell)).stdout.decode().split())
    assert f"the failure of array {ill} (1,000 left)" in said

    node.wait_for_new("scheduler", node.kill("scheduler"))
    node.stoker("cancel", str(gate))
    assert node.wait(doomed).reason == (
        f"job {first + 700} of array {ill}, which it was to follow, failed"
    )
    assert node.wait(merge).state == node.wait(tell).state == "succeeded"
    told = f"all jobs of array {well}, whose failure it was to follow, succeeded"
    assert node.wait(never).reason == told
    late = node.stoker("submit", "--after", ill, "--", "true", check=False)
    assert late.returncode and b"which it was to follow, failed" in late.stderr


def test_the_largest_array_waits_is_explained_and_is_cancelled_by_its_name(node: LiveNode) -> None:
    """Its jobs that wait are in no budget but one of their own."""
    held = ("--cpus", "1", "--", "sleep", "600")
    name = node.stoker("submit", "--array", "1-100000", *held).stdout.decode().strip()
    first, last = map(int, name.split("-"))
    assert last - first == 99_999
    said = node.explained(last)
    assert f"job {last}" in said and "jobs of its array that wait have their turn before it" in said
    (row,) = [line for line in node.stoker("jobs").stdout.decode().splitlines() if name in line]
    assert "pending" in row
    other = node.stoker("submit", "--array", "1-100000", *held).stdout.decode().strip()
    refused = node.stoker("submit", "--array", "1-100000", *held, check=False)
    assert refused.returncode and b"more than 262144 jobs of large arrays" in refused.stderr
    followed = int(node.stoker("submit", "--after", str(last), "--", "true").stdout)
    assert f"waits until job {last} has succeeded" in " ".join(node.explained(followed).split())
    whole = int(node.stoker("submit", "--after-fail", name, "--", "true").stdout)
    removed = node.stoker("rm", name, check=False)
    assert removed.returncode and b"only jobs that are over are removed" in removed.stderr
    one = node.stoker("cancel", str(last)).stdout.decode()
    assert one == f"job {last} is cancelled\n"
    assert node.wait(followed).reason == f"job {last}, which it was to follow, was cancelled"
    for each in (name, other):
        assert node.stoker("cancel", each).stdout.decode().startswith(f"jobs {each} are ")
        told = node.stoker("wait", each, check=False)
        assert (told.returncode, told.stdout.decode()) == (1, f"jobs {each}: 100,000 cancelled\n")
    assert node.wait(whole).state == "succeeded"
    again = node.stoker("cancel", str(last)).stdout.decode()
    assert again == f"job {last} was over already (cancelled)\n"


def test_of_an_array_that_is_cancelled_each_job_runs_at_most_once(
    node: LiveNode, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.write_text("")
    for path in (seen, tmp_path, *tmp_path.parents[:3]):
        path.chmod(path.stat().st_mode | 0o777)
    script = f"echo $STOKER_ARRAY_INDEX >> {seen}"
    words = ("submit", "--array", "1-20000%8", "--name", "swept", "--", "sh", "-c", script)
    name = node.stoker(*words).stdout.decode().strip()
    first, last = map(int, name.split("-"))
    node.stoker("cancel", f"{first + 100}-{last}")
    told = node.stoker("wait", "swept", check=False).stdout.decode()
    indexes = seen.read_text().split()
    assert set(map(str, range(1, 101))) <= set(indexes) and len(set(indexes)) == len(indexes)
    assert told.startswith(f"jobs {name}: ")
    found = re.findall(r"([\d,]+) ([a-z]+)", told)
    counts = {word: int(count.replace(",", "")) for count, word in found}
    assert sum(counts.values()) == 20_000 and counts["succeeded"] >= 100
    assert counts["succeeded"] <= len(indexes) <= counts["succeeded"] + 8


def test_labels_of_the_node_decide(node: LiveNode) -> None:
    assert node.run("true", require=("zone=a", "disk=nvme")).state == "succeeded"
    with pytest.raises(BadRequest, match="no node has the label 'zone=b'"):
        node.submit("true", require=("zone=b",))
    name = node.ask(lambda client: client.nodes()).nodes[0].node
    assert node.stoker("node", "label", name, "zone=b").stdout.endswith(b"done\n")
    assert node.run("true", require=("zone=b",)).state == "succeeded"
    assert node.stoker("node", "label", name, "zone=b").stdout.endswith(b"nothing to change\n")
    node.stoker("node", "taint", name, "team=x")
    assert node.run("true", tolerate=("team=x",)).state == "succeeded"
    waits = node.submit("true")
    said = node.explained(waits)
    assert "taint" in said and "team=x" in said, said
    node.stoker("node", "taint", name, "team-")
    node.wait(waits, "ended")
    assert node.ask(lambda client: client.get(waits)).state == "succeeded"


def test_a_queue_never_passes_its_limit(node: LiveNode) -> None:
    node.stoker("queue", "set", "small", "--order", "fifo")
    node.stoker("queue", "quota", "small", "--limit", "0.5")
    one = node.submit("sleep", "60", gpu_milli=400, queue="small")
    node.wait(one, "running")
    two = node.submit("true", gpu_milli=400, queue="small")
    assert node.ask(lambda client: client.get(two)).state == "pending"
    said = node.explained(two)
    assert "small" in said and "limit" in said, said
    (row,) = [q for q in node.ask(lambda client: client.queues()).queues if q.queue == "small"]
    assert (row.used_milli, row.pending, row.quotas[0].limit_milli) == (400, 1, 500)
    assert "0.4 of 0.5" in node.stoker("queue", "list").stdout.decode()
    node.stoker("cancel", str(one))
    assert node.wait(two).state == "succeeded"
    unknown = node.stoker("submit", "--queue", "nowhere", "--", "true", check=False)
    assert unknown.returncode == 1 and b"no queue 'nowhere'" in unknown.stderr


def test_a_drained_node_gets_nothing_new_also_after_its_agent_was_killed(node: LiveNode) -> None:
    name = node.ask(lambda client: client.nodes()).nodes[0].node
    node.stoker("node", "drain", name, "--reason", "a new disk")
    waits = node.submit("true")
    node.wait_for_new("agent", node.kill("agent"))
    shown = node.ask(lambda client: client.nodes()).nodes[0]
    assert shown.drained == "a new disk"
    assert node.ask(lambda client: client.get(waits)).state == "pending"
    node.stoker("node", "undrain", name)
    assert node.wait(waits).state == "succeeded"


def test_a_preempted_job_gives_way_and_runs_again(node: LiveNode) -> None:
    script = 'trap "echo stopped; exit 0" TERM; echo begun; sleep 60 & wait'
    low = node.submit("sh", "-c", script, gpu_milli=1000, preemptible=True)
    wait_until(lambda: node.output(low) == b"begun\n", "the job has begun")
    high = node.submit("true", gpu_milli=1000, priority=10, preemptor=True)
    assert node.wait(high).state == "succeeded"
    wait_until(lambda: node.ask(lambda client: client.get(low)).attempt == 2, "it runs again")
    view = node.wait(low, "running")
    assert view.attempts[0].reason == f"preempted: job {high} needs the room"
    assert logs(node, low, 1) == b"begun\nstopped\n"
    node.stoker("cancel", str(low))
    assert node.wait(low).state == "cancelled"


def test_a_preempted_job_saves_its_work_before_it_gives_way(node: LiveNode) -> None:
    """The signal of its choice comes first, and SIGTERM never, since it ends in its grace."""
    script = 'trap "echo saved; exit 0" USR1; trap "echo term" TERM; echo begun; sleep 60 & wait'
    chosen = {"checkpoint_signal": "USR1", "grace_s": 600.0}
    low = node.submit("sh", "-c", script, gpu_milli=1000, preemptible=True, **chosen)
    wait_until(lambda: node.output(low) == b"begun\n", "the job has begun")
    high = node.submit("true", gpu_milli=1000, priority=10, preemptor=True)
    wait_until(lambda: b"saved" in logs(node, low, 1), "it saves its work")
    wait_until(lambda: node.ask(lambda client: client.get(low)).attempt == 2, "it runs again")
    assert node.wait(high).state == "succeeded"
    node.stoker("cancel", str(low))
    assert node.wait(low).state == "cancelled"


def test_nothing_of_an_attempt_is_left_in_shared_memory(node: LiveNode) -> None:
    wait_until(lambda: not _segments(node.state.shm), "segments are gone")


def _segments(shm: Path) -> list[str]:
    return [entry.name for entry in shm.iterdir() if entry.name[0].isdigit()]
