# SPDX-License-Identifier: Apache-2.0
"""Everything a person or a program can get wrong, on a real node: one clear line, the right exit
code, and nothing changed.

Each refusal is followed by the same two questions: is the list of jobs what it was, and does the
node still serve?
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats.errors
import plain_user
import pytest
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.state.state_folder import locate, write_json
from stoker.mesh.client.client import Client
from stoker.mesh.connection.context import SavedContext
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, StokerError

pytestmark = pytest.mark.needs_root

SUBMIT = "stoker.v1.job.submit"
STRANGER = 61001
"""A user without an entry in the password file."""


async def seen(client: Client) -> tuple[str, list[int]]:
    """The node's state and the numbers of its jobs."""
    nodes, jobs = await asyncio.gather(
        client.nodes(), client.list(schema.ListRequest(limit=schema.LIST_MAX))
    )
    return nodes.nodes[0].state, [job.job for job in jobs.jobs]


@pytest.fixture
def unchanged(node: LiveNode) -> Iterator[LiveNode]:
    """The node; afterwards its jobs must be the same and it must still answer."""
    before = node.ask(seen)
    yield node
    assert node.ask(seen) == before
    assert before[0] == "ready"


def one_line(done: subprocess.CompletedProcess[bytes], code: int) -> str:
    """The single line a refusal consists of."""
    text = done.stderr.decode()
    assert done.returncode == code, text
    lines = text.splitlines()
    assert len(lines) == 1 and lines[0].startswith("stoker: "), text
    assert done.stdout == b""
    return lines[0]


# --- raw requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "data", "words"),
    [
        (SUBMIT, b'{"argv": ["true"], "gpus": 1}', "unknown field `gpus`"),
        (SUBMIT, b'{"argv": ["true"], "schema": "stoker/v2"}', "stoker/v2"),
        (SUBMIT, b'{"argv": "true"}', "argv"),
        (SUBMIT, b"{}", "argv"),
        (SUBMIT, b'{"argv": []}', "argv is empty"),
        (SUBMIT, b'{"argv": ["true"', "job.submit"),
        (SUBMIT, b"\x00\x01\x02", "job.submit"),
        (SUBMIT, b'{"argv": ["\xff\xfe"]}', "job.submit"),
        (SUBMIT, b"[" * 100_000, "job.submit"),
        (SUBMIT, b'{"argv": ["true"], "gpu_milli": -1}', "gpu_milli is -1"),
        (SUBMIT, b'{"argv": ["true"], "gpu_milli": 1e300}', "gpu_milli"),
        (SUBMIT, b'{"argv": ["true"], "gpu_milli": 1500}', "multiple of 1000"),
        (SUBMIT, b'{"argv": ["true"], "memory_bytes": -5}', "memory_bytes is -5"),
        (SUBMIT, b'{"argv": ["true"], "memory_bytes": 99999999999999999999}', "memory_bytes"),
        (SUBMIT, b'{"argv": ["true"], "time_limit_s": -1}', "time_limit_s is -1"),
        (SUBMIT, b'{"argv": ["true"], "pids": 0}', "pids is 0"),
        (SUBMIT, b'{"argv": ["true"], "output_bytes_max": -1}', "output_bytes_max is -1"),
        (SUBMIT, b'{"argv": ["true"], "trace": "some"}', "trace"),
        (SUBMIT, b'{"argv": ["true"], "cwd": "relative"}', "not an absolute path"),
        (SUBMIT, b'{"argv": ["a\\u0000b"]}', "NUL"),
        (SUBMIT, b'{"argv": ["true"], "env": {"A=B": ""}}', "environment variable"),
        ("stoker.v1.job.get", b'{"job": {}}', "job.get"),
        ("stoker.v1.job.get", b'{"job": -1}', ""),
        ("stoker.v1.job.get", b'{"job": 18446744073709551616}', ""),
        ("stoker.v1.job.logs", b'{"job": 1, "stream": "both"}', "stream"),
        ("stoker.v1.job.cancel", b'{"select": "5-1"}', ""),
        ("stoker.v1.job.cancel", b'{"select": "\\u2603"}', ""),
        ("stoker.v1.node.list", b'{"all": true}', "unknown field `all`"),
    ],
)
def test_a_wrong_raw_request_is_refused_by_name(
    unchanged: LiveNode, subject: str, data: bytes, words: str
) -> None:
    reply = unchanged.raw(subject, data)
    assert set(reply) == {"schema", "error"}, reply
    assert reply["error"]["code"] in ("bad_request", "not_found"), reply
    assert words in reply["error"]["message"], reply
    assert "defect" not in reply["error"]["message"]


