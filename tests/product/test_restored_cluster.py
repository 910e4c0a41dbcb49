# SPDX-License-Identifier: Apache-2.0
"""A running node is backed up, lost, and begun again elsewhere with what the backup has."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from product_node import PATIENCE_S, LiveNode, live_node, wait_until

from stoker.agent.state import state_folder
from stoker.agent.supervise import pids
from stoker.mesh.client.client import Client
from stoker.mesh.connection.context import Context
from stoker.mesh.wire.schema import JobRequest, JobView

pytestmark = pytest.mark.needs_root

ONCE, AGAIN = "runs once", "may run again"


@dataclass
class Restored:
    """The former node, which is lost, the new one, and the backup of the one in the other."""

    former: LiveNode
    new: LiveNode
    backup: Path
    marks: Path
    """The file in which each start of a job leaves a line."""
    jobs: dict[str, int]
    entry: int


def job(node: LiveNode, marks: Path, name: str, *options: str, seconds: int = 600) -> int:
    """Submit a job that says in the file of marks that it began."""
    line = f"echo '{name}' >> {marks}; exec sleep {seconds}"
    said = node.stoker("submit", "--name", name.replace(" ", "-"), *options, "--", "sh", "-c", line)
    return int(said.stdout.split()[-1])


def marked(marks: Path, name: str) -> int:
    return marks.read_text().splitlines().count(name) if marks.exists() else 0


@pytest.fixture(scope="module")
def restored(public_folder: Path) -> Iterator[Restored]:
    marks = public_folder / "marks"
    with live_node() as former:
        folder = former.root.parent
        backup = folder / "kept.backup"
        bob = folder / "bob.nk"
        former.stoker("queue", "set", "night", "--weight", "3")
        former.stoker("user", "add", "bob", "--unix-user", "nobody", "--key-out", str(bob))
        os.chown(bob, 0, 0)
        jobs = {
            "ran once": job(former, marks, "ran once"),
            "ran again": job(former, marks, "ran again", "--restart", "on-node-loss"),
        }
        for name in jobs:
            wait_until(lambda name=name: marked(marks, name) == 1, f"{name} runs", PATIENCE_S)  # type: ignore[misc]
        former.stoker("node", "drain", node_of(former))
        jobs |= {
            ONCE: job(former, marks, ONCE),
            AGAIN: job(former, marks, AGAIN, "--restart", "on-node-loss"),
        }
        entry = backed_up(former, backup)
        # The backup does not know that the job that may run only once runs now.
        former.stoker("node", "undrain", node_of(former))
        wait_until(lambda: marked(marks, ONCE) == 1, "it runs after the backup", PATIENCE_S)
        jobs["forgotten"] = job(former, marks, "forgotten")
        refuse_while_it_lives(former, backup, folder / "no")
        lose(former)
        new = LiveNode(folder / "new")
        new.environment |= {"STOKER_STATE": str(new.root)}
        said = new.stoker("cluster", "restore", str(backup)).stdout.decode()
        assert f"entry {entry} of cluster" in said and "audits of the new cluster" in said
        try:
            new.stoker("up")
            yield Restored(former, new, backup, marks, jobs, entry)
        finally:
            new.stoker("down", check=False)
            assert not new.traces_left()


def node_of(node: LiveNode) -> str:
    return state_folder.load(node.state).node


def backed_up(node: LiveNode, to: Path) -> int:
    """Take a backup while jobs run; return the entry of the log at which it was taken."""
    said = node.stoker("cluster", "backup", str(to)).stdout.decode()
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    again = node.stoker("cluster", "backup", str(to), check=False)
    assert again.returncode == 2 and b"exists already" in again.stderr
    data = to.read_bytes()
    for path in node.state.keys.glob("*.nk"):
        assert path.read_bytes().strip() not in data, f"{path.name} is in the backup"
    return int(said.split(" at entry ")[1].split(",")[0])


def refuse_while_it_lives(node: LiveNode, backup: Path, there: Path) -> None:
    refused = node.stoker("cluster", "restore", str(backup), "--state", str(there), check=False)
    assert refused.returncode == 2 and refused.stderr.count(b"\n") <= 2
    assert b"it is not lost" in refused.stderr and not there.exists()


def lose(node: LiveNode) -> None:
    """End the node with its jobs, and lose its disk."""
    node.stoker("down")
    shutil.rmtree(node.root)


def view(restored: Restored, name: str) -> dict[str, Any]:
    return restored.new.json("job", str(restored.jobs[name]))


def test_what_ran_is_given_up_by_its_policy(restored: Restored) -> None:
    lost = view(restored, "ran once")
    assert lost["state"] == "lost" and "restored from a backup" in lost["reason"]
    wait_until(lambda: marked(restored.marks, "ran again") == 2, "it runs again here", PATIENCE_S)
    assert marked(restored.marks, "ran once") == 1


def test_what_waited_runs_here_only_if_it_may_run_twice(restored: Restored) -> None:
    """The backup cannot know that the former cluster ran it meanwhile; here it did."""
    cancelled = view(restored, ONCE)
    assert cancelled["state"] == "cancelled" and "may have run since" in cancelled["reason"]
    wait_until(lambda: marked(restored.marks, AGAIN) == 2, "it runs here as well", PATIENCE_S)
    assert marked(restored.marks, ONCE) == 1, "it ran once, and never again"


def test_what_came_after_the_backup_is_forgotten(restored: Restored) -> None:
    assert restored.jobs["forgotten"] not in restored.new.jobs()


def test_users_queues_and_limits_are_those_of_the_backup(restored: Restored) -> None:
    queues = restored.new.json("queue", "list")["queues"]
    assert isinstance(queues, list)
    assert {row["queue"]: row["weight"] for row in queues}["night"] == 3
    view = asyncio.run(run_as_bob(restored))
    assert (view.state, view.user) == ("succeeded", "bob")


async def run_as_bob(restored: Restored) -> JobView:
    """Run a job with the key that bob has since before the backup; the certificate is new."""
    where = restored.new.state
    own = restored.backup.with_name("bob.nk")
    at = Context(state_folder.load(where).url, own, "bob", where.certificate)
    async with Client.open(at) as client:
        number = (await client.submit(JobRequest(argv=("true",)))).job
        await asyncio.wait_for(client.wait(number, "ended"), PATIENCE_S)
        return await client.get(number)


def test_the_trail_goes_on_behind_the_backup(restored: Restored) -> None:
    new, kept = restored.new, str(restored.backup)
    assert new.run("true").state == "succeeded"
    found = new.json("audit", "verify", "--backup", kept)
    assert found["behind"] == restored.entry and not found["passed"]
    assert found["index"] > restored.entry
    without = new.stoker("audit", "verify", check=False)
    assert without.returncode == 2 and b"Give that file with --backup" in without.stderr
    rows = new.json("audit", "show", "--backup", kept)["changes"]
    assert isinstance(rows, list) and [row["what"] for row in rows][1] == "cluster.restored"


def test_a_killed_scheduler_comes_back_with_the_same_state(restored: Restored) -> None:
    new = restored.new
    before = {number: new.json("job", str(number))["state"] for number in new.jobs()}
    new.wait_for_new("scheduler", new.kill("scheduler"))
    after = {number: new.json("job", str(number))["state"] for number in new.jobs()}
    assert after == before
    new.stoker("audit", "verify", "--backup", str(restored.backup))


def test_a_restored_cluster_is_backed_up_like_any_other(restored: Restored) -> None:
    again = restored.backup.with_name("again.backup")
    assert backed_up(restored.new, again) > restored.entry
    assert pids.find(restored.new.state), "nothing stopped for it"


def test_a_damaged_file_makes_nothing(restored: Restored, tmp_path: Path) -> None:
    data = bytearray(restored.backup.read_bytes())
    data[len(data) // 2] ^= 1
    damaged, there = tmp_path / "damaged", tmp_path / "there"
    damaged.write_bytes(data)
    refused = restored.new.stoker("cluster", "restore", str(damaged), "--state", str(there),
                                  check=False)  # fmt: skip
    assert refused.returncode == 3 and f"{damaged} is damaged".encode() in refused.stderr
    assert refused.stderr.count(b"\n") <= 2 and not there.exists()
