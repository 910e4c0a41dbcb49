# SPDX-License-Identifier: Apache-2.0
"""Jobs and the node from start to end: input, exit codes, interrupts, repeats, limits, restarts, a
full disk, and what is left when it is over.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.supervise import leftover_cgroups, pids
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, Refused

pytestmark = pytest.mark.needs_root


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        wait_until(
            lambda: bool(live.ask(lambda client: client.devices()).devices), "a device is found"
        )
        yield live


def view(node: LiveNode, job: int) -> schema.JobView:
    return node.ask(lambda client: client.get(job))


# --- run ------------------------------------------------------------------------------------------


def test_run_passes_input_and_both_outputs_whole(node: LiveNode) -> None:
    data = os.urandom(1_000_003)
    assert node.stoker("run", "--", "cat", stdin=data).stdout == data
    done = node.stoker("run", "--", "sh", "-c", "cat >&2; echo out", stdin=b"to stderr\n")
    assert (done.stdout, done.stderr) == (b"out\n", b"to stderr\n")
    assert node.stoker("run", "--", "wc", "-c", stdin=b"").stdout == b"0\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -9 $$", 137)],
)
def test_run_exits_as_the_job_does(node: LiveNode, script: str, code: int) -> None:
    done = node.stoker("run", "--", "sh", "-c", script, check=False)
    assert done.returncode == code, done.stderr
    assert node.stoker("wait", "last", check=False).returncode == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_detaches_and_the_job_goes_on(node: LiveNode, number: signal.Signals) -> None:
    with subprocess.Popen(
        [STOKER, "run", "--", "sh", "-c", "echo begun; sleep 1.5; echo done; exit 3"],
        env=node.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == b"begun\n"
        running.send_signal(number)
        assert running.wait(60) == 128 + number
        words = running.stderr.read().decode()
    job = node.jobs()[0]
    assert words.startswith(f"stoker: detached; job {job} goes on") and words.count("\n") == 1
    ended = node.wait(job)
    assert (ended.state, ended.exit_code) == ("failed", 3)
    assert node.output(job) == b"begun\ndone\n"


def test_the_time_limit_ends_a_job_and_is_named(node: LiveNode) -> None:
    done = node.stoker("run", "--time", "0.3s", "--", "sleep", "60", check=False)
    assert done.returncode == 124
    ended = view(node, node.jobs()[0])
    assert ended.state == "timeout" and "time limit" in ended.reason, ended.reason


def test_run_tells_why_its_job_waits_and_how_to_help_a_program_that_is_not_there(
    node: LiveNode,
) -> None:
    holder = node.submit("sleep", "600", gpu_milli=1000)
    node.wait(holder, "running")
    waiting = str(node.submit("true", gpu_milli=1000))
    assert "needs 1 free CPU device, node" in node.stoker("jobs").stdout.decode()
    assert "needs 1 free CPU device" in str(node.json("jobs")["jobs"][0]["waits"])  # type: ignore[index]
    node.stoker("cancel", waiting)
    with subprocess.Popen(
        [STOKER, "run", "--gpus", "1", "--device-kind", "cpu", "--", "true"],
        env=node.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        said = running.stderr.readline()
        assert "waits: needs 1 free CPU device, node" in said and "stoker explain" in said
        node.stoker("cancel", str(holder))
        assert running.wait(60) == 0
    done = node.stoker("run", "--", "no-such-program", check=False)
    assert done.returncode == 127
    assert b"cannot start no-such-program: No such file or directory; write the" in done.stderr
    assert b"job's PATH, now /usr/local/bin:/usr/bin:/bin: --env PATH\n" in done.stderr


# --- one request, one job -------------------------------------------------------------------------


def test_a_repeated_key_is_the_same_job_through_restarts(node: LiveNode) -> None:
    words = ("submit", "--idempotency-key", "again", "--", "sh", "-c", "echo once")
    first = node.stoker(*words).stdout
    assert node.stoker(*words).stdout == first
    before = node.jobs()
    node.wait_for_new("scheduler", node.kill("scheduler"))
    assert node.stoker(*words).stdout == first
    node.wait_for_new("nats-server", node.kill("nats-server"))
    assert node.stoker(*words).stdout == first
    assert node.jobs() == before
    with pytest.raises((BadRequest, Refused)):
        node.submit("something", "else", idempotency_key="again")
    assert node.jobs() == before


# --- cancel ---------------------------------------------------------------------------------------


def test_cancel_of_a_running_a_pending_and_an_ended_job(node: LiveNode) -> None:
    running = node.submit("sleep", "60", gpu_milli=1000)
    node.wait(running, "running")
    pending = node.submit("sleep", "60", gpu_milli=1000)
    assert view(node, pending).state == "pending"
    assert "pending" in node.explained(pending)
    node.stoker("cancel", str(pending), "--reason", "not now")
    ended = node.wait(pending)
    assert ended.state == "cancelled" and ended.times.started_ns is None
    assert "not now" in ended.reason
    assert view(node, running).state == "running"
    node.stoker("cancel", str(running))
    assert node.wait(running).state == "cancelled"
    again = node.stoker("cancel", str(running))
    assert again.stdout.decode() == f"job {running} was over already (cancelled)\n"
    third = node.run("true", gpu_milli=1000)
    assert third.state == "succeeded", "the device was not given back"


def test_a_removed_job_leaves_nothing_on_its_node(node: LiveNode) -> None:
    """Its folder is gone, it is said to have been removed, and others stay as they are."""
    kept, job = node.run("echo", "kept").job, node.run("echo", "secret").job
    running = node.submit("sleep", "60")
    folders = node.state.agent / "jobs"
    assert (folders / str(job) / "out").read_bytes() == b"secret\n"
    refused = node.stoker("rm", str(running), check=False)
    assert refused.returncode == 2
    assert f"stoker cancel {running}" in refused.stderr.decode()
    assert node.stoker("rm", str(job)).stdout == f"job {job} is removed\n".encode()
    wait_until(lambda: not (folders / str(job)).exists(), "the folder is deleted")
    gone = node.stoker("job", str(job), check=False)
    assert gone.returncode == 1
    assert f"job {job} was removed by" in gone.stderr.decode()
    assert job not in node.jobs()
    assert node.output(kept) == b"kept\n"
    node.stoker("cancel", str(running))
    node.wait(running)


def test_a_job_that_ignores_the_first_signal_is_killed_after_its_grace(node: LiveNode) -> None:
    job = node.submit("sh", "-c", "trap '' TERM; echo deaf; sleep 60; sleep 60", grace_s=0.3)
    wait_until(lambda: node.output(job) == b"deaf\n", "the job is deaf")
    node.stoker("cancel", str(job))
    assert node.wait(job).state == "cancelled"


# --- restarts -------------------------------------------------------------------------------------


def test_the_agents_restart_costs_a_running_job_nothing(node: LiveNode) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.2; done; exit 5"
    job = node.submit("sh", "-c", script)
    node.wait(job, "running")
    node.wait_for_new("agent", node.kill("agent"))
    ended = node.wait(job)
    assert (ended.state, ended.exit_code, ended.attempt) == ("failed", 5, 1)
    assert node.output(job) == b"".join(b"%d\n" % i for i in range(1, 10))


def programs(instance: str, of: list[int]) -> set[int]:
    """BPF programs that these processes hold or that are attached to the node's cgroups."""
    shown = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"]))
    held = {p["id"] for p in shown if any(o["pid"] in of for o in p.get("pids", []))}
    for tree in leftover_cgroups.trees(instance):
        for group in leftover_cgroups.groups(tree):
            done = subprocess.run(
                ["bpftool", "-j", "cgroup", "show", str(group)], capture_output=True, check=False
            )
            if done.returncode == 0 and done.stdout.strip():
                held |= {program["id"] for program in json.loads(done.stdout)}
    return held


