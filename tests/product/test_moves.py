# SPDX-License-Identifier: Apache-2.0
"""A drained node whose jobs move to another host: what they are told, which stay, and what the
commands say of it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.other_host import OtherHost, first_node
from fakes.other_host import other_host as made
from product_node import PATIENCE_S, LiveNode, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.wire import schema

pytestmark = pytest.mark.needs_root
HERE, THERE = "10.213.78.1", "10.213.78.2"
SAVES = """
trap 'echo saving $STOKER_ATTEMPT; while [ ! -e {go} ]; do sleep 0.05; done; exit 0' USR1
echo begun $STOKER_ATTEMPT
while [ $STOKER_ATTEMPT = 1 ]; do sleep 0.05; done
"""
"""A program that saves its work until there is a file, and whose second attempt ends at once."""


@pytest.fixture(scope="module")
def other_host() -> Iterator[OtherHost]:
    with made(HERE, THERE) as host:
        yield host


@pytest.fixture(scope="module")
def node(other_host: OtherHost) -> Iterator[LiveNode]:
    with first_node(HERE) as live:
        yield live


@pytest.fixture(scope="module")
def second(node: LiveNode, other_host: OtherHost) -> Iterator[LiveNode]:
    token = node.stoker("cluster", "token").stdout
    with other_host.joined(token, "second", "--label", "place=there") as joined:
        wait_until(lambda: "second" in states(node), "it has joined", PATIENCE_S)
        yield joined


@pytest.fixture
def here(node: LiveNode, second: LiveNode) -> Iterator[LiveNode]:
    """The first node, on which new jobs are placed until it is drained."""
    node.stoker("node", "drain", "second")
    yield node
    node.stoker("cancel", "all", check=False)
    for name in ("first", "second"):
        node.stoker("node", "undrain", name, check=False)  # the last test removes one


def states(node: LiveNode) -> dict[str, str]:
    return {each.node: each.state for each in node.ask(lambda client: client.nodes()).nodes}


def view(node: LiveNode, job: int) -> schema.JobView:
    return node.ask(lambda client: client.get(job))


def begun(node: LiveNode, script: str, **fields: object) -> int:
    """Submit a shell script; return its number once it has told that it runs."""
    job = node.submit("/bin/sh", "-c", script, **fields)
    wait_until(lambda: node.output(job).startswith(b"begun"), "it runs", PATIENCE_S)
    found = view(node, job).decision
    assert found is not None and found.node == "first"
    return job


def drained(node: LiveNode, *words: str) -> str:
    """Let the other node take jobs, and move those of the first one there."""
    node.stoker("undrain", "second")
    said = node.stoker("drain", "first", "--reason", "new fans", *words)
    return " ".join(said.stdout.decode().split())


def saving(node: LiveNode, job: int) -> None:
    wait_until(lambda: b"saving 1" in node.output(job), "it saves its work", PATIENCE_S)


def test_jobs_that_may_run_again_move_and_the_others_stay(
    here: LiveNode, public_folder: Path
) -> None:
    go = public_folder / "go"
    moves = begun(
        here, SAVES.format(go=go), retries=1, restart="on-node-loss", checkpoint_signal="USR1"
    )
    once = begun(here, "echo begun; while :; do sleep 0.05; done")
    here.stoker("node", "label", "first", "disk=big")
    bound = begun(
        here, "echo begun; while :; do sleep 0.05; done", retries=1, require=("disk=big",)
    )
    said = drained(here, "--grace", "10m")
    assert said.startswith("drain of first: done 3 jobs left, 1 of them moving elsewhere")
    assert f"job {once} stays: it may not run again (--restart never)" in said
    assert f"job {bound} stays: no other node that takes jobs could run it" in said
    saving(here, moves)
    status = " ".join(here.stoker("cluster", "status", check=False).stdout.decode().split())
    assert "first takes no new jobs: new fans; 3 jobs left, 1 of them moving elsewhere" in status
    why = "moved off first, drained by root: new fans"
    assert view(here, moves).state == "stopping" and view(here, moves).reason == why

    go.touch()
    ended = here.wait(moves)
    assert (ended.state, ended.attempt) == ("succeeded", 2)
    assert ended.decision is not None and ended.decision.node == "second"
    assert [(each.state, each.reason) for each in ended.attempts] == [("cancelled", why)]
    assert here.output(moves) == b"begun 2\n"
    assert why in here.explained(moves)
    assert why in " ".join(here.stoker("job", str(moves)).stdout.decode().split())
    shown = " ".join(here.stoker("node", "first").stdout.decode().split())
    assert "2 jobs left, 0 of them moving elsewhere" in shown
    assert {view(here, job).state for job in (once, bound)} == {"running"}


def test_a_move_outlives_the_drain_the_leader_and_the_agent(
    here: LiveNode, public_folder: Path
) -> None:
    go = public_folder / "later"
    job = begun(here, SAVES.format(go=go), retries=1, checkpoint_signal="USR1", trace="off")
    drained(here, "--grace", "10m")
    saving(here, job)
    old = {name: here.kill(name) for name in ("agent", "scheduler")}
    for name, pid in old.items():
        here.wait_for_new(name, pid)
    here.stoker("node", "undrain", "first")
    assert view(here, job).state == "stopping"
    go.touch()
    ended = here.wait(job)
    assert (ended.state, ended.attempt) == ("succeeded", 2)


def test_a_job_that_saves_nothing_is_ended_after_the_grace(here: LiveNode) -> None:
    """The time of the drain counts, then the job's own between SIGTERM and the kill."""
    script = "trap 'echo term; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    job = begun(here, script, retries=1, checkpoint_signal="USR2")
    drained(here, "--grace", "1s")
    wait_until(lambda: where(here, job) == "second", "it runs elsewhere", PATIENCE_S)
    assert view(here, job).attempts[0].exit_code == 0


