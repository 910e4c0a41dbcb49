# SPDX-License-Identifier: Apache-2.0
"""The agent with a real broker and a real spawner, under a scripted scheduler: jobs run once after
any kill, and output, input and the node's report are served."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.one_node import NODE, OneNode

from stoker.agent.jobs.attempt_folders import cgroup_folder
from stoker.agent.state import host_facts
from stoker.mesh.wire import queries
from stoker.mesh.wire.queries import LogsQuery, StdinQuery, TraceQuery
from stoker.native.errors import BadRequest, NotFound
from stoker.scheduler.nouns import DeviceShare, ForgetJob, JobSpec
from tests.fakes.squatter import squatter, told_nothing


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[OneNode]:
    async with OneNode(tmp_path) as made:
        try:
            await made.scheduler.until(lambda: bool(made.scheduler.reports))
        except TimeoutError:
            raise AssertionError(made.log() + made.log("spawner")) from None
        yield made


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that any user may write; pytest closes its own at every session."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def sh(script: str, **more: object) -> JobSpec:
    more.setdefault("trace", "off")
    return JobSpec(("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]


async def test_a_job_runs_as_its_owner_and_its_end_and_output_arrive(node: OneNode) -> None:
    spec = sh('id -u; echo "$STOKER_JOB_ID $STOKER_NODE"; echo oops >&2; exit 3')
    (key,) = await node.scheduler.submit(spec, owner=node.owner)
    (outcome,) = await node.scheduler.until_ended(key)
    assert (outcome.state, outcome.exit_code, outcome.decision) == ("failed", 3, 65536)
    assert outcome.usage is not None
    assert await node.scheduler.output(key) == f"{node.owner.uid}\n1 {NODE}\n".encode()
    assert await node.scheduler.output(key, "err") == b"oops\n"


async def test_a_job_whose_number_is_given_again_is_another_job(node: OneNode) -> None:
    """The cluster was restored from an older log: the old job ends first, with its output."""
    script = 'trap "sleep 0.5; echo end >&2; exit" TERM; echo secret; while :; do sleep 0.01; done'
    (old,) = await node.scheduler.submit(sh(script), owner=node.owner)
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    new = await node.scheduler.restore(old, sh("echo mine"), owner=node.owner, placing=2**64 - 1)
    (outcome,) = await node.scheduler.until_ended(new)
    assert (outcome.state, outcome.exit_code) == ("succeeded", 0)
    told = [(o.key, o.state, o.reason) for o in node.scheduler.told]
    gone = (old, "lost", "the scheduler does not know this attempt")
    assert told.index(gone) < [key for key, _, _ in told].index(new)
    assert await node.scheduler.output(new) == b"mine\n"


async def test_the_report_says_what_this_node_is(node: OneNode) -> None:
    report = node.scheduler.reports[0]
    assert report.boot_id == host_facts.boot_id()
    assert report.cpu_milli == host_facts.cpu_milli()
    assert report.incarnation > time.time_ns() - 60_000_000_000


async def test_a_stopped_job_is_cancelled_with_the_reason(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(sh("exec sleep 1000"), owner=node.owner)
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    await node.scheduler.stop(key, "cancelled by alice")
    (outcome,) = await node.scheduler.until_ended(key)
    assert (outcome.state, outcome.reason) == ("cancelled", "cancelled by alice")


async def test_what_cannot_be_launched_fails_by_name(node: OneNode) -> None:
    many = DeviceShare(60, 1000)
    (no_device,) = await node.scheduler.submit(sh("true"), owner=node.owner, shares=(many,))
    (no_program,) = await node.scheduler.submit(JobSpec(("/none",)), owner=node.owner)
    first, second = await node.scheduler.until_ended(no_device, no_program)
    assert first.state == second.state == "failed"
    assert "device 60 was granted" in first.reason
    assert "/none" in second.reason or "No such file" in second.reason


async def test_input_reaches_the_job_once_per_offset(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(sh("cat", stdin=True), owner=node.owner)
    for offset, data in ((0, b"one "), (0, b"one "), (4, b"two\n")):
        reply = await node.scheduler.ask("stdin", StdinQuery(*key, offset, data, wait_s=5.0))
    assert reply.next_offset == 8
    await node.scheduler.ask("stdin", StdinQuery(*key, 8, b"", eof=True))
    await node.scheduler.until_ended(key)
    assert await node.scheduler.output(key) == b"one two\n"
    assert (await node.scheduler.ask("stdin", StdinQuery(*key, 8, b"x"))).closed


async def test_output_is_followed_while_the_job_writes(node: OneNode) -> None:
    script = "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done"
    (key,) = await node.scheduler.submit(sh(script), owner=node.owner)
    assert await node.scheduler.output(key) == b"".join(b"line %d\n" % n for n in range(1, 6))
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "succeeded"


async def test_queries_that_are_wrong_are_answered_by_name(node: OneNode) -> None:
    with pytest.raises(NotFound, match="job 77"):
        await node.scheduler.ask("logs", LogsQuery(77, 1, 0, 0, "out", 0))
    with pytest.raises(NotFound, match="job 77"):
        await node.scheduler.ask("trace", TraceQuery("summary", 77, 1))
    with pytest.raises(BadRequest, match="not a query"):
        reply = await node.scheduler.connection.request(f"stoker.v1.ask.{NODE}.logs", b"\xc1")
        queries.decode_reply(reply.data)
    kernels = await node.scheduler.ask("trace", TraceQuery("kernels"))
    assert (kernels.data, kernels.eof) == (b"[]", True)


async def test_nothing_that_arrives_ends_the_agent(node: OneNode) -> None:
    for subject in (f"stoker.v1.cmd.{NODE}", f"stoker.v1.hb.{NODE}"):
        for data in (b"", b"\xff" * 70, os.urandom(400)):
            await node.scheduler.connection.publish(subject, data)
    (key,) = await node.scheduler.submit(sh("echo alive"), owner=node.owner)
    await node.scheduler.until_ended(key)
    assert await node.scheduler.output(key) == b"alive\n"


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_broker_of_another_user_gets_no_agent(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(sh("sleep 60"), owner=node.owner)
    await node.scheduler.until(lambda: bool(node.scheduler.told))
    with squatter(node.port) as outsider:
        node.kill("broker")
        outsider.wait_bound()
        await node.scheduler.until(lambda: "it is not this node's broker" in node.log())
        await node.scheduler.until(lambda: b"" in outsider.heard())
        assert all(told_nothing(said) for said in outsider.heard()), outsider.heard()
    node.start_broker()
    await node.scheduler.stop(key)
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "cancelled"


async def test_a_lost_command_is_requested(node: OneNode) -> None:
    scheduler = node.scheduler
    publish, scheduler._publish = scheduler._publish, _nowhere  # type: ignore[method-assign]
    (lost,) = await scheduler.submit(sh("echo lost"), owner=node.owner)
    scheduler._publish = publish  # type: ignore[method-assign]
    (next_,) = await scheduler.submit(sh("echo next"), owner=node.owner)
    await scheduler.until_ended(lost, next_)
    assert await scheduler.output(lost) == b"lost\n"


async def test_an_outcome_whose_answer_is_lost_is_sent_again(node: OneNode) -> None:
    node.scheduler.lose_answers = 2  # the start and the end, or both at once
    (key,) = await node.scheduler.submit(sh("exit 0"), owner=node.owner)
    await node.scheduler.until_ended(key)
    await asyncio.to_thread(node.kill, "broker")
    node.scheduler.lose_answers = 0
    node.start_broker()
    told = node.scheduler.told
    await node.scheduler.until(lambda: len([o for o in told if o.state == "succeeded"]) >= 2)


async def test_sigterm_ends_it_and_jobs_go_on(node: OneNode, shared: Path) -> None:
    script = "echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done"
    (key,) = await node.scheduler.submit(sh(script, cwd=str(shared)), owner=node.owner)
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    assert await asyncio.to_thread(node.kill, "agent", signal.SIGTERM) == 0
    (shared / "go").touch()
    node.start_agent()
    (outcome,) = await node.scheduler.until_ended(key)
    assert (outcome.state, outcome.exit_code) == ("succeeded", 0)
    assert await node.scheduler.output(key) == b"begun\ndone\n"


async def test_without_a_spawner_it_waits_and_still_ends_at_once(node: OneNode) -> None:
    for name in ("agent", "spawner"):
        await asyncio.to_thread(node.kill, name)
    node.start_agent()
    await node.scheduler.until(lambda: node.log().count("agent starts") == 2)
    assert node.processes["agent"].poll() is None
    assert await asyncio.to_thread(node.kill, "agent", signal.SIGTERM) == 0


async def test_settings_that_are_wrong_end_it_by_name(node: OneNode) -> None:
    await asyncio.to_thread(node.kill, "agent")
    (node.state.root / "config.toml").write_text("[retention]\njobs = 'many'\n")
    node.start_agent()
    code = await asyncio.to_thread(node.processes["agent"].wait, 20)
    assert code == 2
    assert "config.toml" in node.log()
    assert "retention.jobs" in node.log()


async def test_killed_in_the_middle_every_job_runs_exactly_once(
    node: OneNode, shared: Path
) -> None:
    """kill -9 of agent, spawner and broker while jobs start, run and end."""
    keys = []
    for number in range(60):
        script = f"echo run >> {shared}/{number}; sleep 0.0{number % 10}; echo out {number}"
        keys += await node.scheduler.submit(sh(script), owner=node.owner)
        if number in (10, 25, 40, 50):
            await asyncio.to_thread(node.kill, "agent")
            if number == 25:
                await asyncio.to_thread(node.kill, "spawner")
                node.start_spawner()
            if number == 40:
                await asyncio.to_thread(node.kill, "broker")
                node.start_broker()
            node.start_agent()
        await asyncio.sleep(0.01)
    outcomes = await node.scheduler.until_ended(*keys)
    assert [outcome.state for outcome in outcomes] == ["succeeded"] * 60
    for number, key in enumerate(keys):
        assert (shared / str(number)).read_text() == "run\n", f"job {key} did not run exactly once"
        assert await node.scheduler.output(key) == f"out {number}\n".encode()


async def test_a_job_the_scheduler_does_not_know_is_stopped(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(sh("exec sleep 1000"), owner=node.owner)
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    start = node.scheduler.open.pop(key)
    await asyncio.to_thread(node.kill, "agent")
    node.start_agent()
    await node.scheduler.until(lambda: node.scheduler.told[-1].state == "lost")
    assert "does not know" in node.scheduler.told[-1].reason
    assert start.job == key[0]


async def test_forgetting_a_job_deletes_its_folder(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(sh("echo x"), owner=node.owner)
    await node.scheduler.until_ended(key)
    folder = node.state.agent / "jobs" / str(key[0])
    assert folder.is_dir()
    await node.scheduler.command(ForgetJob(key[0]))
    await node.scheduler.until(lambda: not folder.exists())
    with pytest.raises(NotFound):
        await node.scheduler.ask("logs", LogsQuery(*key, "out", 0))


async def test_observations_arrive_with_growing_ids(node: OneNode) -> None:
    await node.scheduler.until(lambda: len(node.scheduler.observations) >= 2)
    first, second = node.scheduler.observations[:2]
    assert second.id > first.id
    assert first.memory_free_bytes > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="freezing needs cgroups, cgroups need root")
async def test_frozen_jobs_thaw_after_the_log_was_read(node: OneNode) -> None:
    (key,) = await node.scheduler.submit(
        sh("for i in $(seq 200); do sleep 0.05; done; echo end"), owner=node.owner
    )
    await node.scheduler.until(lambda: any(o.state == "running" for o in node.scheduler.told))
    job = cgroup_folder(node.jobs_cgroup(), key)
    node.scheduler.leasing = False
    await node.scheduler.until(lambda: _frozen(job))
    node.scheduler.leasing = True
    await node.scheduler.until(lambda: not _frozen(job))
    await node.scheduler.stop(key)
    (outcome,) = await node.scheduler.until_ended(key)
    assert outcome.state == "cancelled"


async def test_a_declared_device_is_reported_and_its_holder_is_named(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("mknod needs root")
    path = tmp_path / "card"
    os.mknod(path, 0o020666, os.makedev(195, 77))
    config = f'[[device]]\nid = "card-0"\nmodel = "A card"\nnodes = ["{path}"]\n'
    async with OneNode(tmp_path, config) as node:
        scheduler = node.scheduler
        await scheduler.until(lambda: bool(scheduler.reports))
        (card,) = [d for d in scheduler.reports[-1].devices if d.id == "card-0"]
        assert (card.nodes, card.unavailable) == (((195, 77),), "")


def _holder(path: Path) -> subprocess.Popen[bytes]:
    """A process that has this file open until it reads a line."""
    holder = subprocess.Popen(
        ["/bin/sh", "-c", f'exec 9<"{path}"; echo; read x'],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def _frozen(job: Path) -> bool:
    try:
        return "frozen 1" in (job / "cgroup.events").read_text()
    except OSError:
        return False


async def _nowhere(subject: str, data: bytes) -> None:
    pass


async def test_a_start_on_a_device_that_is_occupied_at_that_moment_is_given_back(
    tmp_path: Path, shared: Path
) -> None:
    """The scheduler places the job before it can know of the holder, and again after that."""
    if os.geteuid():
        pytest.skip("mknod needs root")
    path = shared / "card"
    os.mknod(path, 0o020666, os.makedev(1, 5))  # the numbers of /dev/zero, which can be opened
    async with OneNode(tmp_path, f'[[device]]\nid = "card-0"\nnodes = ["{path}"]\n') as node:
        scheduler = node.scheduler
        await scheduler.until(lambda: bool(scheduler.reports))
        index = [device.id for device in scheduler.reports[-1].devices].index("card-0")
        shares = (DeviceShare(index, 1000),)
        holder = _holder(path)
        try:
            (key,) = await scheduler.submit(sh("echo ran"), owner=node.owner, shares=shares)
            (outcome,) = await scheduler.until_ended(key)
            held = f"held by pid {holder.pid} (sh)"
            assert outcome.state == "pending"
            assert outcome.reason == f"device card-0 is occupied: {held}"
            await scheduler.until(lambda: scheduler.reports[-1].devices[index].unavailable == held)
            half = (DeviceShare(index, 500),)
            (part,) = await scheduler.submit(sh("true"), owner=node.owner, shares=half)
            assert (await scheduler.until_ended(part))[0].state == "succeeded"
        finally:
            holder.communicate(b"\n")
        (again,) = await scheduler.submit(sh("echo ran"), owner=node.owner, shares=shares)
        assert (await scheduler.until_ended(again))[0].state == "succeeded"


async def test_a_held_device_is_reported_and_reported_again_when_it_is_free(
    tmp_path: Path, shared: Path
) -> None:
    if os.geteuid():
        pytest.skip("mknod needs root")
    path = shared / "card"
    os.mknod(path, 0o020666, os.makedev(1, 5))  # the numbers of /dev/zero, which can be opened
    config = f'[[device]]\nid = "card-0"\nnodes = ["{path}"]\n'
    holder = _holder(path)
    try:
        async with OneNode(tmp_path, config) as node:
            reports = node.scheduler.reports

            def unavailable() -> str:
                (card,) = [d for d in reports[-1].devices if d.id == "card-0"]
                return card.unavailable

            await node.scheduler.until(lambda: bool(reports))
            assert unavailable() == f"held by pid {holder.pid} (sh)"
            holder.communicate(b"\n")
            await node.scheduler.until(lambda: unavailable() == "")
            assert len({report.incarnation for report in reports}) == 1
    finally:
        holder.kill()
        holder.wait()
