# SPDX-License-Identifier: Apache-2.0
"""The walk of a new administrator (docs/operator/first-cluster.md), each command on its host.

The hosts are network namespaces. What a service manager or a power switch does is done to the
processes there; all else is typed as the page has it. The version before an upgrade is one that is
pinned to the older feature level.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes.three_hosts import NETWORK, ServerHost, three_hosts
from product_node import PATIENCE_S, STOKER, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.log.feature_level import BUILD

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs/operator/first-cluster.md"
PIN = "[upgrade]\nnewest_level = 1\n"
ANYTHING = "..."


class Typed(NamedTuple):
    """One command of the page, and the output that the page shows."""

    host: str
    command: str
    shown: tuple[str, ...]


def typed(page: str) -> Iterator[Typed]:
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        parts = re.split(r"^(first|second|third)# ", block, flags=re.MULTILINE)[1:]
        for host, text in zip(parts[::2], parts[1::2], strict=True):
            command, *shown = text.splitlines()
            yield Typed(host, command, tuple(shown))


def shows(said: str, shown: tuple[str, ...]) -> bool:
    """True if the output is as shown, where `...` stands for any part of it."""
    pattern = re.escape("\n".join(shown)).replace(re.escape(ANYTHING), "(?s:.*)")
    return re.fullmatch(pattern, said.strip("\n")) is not None


class Walk:
    """The three hosts, and a folder that stands for what is carried between them."""

    def __init__(self, hosts: list[ServerHost], desk: Path) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.desk = desk
        self.off: set[str] = set()
        self.others = [desk / "stoker-2", desk / "again"]

    def do(self, step: Typed) -> None:
        host = self.hosts[step.host]
        if step.command == "systemctl restart stoker":
            self._restart(host)
        elif step.command == "poweroff --force":
            host.lose_power()
            self.off.add(step.host)
            if step.host == "third":
                shutil.rmtree(host.root)
        else:
            if step.host in self.off:  # another host with its address
                self.off.remove(step.host)
                host.plug_in()
            said = self._type(host, step.command)
            if step.shown:
                assert shows(said, step.shown), f"{step}\n{said}"

    def _type(self, host: ServerHost, command: str) -> str:
        for page, here in (("10.0.0.", f"{NETWORK}."), ("/root/", f"{self.desk}/")):
            command = command.replace(page, here)
        done = subprocess.run(
            ["nsenter", f"--net=/run/netns/{host.namespace}", "sh", "-c", command],
            env={
                **os.environ, "STOKER_STATE": str(host.root), "NO_COLOR": "1",
                "PATH": f"{Path(STOKER).parent}:{os.environ['PATH']}",
            },
            cwd=self.desk, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command} on {host.name}: {host.told(done)}"
        if command.startswith("stoker cluster init") and "--state" not in command:
            self._pin(host)
        if command.startswith("stoker cluster join --name"):
            self._pin(host)
        return done.stdout.decode()

    def _pin(self, host: ServerHost) -> None:
        (host.root / "config.toml").write_text(PIN)

    def _restart(self, host: ServerHost) -> None:
        """Restart the service with the new version, which is pinned no more."""
        supervisor = pids.find(host.state)[pids.SUPERVISOR].pid
        os.kill(supervisor, signal.SIGTERM)
        wait_until(lambda: pids.SUPERVISOR not in pids.find(host.state), "it has ended")
        (host.root / "config.toml").unlink(missing_ok=True)
        host.stoker("up")


@pytest.fixture
def walk() -> Iterator[Walk]:
    with three_hosts() as hosts:
        desk = hosts[0].root.parent / "desk"
        desk.mkdir()
        made = Walk(hosts, desk)
        try:
            yield made
        finally:
            for state in made.others:
                if state.exists():
                    hosts[0].stoker("down", "--state", str(state), check=False)


def test_the_page_is_read_whole() -> None:
    steps = list(typed(PAGE.read_text()))
    assert {step.host for step in steps} == {"first", "second", "third"}
    prompts = re.findall(r"^\w+# ", PAGE.read_text(), re.MULTILINE)
    assert len(steps) == len(prompts) > 30


def test_output_is_compared_but_for_dots() -> None:
    assert shows("a\nb\nc\n", ("a", "...", "c")) and shows("x is away: why\n", ("x is away: ...",))
    assert not shows("a\nb\n", ("a",)) and not shows("a\nb\n", ("...", "c"))


def test_a_new_administrator_walks_from_bare_hosts_to_a_restored_cluster(walk: Walk) -> None:
    for step in typed(PAGE.read_text()):
        walk.do(step)
    first = walk.hosts["first"]
    there = first.json("cluster", "--json", "--state", str(walk.desk / "stoker-2"))
    assert there["level"] == BUILD.newest, "the backup was made after the upgrade"
    assert len(there["schedulers"]) == 1