def test_a_job_that_is_cancelled_in_its_grace_ends_at_once(
    here: LiveNode, public_folder: Path
) -> None:
    """Its drain gives it ten minutes, for which no test waits."""
    never = public_folder / "not-ever"
    job = begun(here, SAVES.format(go=never), retries=1, checkpoint_signal="USR1")
    drained(here, "--grace", "10m")
    saving(here, job)
    here.stoker("cancel", str(job))
    ended = here.wait(job)
    assert (ended.state, ended.attempt) == ("cancelled", 1)


def where(node: LiveNode, job: int) -> str:
    found = view(node, job)
    return found.decision.node if found.decision and found.state == "running" else ""


def test_a_gang_moves_as_a_whole(here: LiveNode) -> None:
    script = "trap 'exit 0' USR1; echo begun; while [ $STOKER_ATTEMPT = 1 ]; do sleep 0.05; done"
    job = begun(here, script, tasks=2, retries=1, checkpoint_signal="USR1")
    drained(here)
    ended = here.wait(job)
    assert (ended.state, ended.attempt) == ("succeeded", 2)
    assert {rank.node for rank in ended.ranks} == {"second"}
    assert "moved off first" in ended.attempts[0].reason


def test_a_node_that_dies_while_its_job_saves_is_given_up(
    here: LiveNode, second: LiveNode, public_folder: Path
) -> None:
    """Here the other one is drained, and its agent stops for good in the grace."""
    here.stoker("node", "undrain", "second")
    go = public_folder / "never"
    here.stoker("node", "drain", "first")
    job = here.submit("/bin/sh", "-c", SAVES.format(go=go), retries=1, checkpoint_signal="USR1")
    wait_until(lambda: here.output(job).startswith(b"begun 1"), "it runs", PATIENCE_S)
    here.stoker("node", "undrain", "first")
    here.stoker("node", "drain", "second", "--move", "--grace", "10m")
    saving(here, job)
    found = pids.find(second.state)
    stopped = [found[name].pid for name in (pids.SUPERVISOR, "agent") if name in found]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        here.stoker("node", "remove", "second", "--force")
        ended = here.wait(job)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert (ended.state, ended.attempt) == ("succeeded", 2)
    assert ended.attempts[0].state == "lost"
    assert re.match("moved off second, drained by root", ended.attempts[0].reason)