def test_down_leaves_nothing_and_up_knows_everything(public_folder: Path) -> None:
    with live_node() as node:
        done = node.submit("sh", "-c", "echo kept; exit 4", idempotency_key="kept")
        node.wait(done)
        running = node.submit("sh", "-c", f"sleep 300; echo > {public_folder}/not-ended")
        node.wait(running, "running")
        pending = node.submit("true", gpu_milli=1000)
        node.wait(pending)
        processes = [each for _, each in pids.marked(node.state.instance)]
        loaded = programs(node.state.instance, [each.pid for each in processes])
        assert loaded, "a node of root has BPF programs"

        said = node.stoker("down").stdout.decode()
        assert "ended 1 job that still ran" in said
        assert node.traces_left() == []
        left = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"]))
        assert loaded & {program["id"] for program in left} == set()
        assert [each for each in processes if pids.lives(each)] == []

        node.stoker("up")
        assert node.jobs() == [pending, running, done]
        kept = view(node, done)
        assert (kept.state, kept.exit_code) == ("failed", 4)
        assert node.output(done) == b"kept\n"
        again = node.ask(
            lambda client: client.submit(
                schema.JobRequest(argv=("sh", "-c", "echo kept; exit 4"), idempotency_key="kept")
            )
        )
        assert again.job == done
        ended = node.wait(running)
        assert ended.state in ("lost", "cancelled", "failed") and ended.reason, ended
        assert not (public_folder / "not-ended").exists()
        assert node.run("true").job == pending + 1
    assert node.traces_left() == []


# --- a full disk ----------------------------------------------------------------------------------


@contextmanager
def small_disk(mebibytes: int) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=711", "none", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)


def fill(path: Path) -> None:
    """Write as many bytes as there is room for."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 65536):
                pass
        except OSError:
            return


def test_a_full_disk_refuses_jobs_by_name_and_serves_again_with_room() -> None:
    with small_disk(64) as folder:
        node = LiveNode(folder / "state")
        try:
            node.stoker("up")
            assert node.run("true").state == "succeeded"
            fill(folder / "filler")
            said = node.state.log / "supervisor.log"
            wait_until(lambda: "blocked: submits are refused" in said.read_text(), "it is noticed")
            assert "MiB free" in refusal(node)
            jobs = node.jobs()
            done = node.stoker("run", "--", "true", check=False)
            assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
            assert node.jobs() == jobs
            (folder / "filler").unlink()
            wait_until(lambda: refusal(node) == "", "submits are taken again", 40)
            assert node.run("sh", "-c", "exit 6").exit_code == 6
        finally:
            ended = node.stoker("down", check=False)
        assert ended.returncode == 0, ended.stderr
        assert node.traces_left() == []


def refusal(node: LiveNode) -> str:
    """Return why a job is not taken now; empty when it is, and then it has run."""
    try:
        node.run("true")
    except Refused as error:
        return error.message
    return ""