def test_subjects_that_are_not_a_users_get_no_answer(unchanged: LiveNode) -> None:
    name = json.loads(unchanged.state.cluster.read_bytes())["node"]
    for subject in (
        f"stoker.v1.cmd.{name}", f"stoker.v1.hb.{name}", f"stoker.v1.node.{name}.outcome",
        "stoker.v1.user.admin.job.submit", "stoker.v1.job.destroy",
        "$JS.API.STREAM.PURGE.SCHED_LOG",
    ):  # fmt: skip
        with pytest.raises((TimeoutError, nats.errors.Error)):
            unchanged.raw(subject, b"{}", timeout_s=0.3)


# --- sizes ----------------------------------------------------------------------------------------


def test_ten_megabytes_are_refused_by_the_client_and_by_the_broker(unchanged: LiveNode) -> None:
    with pytest.raises(BadRequest, match=r"the request has \d+ bytes and the node takes 524288"):
        unchanged.submit("echo", "x" * 10_000_000)
    with pytest.raises(nats.errors.Error, match="maximum payload"):
        unchanged.raw(SUBMIT, b" " * 10_000_000)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": ("x", "y" * 200_000)}, "argv has 200003 bytes, at most"),
        ({"argv": ("x",) * 5000}, "argv has 5000 words, at most 4096"),
        ({"argv": ("x",), "env": {"V": "y" * 300_000}}, "env has 300003 bytes, at most"),
        ({"argv": ("x",), "env": {f"V{i}": "" for i in range(2000)}}, "env has 2000 variables"),
        ({"argv": ("x",), "name": "n" * 1000}, "name has at most 128"),
        ({"argv": ("x",), "idempotency_key": "k" * 1000}, "idempotency_key has at most 128"),
        ({"argv": ("x",), "cwd": "/" + "d" * 5000}, "cwd has more than 4095 bytes"),
        ({"argv": ("a\0b",)}, "argv holds a NUL"),
        ({"argv": ("x",), "env": {"V": "\0"}}, "env holds a NUL"),
    ],
)
def test_past_a_limit_the_limit_is_named(
    unchanged: LiveNode, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        unchanged.ask(lambda client: client.submit(schema.JobRequest(**fields)))


# --- the command line -----------------------------------------------------------------------------


CPU = ("--device-kind", "cpu")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("run", "--gpus", "99", "--", "true"), "--gpus asks for 99 devices, at most 16"),
        (("run", "--gpus", "2", *CPU, "--", "true"), "asks for 2 devices, the largest node has 1"),
        (("submit", "--gpus", "16", *CPU, "--", "true"), "asks for 16 devices"),
        (("submit", "--gpus", "1", "--", "true"), "this node has no GPU. --device-kind cpu uses"),
    ],
)
def test_more_devices_than_exist_are_refused_at_once(
    unchanged: LiveNode, words: tuple[str, ...], text: str
) -> None:
    assert text in one_line(unchanged.stoker(*words, check=False), 2)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--gpus", "-1", "--", "true"), ("run", "--gpus", "many", "--", "true"),
        ("run", "--gpus", "nan", "--", "true"), ("run", "--gpus", "1e400", "--", "true"),
        ("run", "--mem", "-5G", "--", "true"), ("run", "--mem", "0", "--", "true"),
        ("run", "--mem", "9999999P", "--", "true"), ("run", "--cpus", "-1", "--", "true"),
        ("run", "--time", "-3s", "--", "true"), ("run", "--time", "soon", "--", "true"),
        ("run", "--pids", "0", "--", "true"), ("run", "--priority", "999999", "--", "true"),
        ("run", "--priority", "500", "--", "true"),
        ("run", "--no-such-option", "--", "true"), ("run",), ("jobs", "--nonsense"),
        ("run", "--trace", "loud", "--", "true"), ("run", "--stdin", "/no/such", "--", "true"),
        ("run", "--env", "=x", "--", "true"), ("run", "--env", "NOT_SET_HERE_1", "--", "true"),
        ("job", "@nobody"), ("job", "3-1"), ("job", "1,,2"), ("cancel", ""), ("cancel", "-0"),
        ("logs", "1-99999999999"), ("wait", "0"), ("explain", "\u2603"), ("no-such-verb",),
        ("trace", "all"), ("jobs", "-n", "0"), ("jobs", "--status", "odd"),
    ],
)  # fmt: skip
def test_wrong_words_are_a_usage_error(unchanged: LiveNode, words: tuple[str, ...]) -> None:
    done = unchanged.stoker(*words, check=False)
    text = done.stderr.decode()
    assert done.returncode == 2, text
    assert "Traceback" not in text
    assert 1 <= len(text.splitlines()) <= 4, text
    assert done.stdout == b""


