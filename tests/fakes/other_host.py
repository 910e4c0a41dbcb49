# SPDX-License-Identifier: Apache-2.0
"""Another host: a network namespace that a pair of virtual interfaces joins to this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.small_disk import own_disk
from product_node import PATIENCE_S, STOKER, LiveNode, live_node


class OtherHost:
    """A namespace that shares all but the network with this host."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stoker(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run one `stoker` command there."""
        return subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.name}", STOKER, *words],
            env={key: value for key, value in os.environ.items() if key != "STOKER_STATE"},
            input=stdin, cwd="/", capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    @contextlib.contextmanager
    def joined(
        self, token: bytes, name: str, *options: str, disk_bytes: int = 0
    ) -> Iterator[LiveNode]:
        """The node that this host becomes with a token, running until the end; with `disk_bytes`
        its state folder has a disk of its own of that size."""
        with (
            tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/tmp") as folder,
            own_disk(Path(folder), disk_bytes),
        ):
            Path(folder).chmod(0o711)
            made = LiveNode(Path(folder) / "state")
            state = ("--state", str(made.root))
            done = self.stoker("cluster", "join", *state, "--name", name, stdin=token)
            assert done.returncode == 0, done.stderr
            try:
                up = self.stoker("up", *state, *options)
                assert up.returncode == 0, up.stderr
                yield made
            finally:
                down = self.stoker("down", *state)
                assert down.returncode == 0, down.stderr


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@contextlib.contextmanager
def other_host(here: str, there: str) -> Iterator[OtherHost]:
    """A host at `there` that reaches this one at `here`; both are in one network of 4 addresses."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name, near, far = (f"{part}{os.getpid()}" for part in ("stoker-", "sta", "stb"))
    ip("netns", "add", name)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        ip("address", "add", f"{here}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", name, "address", "add", f"{there}/30", "dev", far)
        for device in ("lo", far):
            ip("-n", name, "link", "set", device, "up")
        yield OtherHost(name)
    finally:
        ip("netns", "delete", name)  # its interface ends, and with it the near one


@contextlib.contextmanager
def first_node(address: str) -> Iterator[LiveNode]:
    """The node `first`, which other hosts reach and may join at this address of this host."""

    def prepare(made: LiveNode) -> None:
        made.stoker("cluster", "init", "--address", address, "--name", "first")

    with live_node(prepare=prepare) as live:
        yield live
