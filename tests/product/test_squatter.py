# SPDX-License-Identifier: Apache-2.0
"""A plain user without a key takes the port of a broker that died: he learns nothing, starts
nothing, and the node goes on elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from product_node import LiveNode, live_node

from stoker.agent import children, pids
from stoker.mesh import context
from tests.fakes import pinned

SQUATTER = Path(__file__).with_name("squatter.py")
ATTACKER = 4242
"""A uid that owns nothing here; its user has no name and needs none."""
TLS_HANDSHAKE = "16"
"""First byte of a record that carries a ClientHello, RFC 8446, 5.1."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


class Squatter:
    """The attacker's process and what it says."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder

    def order(self, word: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def heard(self) -> list[str]:
        found: list[str] = json.loads(self.order("heard"))
        return found


@contextmanager
def squatter(folder: Path, port: int, victim: str) -> Iterator[Squatter]:
    """Waits for the port in a tight loop from now on; ended with all that he started."""
    place = folder / "attacker"
    place.mkdir()
    script = shutil.copy(SQUATTER, folder / "squatter.py")
    server = shutil.copy(children.broker_program(), folder / "nats-server")
    pinned.pair(place)
    for path in (place, *place.iterdir()):
        os.chown(path, ATTACKER, ATTACKER)
    process = subprocess.Popen(
        ["/usr/bin/python3", script, str(port), str(server), str(place), victim],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
        user=ATTACKER, group=ATTACKER, extra_groups=[], start_new_session=True,
    )  # fmt: skip
    try:
        yield Squatter(process, place)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def port_of(node: LiveNode) -> int:
    return urlsplit(context.find(str(node.root)).url).port or 0


def take_port(node: LiveNode, attacker: Squatter) -> None:
    """Ends the broker until the attacker was quicker than its supervisor, which is soon."""
    assert attacker.process.stdout is not None
    log = node.state.log / "supervisor.log"
    while "the broker moves to" not in log.read_text():
        if "nats-server" in pids.find(node.state):
            node.wait_for_new("nats-server", node.kill("nats-server"))
    assert attacker.process.stdout.readline() == "bound\n"


def test_who_takes_the_port_hears_nothing_and_starts_nothing(public_folder: Path) -> None:
    with live_node() as node:
        port, user = port_of(node), context.find(str(node.root)).user
        before = node.submit("sleep", "1000")
        node.wait(before, "running")
        with squatter(public_folder, port, user) as attacker:
            take_port(node, attacker)
            assert node.run("echo", "after").state == "succeeded"
            assert port_of(node) != port
            # What the node's own processes said to him before they knew: no key, no signature.
            heard = attacker.heard()
            assert all(data[:2] in ("", TLS_HANDSHAKE) for data in heard), heard
            assert attacker.order("pose") == "posed TLSv1.3\n"
            assert node.run("echo", "beside him").state == "succeeded"
            assert not (attacker.folder / "got-in").exists()
            said = (attacker.folder / "own.log").read_text()
            assert "nkey" not in said.lower(), said
        assert node.jobs() == [3, 2, 1]
        assert node.wait(before, "running").attempt == 1
        assert "frozen" not in (node.state.log / "agent.log").read_text()