def test_a_word_that_is_not_utf8_is_refused(unchanged: LiveNode) -> None:
    done = unchanged.stoker("run", "--", "echo", os.fsdecode(b"\xff\xfe"), check=False)
    assert "not valid UTF-8" in one_line(done, 2)


@pytest.mark.parametrize("verb", ["job", "logs", "cancel", "explain", "trace", "wait"])
def test_a_job_that_does_not_exist(unchanged: LiveNode, verb: str) -> None:
    done = unchanged.stoker(verb, "4000000", check=False)
    if verb == "cancel" and done.returncode == 0:
        assert done.stdout == b"no job to stop\n"
        return
    assert "4000000" in one_line(done, 1)


# --- programs -------------------------------------------------------------------------------------


def test_a_timeline_of_what_is_not_traced_says_what_is(node: LiveNode) -> None:
    job = node.run("true").job
    said = one_line(node.stoker("trace", str(job), check=False), 1)
    assert f"job {job} is not being traced. Traced is what has devices" in said


def test_a_missing_program_exits_127(node: LiveNode) -> None:
    for name in ("/no/such/program", "no-such-program"):
        done = node.stoker("run", "--", name, check=False)
        assert "No such file" in one_line(done, 127)


def test_a_program_the_jobs_user_may_not_run_exits_126(node: LiveNode, public_folder: Path) -> None:
    closed = public_folder / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy("/bin/true", closed / "program")
    plain = public_folder / "plain"
    plain.write_text("not a program")
    folder = public_folder / "folder"
    folder.mkdir()
    for path in (closed / "program", plain, folder):
        done = node.stoker("run", "--cwd", "/", "--", str(path), check=False)
        assert "Permission denied" in one_line(done, 126), path


def test_a_folder_the_jobs_user_may_not_enter_is_named(node: LiveNode) -> None:
    done = node.stoker("run", "--cwd", str(node.root), "--", "true", check=False)
    assert str(node.root) in one_line(done, 126)


def test_output_that_is_not_utf8_arrives_byte_for_byte(node: LiveNode, public_folder: Path) -> None:
    data = bytes(range(256)) * 8 + b"\xff\xfe\x00\xc3\x28"
    source = public_folder / "bytes"
    source.write_bytes(data)
    assert node.stoker("run", "--", "cat", str(source)).stdout == data
    assert node.stoker("logs", "last").stdout == data


# --- starting a node ------------------------------------------------------------------------------


