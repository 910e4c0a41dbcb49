# SPDX-License-Identifier: Apache-2.0
"""The runner from outside: a job's surroundings, its streams, its end and the reports of it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import stat
import struct
from pathlib import Path

import msgspec
import pytest
from spawned import (
    OTHER,
    OWNER,
    Node,
    alive,
    bytes_of,
    call,
    running,
    until,
)

from stoker.agent.jobs import spawner_messages as wire
from stoker.agent.jobs.attempt_folders import cgroup_folder
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Exited, Started
from stoker.native.errors import BadRequest, NotFound, NotSupported, Unavailable
from stoker.scheduler.nouns import TaskKey

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.skipif(os.geteuid() != 0, reason="starts jobs as other users"),
]


# --- a job's surroundings ----------------------------------------------------------------------


async def test_a_job_is_its_owner_with_nothing_inherited(node: Node, job_program: str) -> None:
    ended = await node.run(
        job_program, "self", uid=OWNER, gid=OTHER, groups=(7, 9), umask=0o027, cwd="/tmp"
    )
    assert (ended.cause, ended.exit_code, ended.reason) == ("exited", 0, "")
    assert node.out(ended).decode() == (
        f"uid {OWNER} {OWNER} gid {OTHER} {OTHER} session 1 umask 027 core 0 0 "
        "files 1024 cwd /tmp\n"
    )


async def test_a_job_has_no_capabilities_and_cannot_gain_any(node: Node) -> None:
    ended = await node.run("grep", "-E", "^(Cap|NoNewPrivs|Groups|SigBlk|SigIgn)",
                           "/proc/self/status", groups=(7, 9))  # fmt: skip
    fields = dict(line.split(":\t") for line in node.out(ended).decode().splitlines())
    assert {value for name, value in fields.items() if name.startswith("Cap")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Groups"].split() == ["7", "9"]
    assert fields["SigBlk"] == fields["SigIgn"] == "0" * 16


async def test_the_environment_is_exactly_as_given(node: Node) -> None:
    given = {"ONLY": "a=b c", "EMPTY": "", "ODD": "\udcff"}
    ended = await node.run("/usr/bin/env", "-0", env=given)
    assert node.out(ended) == b"ONLY=a=b c\0EMPTY=\0ODD=\xff\0"


async def test_a_job_is_in_its_own_cgroup_which_goes_with_it(node: Node) -> None:
    launch = node.launch("sh", "-c", "cat /proc/self/cgroup; sleep 100")
    await node.start(launch)
    started = await node.begun(launch)
    assert node.spawner.jobs_cgroup is not None
    cgroup = cgroup_folder(node.spawner.jobs_cgroup, launch.key)
    assert cgroup.stat().st_ino == started.cgroup_id
    assert str(started.pid) in (cgroup / "cgroup.procs").read_text().split()
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "enough", 0.5)
    ended = await node.ended(launch)
    assert not cgroup.exists()
    assert ended.cgroup_id == started.cgroup_id
    assert f"0::/{node.name}/jobs/fenced/{launch.job}.1.0" in node.out(ended).decode()


async def test_two_tasks_of_one_attempt_run_beside_each_other(node: Node) -> None:
    first = node.launch("sleep", "100")
    other = node.launch("sleep", "100", job=first.job, task=1)
    assert await node.start(first, other, other) == []
    one, two = await node.begun(first), await node.begun(other)
    assert one.cgroup_id != two.cgroup_id
    assert node.cgroups() == [f"{first.job}.1.0", f"{first.job}.1.1"]
    assert sorted(each.key for each in await node.spawner.known()) == [first.key, other.key]
    await node.spawner.stop(other.key, "enough", 0.5)
    ended = await node.ended(other)
    assert (ended.key, ended.cause, ended.reason) == (other.key, "stopped", "enough")
    assert [each.key for each in await node.spawner.known()] == [first.key]
    assert node.cgroups() == [f"{first.job}.1.0"]
    (refusal,) = await node.start(first, other)
    assert (refusal.key, refusal.errno) == (other.key, errno.EALREADY)


async def test_tasks_outlive_a_killed_spawner_each_for_itself(node: Node) -> None:
    first = node.launch("cat", stdin=True)
    other = node.launch("sleep", "100", job=first.job, task=63)
    await node.start(first, other)
    await node.begun(other)
    await node.restart()
    assert sorted(each.key for each in await node.spawner.known()) == [first.key, other.key]
    await node.spawner.write_stdin(first.key, 0, b"of the first", True)
    assert node.out(await node.ended(first)) == b"of the first"
    with pytest.raises(BadRequest, match="without input"):
        await node.spawner.write_stdin(other.key, 0, b"x", True)
    await node.spawner.stop(other.key, "enough", 0.5)
    assert (await node.ended(other)).reason == "enough"


async def test_the_program_is_searched_in_the_jobs_own_path(node: Node) -> None:
    (node.folder / "bin").mkdir()
    (node.folder / "bin" / "own").write_text("#!/bin/sh\necho found\n")
    (node.folder / "bin" / "own").chmod(0o755)
    ended = await node.run("own", env={"PATH": f"/nowhere:{node.folder}/bin"})
    assert (ended.exit_code, node.out(ended)) == (0, b"found\n")


async def test_the_trace_folder_is_the_owners_alone(node: Node) -> None:
    folder = node.folder / "traces"
    ended = await node.run("sh", "-c", f"echo hi > {folder}/x", trace_folder=str(folder))
    info = folder.stat()
    assert (ended.exit_code, stat.S_IMODE(info.st_mode), info.st_uid) == (0, 0o700, OWNER)
    assert not ended.cleared
    again = await node.run("true", trace_folder=str(folder), uid=OTHER)
    assert again.cause == "start_failed"
    assert again.reason.startswith(f"cannot make its trace folder {folder}: Operation not perm")
    assert (folder / "x").exists() and not again.of_the_node


async def test_a_step_in_which_the_job_has_no_part_fails_for_the_sake_of_the_node(
    node: Node,
) -> None:
    """Another node may well launch it, so the end says that nothing of it has run."""
    file = node.folder / "ran"
    lost = await node.run("touch", str(file), trace_folder=f"{node.folder}/gone/traces")
    assert (lost.cause, lost.started_ns, lost.of_the_node) == ("start_failed", None, True)
    assert lost.reason.endswith("gone/traces: No such file or directory")
    assert not file.exists() and node.cgroups() == []


async def test_a_trace_folder_without_segments_goes_with_its_job(node: Node) -> None:
    folder = node.folder / "traces"
    ended = await node.run("test", "-d", str(folder), trace_folder=str(folder))
    assert (ended.exit_code, ended.cleared) == (0, True)
    assert not folder.exists()
    assert not (await node.run("true")).cleared


async def test_long_arguments_arrive_whole(node: Node) -> None:
    arguments = tuple(str(n) * 20 for n in range(1000, 2100))
    ended = await node.run("printf", "%s", *arguments, env={"BIG": "x" * 60_000})
    assert node.out(ended).decode() == "".join(arguments)


# --- ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "cause", "code", "number"),
    [
        ("exit 0", "exited", 0, None),
        ("exit 255", "exited", 255, None),
        ("kill -9 $$", "signalled", None, 9),
        ("kill -SEGV $$", "signalled", None, 11),
    ],
)
async def test_ends(
    node: Node, script: str, cause: str, code: int | None, number: int | None
) -> None:
    ended = await node.run("sh", "-c", script)
    assert (ended.cause, ended.exit_code, ended.signal) == (cause, code, number)
    assert ended.reason == ""
    assert ended.usage is not None
    assert ended.usage.cpu_ns > 0
    assert ended.usage.memory_peak_bytes > 0
    assert ended.started_ns is not None
    assert ended.started_ns <= ended.t_ns


async def test_a_start_that_fails_says_which_step_and_why(node: Node) -> None:
    closed = node.folder / "closed"
    closed.mkdir(mode=0o700)
    script = node.folder / "script"
    script.write_text("not a program")
    script.chmod(0o755)
    expected = {
        ("/no/such",): "cannot start /no/such: No such file or directory",
        ("no-such-program",): "cannot start no-such-program: No such file or directory",
        ("",): "cannot start : No such file or directory",
        ("/etc/passwd",): "cannot start /etc/passwd: Permission denied",
        (str(script),): f"cannot start {script}: Exec format error",
    }
    for argv, reason in expected.items():
        ended = await node.run(*argv)
        assert (ended.cause, ended.reason, ended.started_ns) == ("start_failed", reason, None)
        assert not ended.of_the_node, "no node has such a program"
    refused = await node.run("true", cwd=str(closed), uid=65534)
    assert refused.reason == f"cannot enter {closed} as uid 65534: Permission denied"
    gone = await node.run("true", cwd="/no/such")
    assert gone.reason == f"cannot enter /no/such as uid {OWNER}: No such file or directory"
    assert not (refused.of_the_node or gone.of_the_node)
    assert node.cgroups() == []


async def test_root_is_refused_unless_the_spawner_allows_it(node: Node) -> None:
    ended = await node.run("id", "-u", uid=0)
    assert ended.cause == "start_failed" and not ended.of_the_node
    assert ended.reason == "a job of uid 0 was refused: the spawner runs without --allow-root"


async def test_root_where_allowed_has_no_capabilities() -> None:
    async with running("--allow-root") as node:
        ended = await node.run("sh", "-c", "id -u; grep CapEff /proc/self/status", uid=0)
        assert node.out(ended) == b"0\nCapEff:\t0000000000000000\n"


async def test_what_outlives_the_first_process_is_ended_and_its_output_kept(node: Node) -> None:
    ready = node.folder / "ready"
    ready.touch()
    ready.chmod(0o666)
    inner = f"trap 'echo last words; exit' TERM; echo x > {ready}; sleep 1000 & wait"
    script = f"({inner}) & while [ ! -s {ready} ]; do :; done; echo first; exit 5"
    ended = await node.run("sh", "-c", script, grace_s=0.5)
    assert (ended.cause, ended.exit_code) == ("exited", 5)
    assert "processes it left behind were ended" in ended.reason
    assert node.out(ended) == b"first\nlast words\n"


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(node: Node) -> None:
    script = "trap '' TERM; (while :; do sleep 1; done) & echo $!"
    ended = await node.run("sh", "-c", script, grace_s=0.2)
    assert ended.exit_code == 0
    assert not alive(int(node.out(ended)))


async def test_a_time_limit_ends_the_whole_tree(node: Node) -> None:
    script = "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1000; done"
    ended = await node.run("sh", "-c", script, time_limit_s=0.2, grace_s=0.2)
    assert (ended.cause, ended.signal, ended.reason) == ("timeout", 9, "time limit 0.2 s reached")
    assert not alive(int(node.out(ended)))


async def test_a_stop_is_the_reason_given(node: Node) -> None:
    launch = node.launch("sh", "-c", "trap 'exit 3' TERM; echo up; sleep 1000 & wait")
    await node.start(launch)
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "cancelled by alice", 0.5)
    ended = await node.ended(launch)
    assert (ended.cause, ended.exit_code, ended.reason) == ("stopped", 3, "cancelled by alice")


async def test_a_second_stop_can_shorten_the_grace(node: Node) -> None:
    launch = node.launch("sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    await node.start(launch)
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "first", 1000.0)
    await node.spawner.stop(launch.key, "second", 0.0)
    ended = await node.ended(launch)
    assert (ended.cause, ended.signal, ended.reason) == ("stopped", 9, "first")


SAVES = "trap 'echo saved; exit 4' USR1; echo up; while :; do sleep 0.05; done"


async def test_a_job_may_save_its_work_before_it_is_stopped(node: Node) -> None:
    """A wrapper without a handler does not get the signal, which would end it."""
    launch = node.launch("sh", "-c", f'sh -c "{SAVES}"; echo "wrapper saw $?"')
    await node.start(launch)
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "moved", 1000.0, "USR1")
    ended = await node.ended(launch)
    assert node.out(launch) == b"up\nsaved\nwrapper saw 4\n"
    assert (ended.cause, ended.exit_code, ended.reason) == ("stopped", 0, "moved")


async def test_what_does_not_end_in_the_time_to_save_its_work_is_ended_then(node: Node) -> None:
    script = "trap '' USR1; trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    launch = node.launch("sh", "-c", script)
    await node.start(launch)
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "moved", 0.3, "USR1")
    ended = await node.ended(launch)
    assert (ended.cause, ended.exit_code, node.out(launch)) == ("stopped", 5, b"up\nterm\n")


async def test_a_stop_without_a_signal_cuts_the_time_to_save_short(node: Node) -> None:
    script = "trap 'echo saving' USR1; echo up; while :; do sleep 0.05; done"
    launch = node.launch("sh", "-c", script)
    await node.start(launch)
    await until(lambda: node.out(launch))
    await node.spawner.stop(launch.key, "moved", 1000.0, "USR1")
    await until(lambda: b"saving" in node.out(launch))
    await node.spawner.stop(launch.key, "moved", 1000.0, "USR1")
    await node.spawner.stop(launch.key, "lost", 5.0)
    ended = await node.ended(launch)
    assert (ended.cause, ended.signal, ended.reason) == ("stopped", 15, "moved")


async def test_a_stop_of_an_unknown_job_says_so(node: Node) -> None:
    with pytest.raises(NotFound, match="stop job 77: no such job here"):
        await node.spawner.stop(TaskKey(77, 1, 0), "x", 1.0)


async def test_a_job_stopped_at_once_has_ended_or_never_ran(node: Node) -> None:
    for _ in range(20):
        launch = node.launch("sleep", "100")
        await node.start(launch)
        await node.spawner.stop(launch.key, "changed my mind", 0.0)
        ended = await node.ended(launch)
        assert (ended.cause, ended.reason) == ("stopped", "changed my mind")


# --- output and input --------------------------------------------------------------------------


async def test_output_is_byte_exact_on_both_streams(node: Node, job_program: str) -> None:
    script = f"{job_program} bytes 300000 5; {job_program} bytes 200000 6 >&2"
    ended = await node.run("sh", "-c", script)
    assert node.out(ended) == bytes_of(300_000, 5)
    assert node.out(ended, "err") == bytes_of(200_000, 6)
    assert (ended.out_bytes, ended.err_bytes) == (300_000, 200_000)
    assert ended.usage is not None
    assert (ended.usage.output_bytes, ended.usage.output_dropped_bytes) == (500_000, 0)


async def test_a_silent_job_leaves_no_files(node: Node) -> None:
    ended = await node.run("true")
    assert list(node.job_folder(ended.job).iterdir()) == []


async def test_a_job_may_open_its_streams_by_name(node: Node) -> None:
    ended = await node.run("sh", "-c", "echo out > /dev/stdout; echo err > /proc/self/fd/2")
    assert (node.out(ended), node.out(ended, "err")) == (b"out\n", b"err\n")


async def test_output_past_its_maximum_is_counted_and_the_job_goes_on(
    node: Node, job_program: str
) -> None:
    ended = await node.run(job_program, "bytes", "300000", "7", output_bytes_max=1000)
    assert (ended.cause, ended.exit_code) == ("exited", 7)
    assert ended.reason == "299000 bytes of output above 1000 bytes were dropped"
    assert node.out(ended) == bytes_of(1000, 7)
    assert ended.usage is not None
    assert ended.usage.output_dropped_bytes == 299_000


async def test_a_full_disk_is_named_and_does_not_hang_the_job(node: Node, job_program: str) -> None:
    folder = node.folder / "full"
    folder.mkdir()
    assert call("mount", "-t", "tmpfs", "-o", "size=64k", "none", folder).returncode == 0
    try:
        ended = await node.run(job_program, "bytes", "300000", "8", folder=str(folder))
        kept = (folder / "out").stat().st_size
        assert (ended.exit_code, ended.out_bytes) == (8, kept)
        assert (
            ended.reason == f"{300_000 - kept} bytes of output were lost: No space left on device"
        )
        assert 0 < kept <= 65536
        assert (folder / "out").read_bytes() == bytes_of(kept, 8)
    finally:
        call("umount", folder)


async def test_a_later_attempt_adds_to_the_output(node: Node) -> None:
    first = node.launch("echo", "one")
    await node.start(first)
    await node.ended(first)
    second = node.launch("echo", "two", job=first.job, attempt=2)
    await node.start(second)
    ended = await node.ended(second)
    assert (ended.attempt, ended.out_bytes, node.out(ended)) == (2, 4, b"one\ntwo\n")


async def test_input_arrives_in_order_and_repeats_change_nothing(node: Node) -> None:
    launch = node.launch("cat", stdin=True)
    await node.start(launch)
    data = os.urandom(500_000)
    half = 200_000
    assert await node.spawner.write_stdin(launch.key, 0, data[:half], False) == half
    assert await node.spawner.write_stdin(launch.key, 0, data[:half], False) == half
    with pytest.raises(BadRequest, match="bytes are missing before this offset"):
        await node.spawner.write_stdin(launch.key, half + 1, b"x", False)
    assert (
        await node.spawner.write_stdin(launch.key, half, data[half : 2 * half], False) == 2 * half
    )
    end = await node.spawner.write_stdin(launch.key, half + 100, data[half + 100 : 400_000], False)
    assert end == 2 * half
    assert await node.spawner.write_stdin(launch.key, 400_000, data[400_000:], True) == 500_000
    ended = await node.ended(launch)
    assert (ended.exit_code, node.out(ended)) == (0, data)


async def test_a_job_without_input_reads_nothing(node: Node) -> None:
    ended = await node.run("cat")
    assert (ended.exit_code, node.out(ended)) == (0, b"")
    launch = node.launch("sleep", "100")
    await node.start(launch)
    with pytest.raises(BadRequest, match="started without input"):
        await node.spawner.write_stdin(launch.key, 0, b"x", True)


async def test_input_that_nobody_reads_blocks_nobody(node: Node) -> None:
    launch = node.launch("sh", "-c", "head -c 3; exec 0<&-; sleep 0.2", stdin=True)
    await node.start(launch)
    for at in range(0, 1_000_000, 250_000):
        await node.spawner.write_stdin(launch.key, at, b"abcde" * 50_000, at == 750_000)
    ended = await node.ended(launch)
    assert (ended.exit_code, node.out(ended)) == (0, b"abc")


# --- counting ----------------------------------------------------------------------------------


async def test_each_job_is_reported_exactly_once(node: Node) -> None:
    launches = [node.launch("sh", "-c", f"echo {n}; exit {n}") for n in range(23)]
    assert await node.start(*launches) == []
    ends = [await node.ended(launch) for launch in launches]
    assert [end.exit_code for end in ends] == list(range(23))
    assert [node.out(end) for end in ends] == [b"%d\n" % n for n in range(23)]
    kinds = {job: [type(e) for e in events] for job, events in node.events.items()}
    assert kinds == {launch.job: [Started, Exited] for launch in launches}
    assert await node.spawner.known() == []
    assert node.cgroups() == []


async def test_the_same_attempt_taken_twice_is_one_job(node: Node) -> None:
    node.acknowledges = False
    launch = node.launch("sh", "-c", "echo once; sleep 0.1")
    assert await node.start(launch, launch) == []
    assert await node.start(launch) == []
    ended = await node.ended(launch)
    assert node.out(ended) == b"once\n"
    assert await node.start(launch) == []
    assert [(k.job, k.state) for k in await node.spawner.known()] == [(launch.job, "ended")]
    await node.spawner.acknowledge(ended)
    (refusal,) = await node.start(launch)
    assert refusal.reason == "this attempt has ended and was acknowledged"
    again = await node.run("echo", "twice", job=launch.job, attempt=2)
    assert (again.attempt, node.out(again)) == (2, b"once\ntwice\n")


async def test_a_name_is_given_to_another_placing_only_when_the_first_is_acknowledged(
    node: Node,
) -> None:
    node.acknowledges = False
    first = node.launch("sh", "-c", "echo first; sleep 100", placing=2**64 - 1)
    other = msgspec.structs.replace(first, placing=7, argv=("echo", "other"))
    assert await node.start(first) == []
    await node.begun(first)
    taken = "another attempt of this name has not ended and been acknowledged"
    (refusal,) = await node.start(other)
    assert (refusal.key, refusal.errno, refusal.reason) == (other.key, errno.EBUSY, taken)
    with pytest.raises(NotFound):
        await node.spawner.stop(other.key, "not the one that runs", 0.0)
    await node.spawner.stop(first.key, "another log has its name", 0.0)
    ended = await node.ended(first)
    (refusal,) = await node.start(other)
    assert (refusal.errno, refusal.reason) == (errno.EBUSY, taken)
    assert [known.key for known in await node.spawner.known()] == [first.key]
    await node.spawner.acknowledge(ended)
    assert await node.start(other) == []
    assert (await node.ended(other)).key == other.key
    (refusal,) = await node.start(first)
    assert refusal.reason == "this attempt has ended and was acknowledged"


async def test_known_tells_states(node: Node) -> None:
    node.acknowledges = False
    running_job, ended_job = node.launch("sleep", "100"), node.launch("true")
    await node.start(running_job, ended_job)
    started, ended = await node.begun(running_job), await node.ended(ended_job)
    known = {k.job: k for k in await node.spawner.known()}
    assert known[running_job.job].state == "running"
    assert known[running_job.job].event == started
    assert known[ended_job.job].event == ended


async def test_starts_that_wait_behind_a_long_answer_have_all_of_their_time(node: Node) -> None:
    """Read at once with the request before them, they are taken after the loop read its clock."""
    for _ in range(8):
        launches = [node.launch("true", pids=100) for _ in range(64)]
        packed = b"".join(map(wire.pack_launch, launches))
        known = wire.pack_frame(wire.KNOWN, 1 << 40)
        node.spawner._send(known + wire.pack_frame(wire.START, 1 << 41, packed, len(launches)))
        ended = [await node.ended(launch) for launch in launches]
        assert {(e.cause, e.reason) for e in ended} == {("exited", "")}


async def test_past_its_maximum_the_node_refuses_and_takes_again() -> None:
    async with running("--jobs-max", "3") as node:
        launches = [node.launch("sleep", "100") for _ in range(4)]
        (refusal,) = await node.start(*launches)
        assert refusal.job == launches[3].job
        assert refusal.reason.startswith("as many jobs as this node keeps at once")
        await node.spawner.stop(launches[0].key, "room", 0.0)
        await node.ended(launches[0])
        assert await node.start(launches[3]) == []


# --- outsiders and noise -------------------------------------------------------------------------


async def test_another_user_cannot_reach_the_socket(node: Node, job_program: str) -> None:
    ended = await node.run(
        "/usr/bin/perl", "-MSocket", "-e",
        "socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un($ARGV[0])) or print $!;",
        str(node.socket),
    )  # fmt: skip
    assert node.out(ended) == b"Permission denied"


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff" * 64,
        struct.pack("<IHHQ", 3, 1, 0, 0),
        wire.pack_frame(wire.START, 1, b"", 1),
        wire.pack_frame(wire.HELLO, 0, b"1234") + wire.pack_frame(wire.START, 1, b"\0" * 88, 1),
        wire.pack_frame(wire.HELLO, 0, b"1234") + wire.pack_frame(wire.STOP, 1, b"\xff" * 24),
        wire.pack_frame(wire.HELLO, 0, b"1234") + wire.pack_frame(wire.ACKNOWLEDGE, 1, b"x", 9),
        wire.pack_frame(wire.HELLO, 0, b"1234") + wire.pack_frame(99, 1),
    ],
)
async def test_noise_ends_its_own_connection_alone(node: Node, noise: bytes) -> None:
    outsider = socket.socket(socket.AF_UNIX)
    outsider.settimeout(5)
    with outsider:
        outsider.connect(str(node.socket))
        outsider.sendall(noise)
        while outsider.recv(65536):
            pass
    assert (await node.run("true")).exit_code == 0


async def test_a_reader_that_does_not_read_holds_up_nobody(node: Node) -> None:
    idle = socket.socket(socket.AF_UNIX)
    with idle:
        idle.connect(str(node.socket))
        idle.sendall(wire.pack_frame(wire.HELLO, 0, b"1234"))
        idle.sendall(wire.pack_frame(wire.KNOWN, 1) * 2000)
        for _ in range(3):
            assert (await node.run("true")).exit_code == 0


async def test_nobody_behind_the_socket_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"no spawner answers at .*nothing after 0.05 s"):
        await Spawner.connect(tmp_path / "nothing", timeout_s=0.05)


async def test_a_door_that_closes_at_once_is_not_knocked_on_without_pause(tmp_path: Path) -> None:
    knocks = 0

    def turn_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal knocks
        knocks += 1
        writer.close()

    async with await asyncio.start_unix_server(turn_away, tmp_path / "sock"):
        with pytest.raises(Unavailable):
            await Spawner.connect(tmp_path / "sock", timeout_s=0.4)
    assert 2 <= knocks <= 8


async def test_a_spawner_of_another_version_is_refused(tmp_path: Path) -> None:
    def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = b'{"wire": 99, "cgroup": "", "features": {}}'
        writer.write(wire.pack_frame(wire.FEATURES, 0, text))

    async with await asyncio.start_unix_server(greet, tmp_path / "sock"):
        with pytest.raises(NotSupported, match="the spawner speaks wire version 99"):
            await Spawner.connect(tmp_path / "sock")


async def test_a_request_without_an_answer_is_unavailable_and_may_be_repeated(node: Node) -> None:
    launch = node.launch("echo", "late")
    os.kill(node.pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unavailable, match="whether it acted is unknown"):
            await node.spawner.start([launch], timeout_s=0.05)
    finally:
        os.kill(node.pid, signal.SIGCONT)
    assert await node.start(launch) == []
    assert node.out(await node.ended(launch)) == b"late\n"
