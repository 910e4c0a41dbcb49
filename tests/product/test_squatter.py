# SPDX-License-Identifier: Apache-2.0
"""A plain user without a key takes the port of a broker that died: he learns nothing, starts
nothing, and the node goes on elsewhere."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from product_node import LiveNode, live_node

from stoker.agent.supervise import pids
from stoker.mesh.connection import context
from tests.fakes.squatter import Squatter, squatter, told_nothing

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


def port_of(node: LiveNode) -> int:
    return urlsplit(context.find(str(node.root)).url).port or 0


def take_port(node: LiveNode, attacker: Squatter) -> None:
    """Ends the broker until the attacker was quicker than its supervisor, which is soon."""
    log = node.state.log / "supervisor.log"
    while "the broker moves to" not in log.read_text():
        broker = pids.find(node.state).get("nats-server")
        if broker is None:
            continue  # its supervisor starts it, or moves it because the attacker has the port
        with suppress(ProcessLookupError):
            os.kill(broker.pid, signal.SIGKILL)
        node.wait_for_new("nats-server", broker.pid)
    attacker.wait_bound()


def test_who_takes_the_port_hears_nothing_and_starts_nothing() -> None:
    with live_node() as node:
        port, user = port_of(node), context.find(str(node.root)).user
        before = node.submit("sleep", "1000")
        node.wait(before, "running")
        with squatter(port, user) as attacker:
            take_port(node, attacker)
            assert node.run("echo", "after").state == "succeeded"
            assert port_of(node) != port
            # Until the node's processes recognised the attacker they sent no key, no signature.
            heard = attacker.heard()
            assert all(told_nothing(said) for said in heard), heard
            assert attacker.order("pose") == "posed TLSv1.3\n"
            assert node.run("echo", "beside him").state == "succeeded"
            assert not (attacker.folder / "got-in").exists()
            said = (attacker.folder / "own.log").read_text()
            assert "nkey" not in said.lower(), said
        assert node.jobs() == [3, 2, 1]
        assert node.wait(before, "running").attempt == 1
        assert "frozen" not in (node.state.log / "agent.log").read_text()
