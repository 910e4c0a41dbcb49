# SPDX-License-Identifier: Apache-2.0
"""Floods by a user with an ordinary key, and what another user notices of them, on a whole node.

`make soak` runs this as root; it prints the table of docs/measurements/floods.md and fails where
a job was frozen, the broker took too much memory, or the other user waited too long.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stoker.agent.supervise import pids
from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from tests.product_node import LiveNode, live_node, wait_until

ROUNDS = {
    "spin": 8.0,
    "submits": 10.0,
    "output": 10.0,
    "lists": 20.0,
    "polite": 10.0,
    "subscriptions": 3.0,
    "silent": 10.0,
    "keyless": 15.0,
}
RUNS = 7
"""Runs of the other user in each round; the median counts."""
SLOWER_MAX = 2.0
BROKER_BYTES_MAX = 512 << 20
JOBS = 1500
"""Ended ones of the flooding user, so that lists are long."""
FROZEN = re.compile("the lease ran out|the machine may have been paused")


class Mallory(NamedTuple):
    """The flooding user."""

    node: LiveNode
    context: Context

    @classmethod
    def of(cls, node: LiveNode, folder: Path) -> Mallory:
        """Give the user a key of this node, and jobs to list."""
        seed = folder / "mallory.nk"
        node.stoker("user", "add", "mallory", "--unix-user", "daemon", "--key-out", str(seed))
        os.chown(seed, 0, 0)  # this program is root and speaks for them
        own = context.find(str(node.root))
        return cls(node, Context(own.url, seed, "mallory", own.certificate))

    async def fill(self, jobs: int) -> None:
        """Leave `jobs` jobs that are over, each with a long command line."""
        async with Client.open(self.context) as client:
            job = 0
            for first in range(0, jobs, 250):
                indexes = tuple(range(first, min(first + 250, jobs)))
                words = ("true", "x" * 350)
                view = await client.submit(schema.JobRequest(argv=words, array=indexes))
                job = view.job + len(indexes) - 1
            await client.wait(job)

    @contextmanager
    def flooding(self, kind: str, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
        """The flood in a process of its own, ended with the block."""
        own = self.context
        argv = [sys.executable, "-m", "tests.soak.flooder", kind, str(seconds), own.url]
        argv += [str(own.seed_file), str(own.certificate)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def frozen(node: LiveNode) -> int:
    """Number of times that the watchdog froze all jobs."""
    logs = (node.root / "log").glob("watchdog.log")
    return sum(len(FROZEN.findall(path.read_text())) for path in logs)


def broker_bytes(node: LiveNode) -> int:
    """The most memory that the broker has had."""
    pid = pids.find(node.state)["nats-server"].pid
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def run_s(node: LiveNode) -> float:
    """Duration of one `stoker run` of the other user."""
    began = time.monotonic()
    assert node.stoker("run", "--", "true").returncode == 0
    return time.monotonic() - began


def main() -> int:
    """All rounds; the exit code says whether all is within its bounds."""
    import asyncio

    with tempfile.TemporaryDirectory() as folder, live_node() as node:
        mallory = Mallory.of(node, Path(folder))
        asyncio.run(mallory.fill(JOBS))
        watched = node.submit("sleep", "600")
        node.wait(watched, "running")
        quiet = statistics.median(run_s(node) for _ in range(RUNS))
        print(f"quiet: {quiet:.3f} s a run\n")
        print("| flood | run, times quiet | broker, MiB | frozen | what became of it |")
        print("|---|---|---|---|---|")
        failed = False
        for kind, seconds in ROUNDS.items():
            before = frozen(node)
            with mallory.flooding(kind, seconds) as process:
                times = [run_s(node) for _ in range(RUNS)]
                assert process.stdout is not None
                became = json.loads(process.stdout.read())
            slower = statistics.median(times) / quiet
            bytes_, stops = broker_bytes(node), frozen(node) - before
            failed |= (
                (kind != "spin" and slower > SLOWER_MAX) or bytes_ > BROKER_BYTES_MAX or stops > 0
            )
            told = ", ".join(f"{count} {name}" for name, count in sorted(became.items()))
            print(f"| {kind} | {slower:.2f} | {bytes_ / (1 << 20):.0f} | {stops} | {told} |")
        wait_until(lambda: node.wait(watched, "running").state == "running", "the job runs on")
        node.stoker("cancel", str(watched))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
