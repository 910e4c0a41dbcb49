# SPDX-License-Identifier: Apache-2.0
"""A whole node for a test: `stoker up` in a folder of its own, always `down` again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.agent import pids
from stoker.agent.state import State, locate

STOKER = Path(sys.executable).parent / "stoker"
PATIENCE_S = 120


class LiveNode:
    """One running node, used as a person uses it: through the command line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state: State = locate(root)
        self.environment = {**os.environ, "STOKER_STATE": str(root), "NO_COLOR": "1"}

    def stoker(
        self, *words: str, check: bool = True, stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run one `stoker` command; a failure shows what it said."""
        done = subprocess.run(
            [STOKER, *words], env=self.environment, input=stdin, capture_output=True,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            pytest.fail(f"stoker {' '.join(words)}: exit {done.returncode}\n{done.stderr.decode()}")
        return done

    def json(self, *words: str) -> dict[str, object]:
        """A read command's JSON object."""
        answer: dict[str, object] = json.loads(self.stoker(*words, "-o", "json").stdout)
        return answer

    def kill(self, name: str) -> int:
        """SIGKILL one process of the node; returns its pid."""
        process = pids.find(self.state)[name]
        os.kill(process.pid, signal.SIGKILL)
        return process.pid

    def wait_for_new(self, name: str, old: int) -> None:
        """Until another process of that name lives and has said it is ready."""
        pids_file = self.state.pids
        for _ in range(200):
            process = pids.find(self.state).get(name)
            if process is not None and process.pid != old:
                return
            signal.sigtimedwait([], 0.1)
        pytest.fail(f"{name} was not started again within 20 s ({pids_file})")


@contextmanager
def live_node(*options: str) -> Iterator[LiveNode]:
    """A node in a folder that every user may enter but not read."""
    root = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    node = LiveNode(root / "state")
    try:
        node.stoker("up", *options)
        yield node
    finally:
        down = node.stoker("down", check=False)
        logs = {path.name: path.read_text()[-2000:] for path in (root / "state/log").glob("*.log")}
        shutil.rmtree(root)
        if down.returncode != 0:
            pytest.fail(f"down: exit {down.returncode}\n{down.stderr.decode()}\n{logs}")