def up(root: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [STOKER, "up", "--state", str(root), *options],
        env={**os.environ, **variables}, capture_output=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_nats_server_missing_too_old_or_something_else(folder: Path) -> None:
    fake = folder / "nats-server"
    root = folder / "state"
    for text, words in (
        (None, "nats-server is not installed"),
        ("nats-server: v2.9.10", "nats-server 2.9.10 is too old, 2.15.1 is needed"),
        ("hello", "is not nats-server"),
    ):
        if text is not None:
            fake.write_text(f"#!/bin/sh\necho {text}\n")
            fake.chmod(0o755)
        assert words in one_line(up(root, STOKER_NATS_SERVER=str(fake)), 1)
        assert not root.exists()


def test_a_port_in_use_is_refused_and_nothing_runs(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = one_line(up(folder / "state", "--port", str(port)), 2)
    assert f"port {port} is in use by pid {os.getpid()} (" in line
    assert LiveNode(folder / "state").traces_left() == []


def test_a_second_up_of_a_running_node_exits_2(unchanged: LiveNode) -> None:
    assert "a node already runs in" in one_line(up(unchanged.root), 2)


def contents(root: Path) -> set[tuple[str, str]]:
    """Every file but the lock, with its digest."""
    files = [path for path in root.rglob("*") if path.is_file() and path.name != "lock"]
    return {(str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}


@pytest.mark.soak
def test_a_damaged_state_folder_is_refused_and_kept_as_it_is(folder: Path) -> None:
    """A folder that served before, damaged in one way at a time."""
    root = folder / "state"
    good = LiveNode(root)
    good.stoker("up")
    good.stoker("run", "--", "true")
    good.stoker("down")
    damages: list[tuple[str, bytes | None]] = [
        ("format", b"99\n"), ("format", b"0\n"), ("format", b"?"), ("format", b""),
        ("format", None),
        ("cluster.json", b"{"), ("cluster.json", None), ("cluster.json", b"\xff\xff"),
        ("users.json", b"7"), ("users.json", None), ("keys/agent.nk", b""),
        ("keys/scheduler.nk", None), ("keys/scheduler.nk", b"not a seed\n"),
    ]  # fmt: skip
    for name, data in damages:
        path = root / name
        kept = path.read_bytes()
        path.unlink()
        if data is not None:
            path.write_bytes(data)
            path.chmod(0o600)
        before = contents(root)
        line = one_line(up(root), 3)
        assert str(root) in line, (name, data, line)
        assert contents(root) == before, (name, data)
        path.write_bytes(kept)
        path.chmod(0o600)
    refused_by_a_process(root, "spawner: the journal is corrupt", "agent/journal", 30)
    refused_by_a_process(root, "scheduler: ", "nats/jetstream/**/*.blk", None)
    assert good.traces_left() == []
    good.stoker("up")
    assert good.jobs() == [1]
    good.stoker("down")


def refused_by_a_process(root: Path, words: str, name: str, at: int | None) -> None:
    """An error that ends a process of the node ends `up` at once, with that process's words.

    One bit of a copy is flipped, in the middle where no place is named.
    """
    copy = shutil.copytree(root, root.with_name("copy"))
    (path,) = copy.glob(name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 4
    path.write_bytes(data)
    try:
        line = one_line(up(copy), 3)
        assert line.startswith(f"stoker: {words}") and "(ended: exit code 3)" in line, line
        assert LiveNode(copy).traces_left() == []
    finally:
        shutil.rmtree(copy)


# --- an ordinary user -----------------------------------------------------------------------------


def as_stranger(root: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    """A command of an ordinary user, whose home is the parent of the state folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "SUDO_"))}
    own = {"HOME": str(root.parent), "STOKER_STATE": str(root), "USER": str(STRANGER)}
    return subprocess.run(
        [*plain_user.become(STRANGER, root.parent.parent / "python"), str(STOKER), *words],
        env=kept | own | variables, capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_node_of_an_ordinary_user_serves_and_says_what_it_lacks(folder: Path) -> None:
    root = folder / "home" / "state"
    root.parent.mkdir()
    os.chown(root.parent, STRANGER, STRANGER)
    if as_stranger(root, "--version").returncode != 0:  # a checkout below a closed folder
        pytest.skip(f"uid {STRANGER} may not read {STOKER} or {sys.executable}")
    try:
        started = as_stranger(root, "up")
        assert started.returncode == 0, started.stderr.decode()
        ran = as_stranger(root, "run", "--", "sh", "-c", "id -u; grep NoNewPrivs /proc/self/status")
        assert ran.stdout.split() == [b"%d" % STRANGER, b"NoNewPrivs:", b"1"], ran.stderr
        nodes = json.loads(as_stranger(root, "nodes", "-o", "json").stdout)["nodes"]
        missing = " ".join(nodes[0]["missing"])
        assert "cgroup" in missing and "not root" in missing, nodes[0]["missing"]
        limited = as_stranger(root, "run", "--mem", "64M", "--", "true")
        assert (limited.returncode == 0) == (limited.stderr == b""), limited.stderr
    finally:
        ended = as_stranger(root, "down")
        shutil.rmtree(f"/tmp/stoker-cache-{STRANGER}", ignore_errors=True)
    assert ended.returncode == 0, ended.stderr.decode()
    assert not Path(f"/tmp/stoker-{STRANGER}").exists()
    assert LiveNode(root).traces_left() == []
    assert locate(root).root == root


def test_no_node_at_all(folder: Path) -> None:
    done = LiveNode(folder / "state").stoker("jobs", check=False)
    assert "no stoker node found" in one_line(done, 1)


def test_a_folder_of_somebody_else_is_refused(unchanged: LiveNode) -> None:
    done = as_stranger(unchanged.root, "jobs")
    assert one_line(done, 1)
    done = as_stranger(unchanged.root, "down")
    assert done.returncode != 0 and b"Traceback" not in done.stderr, done.stderr


def test_a_users_context_decides_which_node_is_spoken_of(unchanged: LiveNode, folder: Path) -> None:
    """A user of root's node never starts, ends or sets another one unknowingly."""
    home = folder / "home"
    context = home / ".config/stoker/context.json"
    context.parent.mkdir(parents=True)
    url = json.loads(unchanged.state.endpoint.read_bytes())["url"]
    write_json(context, SavedContext(url, "none", "me", str(unchanged.root)), mode=0o644)
    for path in (home, *home.rglob("*")):
        os.chown(path, STRANGER, STRANGER)

    def plain(*words: str) -> subprocess.CompletedProcess[bytes]:
        return as_stranger(home / "state", *words, STOKER_STATE="")

    if plain("--version").returncode != 0:
        pytest.skip(f"uid {STRANGER} may not read {STOKER} or {sys.executable}")
    theirs = f"the node of uid 0 (root) in {unchanged.root} ({url})"
    assert f"uses {theirs}: there is nothing to start" in one_line(plain("up"), 2)
    for words in (("down",), ("power", "budget", "100"), ("user", "list")):
        line = one_line(plain(*words), 1)
        assert f"`stoker {words[0]}` is for a node's owner" in line and theirs in line
    shown = plain("power")
    assert shown.returncode == 0, shown.stderr
    assert f"it is {theirs}: only its owner may set this" in shown.stdout.decode()
    named = plain("power", "budget", "100", "--state", str(unchanged.root))
    assert f"the node in {unchanged.root} belongs to uid 0 (root)" in one_line(named, 1)

    own = home / ".local/state/stoker"
    try:
        said = plain("up", "--beside").stdout.decode()
        assert f"next:\n  export STOKER_STATE={own}\n" in said, "else they would reach the other"
        assert f"beside it runs {url}, the node of uid 0 (root) in {unchanged.root}" in said
        assert theirs in one_line(plain("down"), 1), "not the one that a plain command reaches"
    finally:
        ended = plain("down", "--state", str(own))
    assert "stopped: supervisor" in ended.stdout.decode(), ended.stderr

    context.unlink()
    said = one_line(plain("up"), 2)
    assert "a node runs on this host already: tls://" in said
    assert f"uid 0 (root) gives out keys: stoker user add {STRANGER}" in said
    assert "stoker up --beside" in said


def test_errors_have_codes_that_clients_can_rely_on(unchanged: LiveNode) -> None:
    for data, code in ((b"{}", "bad_request"), (b'{"argv":["x"],"gpu_milli":16000}', None)):
        error = unchanged.raw(SUBMIT, data)["error"]
        assert code is None or error["code"] == code
        with pytest.raises(StokerError):
            raise schema.to_error(schema.Failure(**error))


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    """One node for this file: whatever is sent to it, it must serve to the end."""
    with live_node() as live:
        wait_until(lambda: live.ask(seen)[0] == "ready", "the first sample of the node")
        yield live
