# SPDX-License-Identifier: Apache-2.0
"""A node of two whose host lives: an administrator evicts it while its agent hangs, and it comes
back; it is stopped in order, and nothing waits for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from fakes.other_host import OtherHost, first_node
from fakes.other_host import other_host as made
from product_node import PATIENCE_S, LiveNode, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.wire import schema

pytestmark = pytest.mark.needs_root
HERE, THERE = "10.213.83.1", "10.213.83.2"
WHY = "an operator: root: its agent hangs"
ONCE = "echo begun $STOKER_ATTEMPT; while [ $STOKER_ATTEMPT = 1 ]; do sleep 0.05; done"
"""A program that runs for ever in its first attempt."""


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
        wait_until(lambda: state(node) == "ready", "it has joined", PATIENCE_S)
        yield joined


def state(node: LiveNode) -> str:
    rows = node.ask(lambda client: client.nodes()).nodes
    return next((each.state for each in rows if each.node == "second"), "")


def view(node: LiveNode, job: int) -> schema.JobView:
    return node.ask(lambda client: client.get(job))


def refused(node: LiveNode, *words: str) -> str:
    """Return the one line with which an eviction is refused."""
    done = node.stoker("node", "evict", *words, check=False)
    assert done.returncode != 0 and done.stdout == b""
    return " ".join(done.stderr.decode().split())


def begun(node: LiveNode, **fields: object) -> int:
    job = node.submit("/bin/sh", "-c", ONCE, **fields)
    wait_until(lambda: node.output(job) == b"begun 1\n", "it runs", PATIENCE_S)
    found = view(node, job).decision
    assert found is not None and found.node == "second"
    return job


def test_a_node_is_evicted_by_an_administrator_and_comes_back(
    node: LiveNode, second: LiveNode
) -> None:
    node.stoker("node", "drain", "first")
    moves = begun(node, retries=1, restart="on-node-loss")
    once = begun(node)
    node.stoker("node", "undrain", "first")
    assert "node second is not lost: its agent was heard" in refused(node, "second")
    assert "there is no node 'third'" in refused(node, "third")
    assert view(node, moves).state == "running", "a refusal changes nothing"

    found = pids.find(second.state)
    stopped = [found[name].pid for name in (pids.SUPERVISOR, "agent")]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: state(node) == "silent", "nobody hears it", PATIENCE_S)
        said = node.stoker("node", "evict", "second", "--reason", "its agent hangs").stdout
        assert said == b"eviction of node second: done\n"
        ended = node.wait(moves)
        assert state(node) == "evicted"
        again = node.stoker("node", "evict", "second").stdout
        assert again == b"eviction of node second: nothing to change\n"
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    assert (ended.state, ended.attempt) == ("succeeded", 2)
    assert ended.decision is not None and ended.decision.node == "first"
    before = ended.attempts[0]
    assert (before.node, before.state, before.reason) == ("second", "lost", f"node evicted: {WHY}")
    assert node.output(moves) == b"begun 2\n"
    assert WHY in node.explained(moves)
    lost = view(node, once)
    assert (lost.state, lost.reason) == ("lost", f"node evicted: {WHY}")
    trail = node.stoker("audit", "show").stdout.decode()
    assert any("node.evicted" in line and WHY in line for line in trail.splitlines()), trail
    happened = node.stoker("events", "--since", "10m").stdout.decode()
    assert any("node.evicted" in line and WHY in line for line in happened.splitlines())

    wait_until(lambda: state(node) == "ready", "it takes jobs again", PATIENCE_S)
    later = node.run("true", require=("place=there",))
    assert later.state == "succeeded" and later.decision is not None
    assert later.decision.node == "second"


def test_nothing_waits_for_a_node_that_was_stopped_in_order(
    node: LiveNode, other_host: OtherHost, second: LiveNode
) -> None:
    """A job that no other node suits waits until `up` there."""
    there = ("--state", str(second.state.root))
    node.stoker("node", "drain", "first")
    assert other_host.stoker("down", *there).returncode == 0
    anywhere = node.submit("true")
    bound = node.submit("true", require=("place=there",))
    assert {view(node, job).state for job in (anywhere, bound)} == {"pending"}
    assert "its agent was stopped in order" in node.explained(bound)
    node.stoker("node", "undrain", "first")
    ended = node.wait(anywhere)
    assert (ended.state, ended.attempt) == ("succeeded", 1)
    assert ended.decision is not None and ended.decision.node == "first"
    assert view(node, bound).state == "pending"
    assert other_host.stoker("up", *there).returncode == 0
    assert node.wait(bound).state == "succeeded"
