# SPDX-License-Identifier: Apache-2.0
"""Two users and their jobs on one node: neither reaches the other, the node or what they were not
given.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import nats.errors
import pytest
from product_node import STOKER, LiveNode, live_node, raw_request, read_output, wait_until

from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema, subjects
from stoker.native.errors import Denied, NotFound, StokerError

pytestmark = pytest.mark.needs_root

T = TypeVar("T")
CARDS = {"card-a": (195, 200), "card-b": (226, 200)}
"""Numbers of NVIDIA and DRM nodes that no driver of this machine serves: whoever may open one is
told ENXIO or ENODEV, whoever may not EPERM."""
BUSY = (10, 229)
"""A device that can be opened by anybody at any time, as a stand-in for a card: /dev/fuse."""
OPENER = """
import os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        print(path, 0)
    except OSError as error:
        print(path, error.errno)
"""


PROCESSES = 150
"""Processes of one user, all jobs together."""
UNIX_USERS = ("daemon", "bin")
"""The kernel counts a user's processes on the whole machine, so these are not `nobody`, as whom the
jobs of other tests run beside these."""
BOMB = """
import os, time
made = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        made += 1
    except BlockingIOError:
        if made:
            print(made, flush=True)
        made = 0
        time.sleep(0.01)
"""


class User:
    """Somebody else who has a key of this node."""

    def __init__(self, node: LiveNode, name: str, unix_user: str, seed: Path) -> None:
        words = ("user", "add", name, "--unix-user", unix_user, "--key-out", str(seed))
        node.stoker(*words)
        os.chown(seed, 0, 0)  # this test is root and speaks for them
        own = context.find(str(node.root))
        self.name, self.context = name, Context(own.url, seed, name, own.certificate)

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        async def talk() -> T:
            async with Client.open(self.context) as client:
                return await question(client)

        return asyncio.run(talk())

    def submit(self, *argv: str, **fields: Any) -> int:
        request = schema.JobRequest(argv=argv, **fields)
        return self.ask(lambda client: client.submit(request)).job

    def run(self, *argv: str) -> tuple[schema.JobView, bytes]:
        async def question(client: Client) -> tuple[schema.JobView, bytes]:
            job = (await client.submit(schema.JobRequest(argv=argv))).job
            return await client.wait(job), await read_output(client, job)

        return self.ask(question)


@pytest.fixture(scope="module")
def cards(public_folder: Path) -> dict[str, Path]:
    made = {}
    for name, (major, minor) in {**CARDS, "busy": BUSY}.items():
        made[name] = public_folder / name
        os.mknod(made[name], 0o020666, os.makedev(major, minor))
        made[name].chmod(0o666)
    return made


@pytest.fixture(scope="module")
def node(cards: dict[str, Path]) -> Iterator[LiveNode]:
    def declare(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        tables = [
            f'[[device]]\nid = "{name}"\nnodes = ["{path}"]\n' for name, path in cards.items()
        ]
        tables.append(f"[jobs]\nprocesses_per_user = {PROCESSES}\n")
        (node.root / "config.toml").write_text("\n".join(tables))

    with live_node(prepare=declare, device_kind="any") as live:
        wait_until(lambda: len(devices(live)) >= len(cards), "the cards are reported")
        yield live


@pytest.fixture(scope="module")
def users(node: LiveNode, public_folder: Path) -> tuple[User, User]:
    return (
        User(node, "alice", UNIX_USERS[0], public_folder / "alice.nk"),
        User(node, "bob", UNIX_USERS[1], public_folder / "bob.nk"),
    )


def devices(node: LiveNode) -> dict[str, schema.DeviceView]:
    return {d.id: d for d in node.ask(lambda client: client.devices()).devices}


# --- users ----------------------------------------------------------------------------------------


def test_one_user_cannot_see_cancel_or_read_the_other(users: tuple[User, User]) -> None:
    alice, bob = users
    job = alice.submit("sh", "-c", "echo secret; sleep 60")
    alice.ask(lambda client: client.wait(job, "running"))

    async def attempts(client: Client) -> list[type[BaseException] | None]:
        tries: list[Awaitable[object]] = [
            client.get(job), client.logs(schema.LogsRequest(job=job)), client.explain(job),
            client.trace(schema.TraceRequest(job=job)),
            client.stdin(schema.StdinRequest(job=job, data=b"x")), client.kernels(job),
        ]  # fmt: skip
        found = await asyncio.gather(*tries, return_exceptions=True)
        return [type(each) if isinstance(each, BaseException) else None for each in found]

    assert set(bob.ask(attempts)) == {NotFound}
    assert not any(row.changed for row in bob.ask(lambda c: c.cancel("all")).jobs)
    try:
        told = bob.ask(lambda client: client.cancel(str(job)))
        assert told.jobs == ()
    except NotFound:
        pass
    listed = bob.ask(lambda client: client.list(schema.ListRequest()))
    assert listed.jobs == ()
    named = schema.ListRequest(user="alice")
    try:
        assert bob.ask(lambda client: client.list(named)).jobs == ()
    except StokerError as error:
        assert isinstance(error, Denied)
    assert not any(d.jobs for d in bob.ask(lambda client: client.devices()).devices)
    assert alice.ask(lambda client: client.get(job)).state == "running"
    alice.ask(lambda client: client.cancel(str(job)))
    assert alice.ask(lambda client: client.wait(job)).state == "cancelled"


def test_a_bomb_of_one_user_hinders_nobody_else(users: tuple[User, User]) -> None:
    alice, bob = users
    bomb = alice.submit("/usr/bin/python3", "-c", BOMB)

    def made() -> int:
        printed = alice.ask(lambda client: read_output(client, bomb))
        return int(printed.split()[0]) if printed else 0

    try:
        wait_until(made, "the bomb met its bound")
        assert made() < PROCESSES
        beside, _ = bob.run("sh", "-c", "true & wait $!")
        assert (beside.state, beside.exit_code) == ("succeeded", 0)
        assert alice.ask(lambda client: client.get(bomb)).state == "running"
    finally:
        alice.ask(lambda client: client.cancel(str(bomb)))
        alice.ask(lambda client: client.wait(bomb))


def test_a_users_key_reaches_no_subject_of_the_node(
    node: LiveNode, users: tuple[User, User]
) -> None:
    alice, _ = users
    name = json.loads(node.state.cluster.read_bytes())["node"]
    refused = (
        subjects.command(name), subjects.lease_answer(name), subjects.lease_request(name),
        subjects.outcome(name),
        subjects.hello(name), subjects.query(name, "logs"), subjects.LOG,
        subjects.user_request("bob", "job", "list"), subjects.user_request("root", "job", "list"),
        f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}", f"$JS.API.STREAM.PURGE.{subjects.LOG_STREAM}",
    )  # fmt: skip

    async def attempt(subject: str) -> object:
        with pytest.raises((TimeoutError, nats.errors.Error)):
            await raw_request(alice.context, subject, b"{}", 1.0)

    async def all_at_once() -> None:
        await asyncio.gather(*map(attempt, refused))

    asyncio.run(all_at_once())
    assert node.run("true").state == "succeeded"


def test_a_key_that_was_taken_away_opens_nothing(node: LiveNode, public_folder: Path) -> None:
    gone = User(node, "carol", "daemon", public_folder / "carol.nk")
    assert gone.run("true")[0].state == "succeeded"
    node.stoker("user", "remove", "carol")
    with pytest.raises(StokerError):
        gone.run("true")


# --- what a job is --------------------------------------------------------------------------------


def test_a_job_is_its_owner_and_nobody_else(node: LiveNode, users: tuple[User, User]) -> None:
    script = "id -u; id -g; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; cat /proc/self/cgroup"
    for user, name in zip(users, UNIX_USERS, strict=True):
        uid = pwd.getpwnam(name).pw_uid
        view, output = user.run("sh", "-c", script)
        lines = output.decode().split("\n")
        assert lines[:2] == [str(uid)] * 2 and view.uid == uid
        status = dict(line.split(":\t") for line in lines if ":\t" in line)
        assert status.pop("NoNewPrivs") == "1"
        assert len(status) == 5 and set(status.values()) == {"0" * 16}
        groups = [line for line in lines if line.startswith("0::")]
        assert groups == [f"0::/stoker-{node.state.instance}/jobs/fenced/{view.job}.1.0"]


def test_a_job_reads_neither_the_state_folder_nor_anothers_segments(
    node: LiveNode, users: tuple[User, User]
) -> None:
    alice, bob = users
    other = alice.submit("sleep", "60")
    alice.ask(lambda client: client.wait(other, "running"))
    closed = [node.root, node.root / "users.json", node.root / "keys", node.root / "log"]
    closed += [node.state.shm / str(other), node.state.run / "spawner.sock"]
    script = 'for path in "$@"; do ls "$path/." >/dev/null 2>&1 && echo "$path"; done; true'
    view, output = bob.run("sh", "-c", script, "sh", *map(str, closed))
    assert (view.state, output) == ("succeeded", b"")
    script = 'for path in "$@"; do cat "$path" 2>/dev/null && echo "$path"; done; true'
    seeds = sorted(map(str, (node.root / "keys").iterdir()))
    assert seeds and bob.run("sh", "-c", script, "sh", *seeds)[1] == b""
    alice.ask(lambda client: client.cancel(str(other)))


# --- devices --------------------------------------------------------------------------------------


def opened(
    node: LiveNode, gpu_milli: int, cards: dict[str, Path]
) -> tuple[set[str], dict[str, int]]:
    """The cards a job was granted, and the result of opening each card."""
    view = node.run(
        "/usr/bin/python3", "-c", OPENER, *(str(cards[name]) for name in CARDS),
        gpu_milli=gpu_milli,
    )  # fmt: skip
    assert view.state == "succeeded", node.output(view.job, "err")
    lines = [line.split() for line in node.output(view.job).decode().splitlines()]
    assert view.decision is not None
    return {d.id for d in view.decision.devices}, {Path(p).name: int(n) for p, n in lines}


def test_a_granted_device_opens_and_no_other(node: LiveNode, cards: dict[str, Path]) -> None:
    granted, told = opened(node, 0, cards)
    assert granted == set()
    assert told == dict.fromkeys(CARDS, errno.EPERM)
    everything = len(devices(node)) * 1000
    granted, told = opened(node, everything, cards)
    assert granted >= set(CARDS)
    assert set(told.values()) <= {errno.ENXIO, errno.ENODEV}, told
    holder = node.submit("sleep", "60", gpu_milli=everything - 1000)
    node.wait(holder, "running")
    granted, told = opened(node, 1000, cards)  # the one that is left
    for name, number in told.items():
        assert (number == errno.EPERM) == (name not in granted), (granted, told)
    node.stoker("cancel", str(holder))
    node.wait(holder)


def test_a_device_in_foreign_hands_is_not_granted_until_it_is_let_go(
    node: LiveNode, cards: dict[str, Path]
) -> None:
    assert devices(node)["busy"].unavailable == ""
    hold = "import os, sys; os.open(sys.argv[1], os.O_RDWR); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(cards["busy"])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        if holder.stdout.readline() != b"\n":
            pytest.skip("this machine has no /dev/fuse to hold")
        wait_until(
            lambda: f"held by pid {holder.pid}" in devices(node)["busy"].unavailable,
            "the foreign holder is named",
        )
        job = node.submit("true", gpu_milli=len(devices(node)) * 1000)
        told = node.ask(lambda client: client.explain(job))
        assert told.state == "pending", told
        holder.stdin.close()
    done = node.wait(job)
    assert devices(node)["busy"].unavailable == ""
    assert done.state == "succeeded" and done.decision is not None
    assert "busy" in {d.id for d in done.decision.devices}


# --- limits ---------------------------------------------------------------------------------------


def test_a_fork_bomb_is_contained_and_named(node: LiveNode, users: tuple[User, User]) -> None:
    bomb = users[0].submit(
        "sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1000",
        pids=48, time_limit_s=2.0, grace_s=0.2,
    )  # fmt: skip
    node.wait(bomb, "running")
    assert node.run("true").state == "succeeded"
    ended = node.wait(bomb)
    assert ended.state in ("timeout", "failed")
    assert "pids limit 48 was reached" in ended.reason, ended.reason
    assert not list(
        Path("/sys/fs/cgroup").glob(f"**/stoker-{node.state.instance}/jobs/*/{bomb}.1.0")
    )


def test_a_memory_hog_is_contained_and_named(node: LiveNode) -> None:
    script = "import sys; kept = [bytearray(1 << 20) for _ in range(4096)]"
    done = node.stoker("run", "--mem", "64M", "--", "/usr/bin/python3", "-c", script, check=False)
    assert done.returncode == 137, done.stderr
    ended = node.ask(lambda client: client.get("last"))
    assert "memory limit 64 MiB reached" in ended.reason, ended.reason
    assert node.run("true").state == "succeeded"


def test_the_verb_of_another_user_finds_no_node_of_roots(node: LiveNode, tmp_path: Path) -> None:
    """Without a key there is no way in, even for root's own programs."""
    done = subprocess.run(
        [STOKER, "jobs"],
        env={k: v for k, v in os.environ.items() if k != "STOKER_STATE"}
        | {"XDG_CONFIG_HOME": str(tmp_path), "STOKER_STATE": str(tmp_path / "none")},
        capture_output=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and b"no stoker node found" in done.stderr
