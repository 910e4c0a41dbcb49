# SPDX-License-Identifier: Apache-2.0
"""Every form of a selector names the same jobs in each verb, on a live node with two users."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node

from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from stoker.tui.calls import selected_jobs
from stoker.tui.options import selectors

pytestmark = pytest.mark.needs_root


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        yield live


def held(node: LiveNode, name: str = "") -> int:
    """A job of the administrator that ends only if it is cancelled."""
    words = ("submit", "--name", name) if name else ("submit",)
    return int(node.stoker(*words, "--", "sleep", "600").stdout)


def cancelled(node: LiveNode, selector: str) -> list[int]:
    rows = json.loads(node.stoker("cancel", selector, "-o", "json").stdout)["jobs"]
    return sorted(row["job"] for row in rows)


def of_alice(node: LiveNode, folder: Path) -> int:
    """A job of another user."""
    seed = folder / "alice.nk"
    node.stoker("user", "add", "alice", "--unix-user", "nobody", "--key-out", str(seed))
    own = context.find(str(node.root))
    os.chown(seed, 0, 0)  # this test is root and speaks for the other user
    where = Context(own.url, seed, "alice", own.certificate)

    async def submit() -> int:
        async with Client.open(where) as client:
            return (await client.submit(schema.JobRequest(argv=("sleep", "600")))).job

    return asyncio.run(submit())


def test_cancel_takes_what_the_other_verbs_take(node: LiveNode) -> None:
    jobs = [held(node) for _ in range(4)]
    assert cancelled(node, f"j{jobs[0]}") == [jobs[0]]
    assert cancelled(node, f"{jobs[1]}-{jobs[3]}:2") == [jobs[1], jobs[3]]
    node.wait(jobs[3])
    assert f"job {jobs[3]} is removed".encode() in node.stoker("rm", f"j{jobs[3]}").stdout
    done = node.stoker("cancel", "123456", check=False)
    assert done.returncode and b"123456" in done.stderr
    assert cancelled(node, str(jobs[2])) == [jobs[2]]


def test_a_name_is_of_those_that_are_not_over_and_else_of_the_newest(node: LiveNode) -> None:
    first, second, other = held(node, "train"), held(node, "train"), held(node, "eval")
    assert cancelled(node, "train") == [first, second]
    for job in (first, second):
        node.wait(job)
    assert node.stoker("job", "train", "-o", "name").stdout.split() == [str(second).encode()]
    assert b"eval" in node.stoker("job", "eval").stdout
    done = node.stoker("job", "trian", check=False)
    assert done.returncode and b"no job of" in done.stderr and b"--name" in done.stderr
    assert cancelled(node, "eval") == [other]
    node.wait(other)
    assert node.stoker("rm", "train").stdout.count(b" is removed") == 2


def test_the_name_of_an_array_that_is_over_means_all_its_jobs(node: LiveNode) -> None:
    words = ("submit", "--name", "sweep", "--array")
    node.stoker(*words, "0-1", "--", "true")
    second = node.stoker(*words, "0-2", "--", "true").stdout.decode().strip()
    node.stoker("wait", second)
    first, last = map(int, second.split("-"))
    named = node.stoker("job", "sweep", "-o", "name").stdout.decode().split()
    assert sorted(map(int, named)) == list(range(first, last + 1))


def test_me_leaves_the_jobs_of_others_alone(node: LiveNode, tmp_path: Path) -> None:
    theirs, mine = of_alice(node, tmp_path), [held(node), held(node)]
    assert cancelled(node, "@me") == mine
    assert node.ask(lambda client: client.get(theirs)).state in selected_jobs.OPEN
    for job in mine:
        node.wait(job)
    listed = json.loads(node.stoker("jobs", "--user", "@me", "-o", "json").stdout)["jobs"]
    assert {row["user"] for row in listed} == {"root"}
    node.stoker("rm", "@me")
    assert json.loads(node.stoker("jobs", "--user", "@me", "-o", "json").stdout)["jobs"] == []
    assert theirs in node.jobs()
    node.stoker("cancel", str(theirs))


def test_a_long_selection_is_sent_in_parts() -> None:
    chosen = selectors.parse("1-1000:2,7,9-12")
    sent = asyncio.run(selected_jobs.selections(None, chosen, "", ()))  # type: ignore[arg-type]
    assert all(each.count(",") < selected_jobs.PARTS_MAX for each in sent)
    assert ",".join(sent).split(",")[-3:] == ["999", "7", "9-12"]
