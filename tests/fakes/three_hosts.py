# SPDX-License-Identifier: Apache-2.0
"""Hosts for a cluster of servers, mostly three: network namespaces at a bridge in one of their own.

They share everything but the network with this host, whose own network stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.other_host import ip
from product_node import PATIENCE_S, STOKER

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder

NAMES = ("first", "second", "third")
NETWORK = "10.213.78"


class ServerHost:
    """One host with its place for a state folder."""

    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.namespace = f"stoker-{os.getpid()}-{name}"
        self.root = folder / name
        self.state: StateFolder = state_folder.locate(self.root)
        self.program: str | Path = STOKER

    def stoker(
        self, *words: str, stdin: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one `stoker` command there; a failure shows what it said."""
        done = subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.namespace}", self.program, *words],
            env={**os.environ, "STOKER_STATE": str(self.root), "NO_COLOR": "1"},
            input=stdin, cwd="/", capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"stoker {' '.join(words)}: exit {done.returncode}\n{self.told(done)}")
        return done

    def told(self, done: subprocess.CompletedProcess[bytes]) -> str:
        """Return what a command said, and the ends of this host's logs."""
        logs = sorted(self.state.log.glob("*.log")) if self.state.log.exists() else []
        ends = "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in logs)
        return f"{done.stdout.decode()}{done.stderr.decode()}\n{ends}"

    def json(self, *words: str) -> dict[str, Any]:
        """Return what a command prints as JSON."""
        found: dict[str, Any] = json.loads(self.stoker(*words).stdout)
        return found

    def processes(self) -> list[int]:
        """Return the processes in its namespace."""
        done = subprocess.run(
            ["ip", "netns", "pids", self.namespace], capture_output=True, timeout=30, check=True
        )
        return [int(word) for word in done.stdout.split()]

    def lose_power(self) -> None:
        """Cut its cable and kill everything there, as a power failure does."""
        ip("-n", self.namespace, "link", "set", "eth0", "down")
        while pids := self.processes():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def plug_in(self) -> None:
        """Put its cable back."""
        ip("-n", self.namespace, "link", "set", "eth0", "up")


@contextlib.contextmanager
def three_hosts(*more: str) -> Iterator[list[ServerHost]]:
    """The hosts `first`, `second` and `third`, and more of these names; all are down and gone at
    the end."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    switch = f"stoker-{os.getpid()}-switch"
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        hosts = [ServerHost(name, n, Path(folder)) for n, name in enumerate((*NAMES, *more), 1)]
        made: list[str] = []
        try:
            ip("netns", "add", switch)
            made.append(switch)
            ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", switch, "link", "set", "bridge", "up")
            for number, host in enumerate(hosts):
                ip("netns", "add", host.namespace)
                made.append(host.namespace)
                _connect(switch, f"port{number}", host)
            yield hosts
        finally:
            try:
                for host in reversed(hosts):
                    if host.root.exists():
                        host.stoker("down", check=False)
            finally:
                for name in reversed(made):
                    ip("netns", "delete", name)


def _connect(switch: str, port: str, host: ServerHost) -> None:
    own = host.namespace
    ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", own)
    ip("-n", switch, "link", "set", port, "master", "bridge", "up")
    ip("-n", own, "address", "add", f"{host.address}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        ip("-n", own, "link", "set", device, "up")
