# SPDX-License-Identifier: Apache-2.0
"""The largest array on a whole node: all of it runs, and another user's jobs are taken meanwhile.

    python -m tests.soak.arrays [--jobs N]        (make soak)

Each job appends its index to one file. Writes what it saw to docs/measurements/arrays.md, and exits
with 1 if an index is missing or appears twice, or a job did not end well. Needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from stoker.agent.supervise import pids
from stoker.mesh.client.client import Client
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.wire import schema
from stoker.scheduler import array_indexes
from stoker.scheduler.array_indexes import JOBS_MAX
from tests.product_node import LiveNode, live_node

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "arrays.md"
MARK = "<!-- rounds -->\n"
RUN_S = 1800
"""A job takes some 5 ms of a processor; a round that takes this long is a fault of its own."""


class Taken(NamedTuple):
    """The time that an array took to be taken, beside single jobs of another user."""

    first: int
    seconds: float
    others: list[float]
    """The seconds that each submit of the other user took meanwhile."""

    @property
    def words(self) -> str:
        """The cells of the record."""
        return f"{self.seconds:.2f} | {len(self.others)}, {max(self.others):.2f}"


class Round(NamedTuple):
    """The results of one round."""

    load: float
    """The load before it."""
    jobs: int
    waiting: Taken
    list_s: float
    """The time of `stoker jobs` beside it."""
    cancel_s: float
    scheduler_mb: float
    after_mb: float
    """The memory of the scheduler after the round."""
    running: Taken
    run_s: float
    wait_s: float
    states: Counter[str]
    indexes: Counter[str]

    @property
    def is_good(self) -> bool:
        """True if every job ran once and ended well."""
        all_once = self.indexes == Counter(map(str, range(self.jobs)))
        return all_once and self.states == {"succeeded": self.jobs}


def other_user(node: LiveNode) -> Context:
    """Return the context of a second user of the node."""
    seed = node.root.parent / "other.nk"
    node.stoker("user", "add", "other", "--unix-user", "daemon", "--key-out", str(seed))
    os.chown(seed, 0, 0)  # this program is root and speaks for them
    own = context.find(str(node.root))
    return Context(own.url, seed, "other", own.certificate)


async def submitted(node: LiveNode, other: Context, request: schema.JobRequest) -> Taken:
    """Submit an array and, until it is taken, single jobs of another user."""
    async with Client.open(str(node.root)) as own, Client.open(other) as beside:
        single = schema.JobRequest(argv=("true",))
        await beside.submit(single)
        began = time.monotonic()
        array = asyncio.ensure_future(own.submit(request))
        others: list[float] = []
        while not array.done():
            at = time.monotonic()
            await beside.submit(single)
            others.append(time.monotonic() - at)
        return Taken((await array).job, time.monotonic() - began, others)


def memory_mb(node: LiveNode) -> float:
    """Return the resident memory of the node's scheduler."""
    status = Path(f"/proc/{pids.find(node.state)['scheduler'].pid}/status").read_text()
    row = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(row.split()[1]) / 1024


def one_round(node: LiveNode, jobs: int) -> Round:
    """Cancel an array that waits, and run another one to its end."""
    seen, load = node.root.parent / "seen", os.getloadavg()[0]
    seen.write_text("")
    seen.chmod(0o666)  # the jobs are another user's
    other, indexes = other_user(node), array_indexes.of_numbers(range(jobs)).text
    held = schema.JobRequest(argv=("sleep", "900"), array_list=indexes, cpu_milli=1000)
    waiting = asyncio.run(submitted(node, other, held))
    scheduler_mb, began = memory_mb(node), time.monotonic()
    command(node, "jobs")
    list_s, began = time.monotonic() - began, time.monotonic()
    command(node, "cancel", name_of(waiting, jobs))
    cancel_s = time.monotonic() - began
    argv = ("sh", "-c", f"echo $STOKER_ARRAY_INDEX >> {seen}")
    running = asyncio.run(submitted(node, other, schema.JobRequest(argv=argv, array_list=indexes)))
    began = time.monotonic()
    told = command(node, "wait", name_of(running, jobs))
    run_s, began = time.monotonic() - began, time.monotonic()
    command(node, "wait", name_of(running, jobs))
    wait_s = time.monotonic() - began
    states = states_of(told)
    found = Counter(seen.read_text().split())
    taken = load, jobs, waiting, list_s, cancel_s, scheduler_mb, memory_mb(node)
    return Round(*taken, running, run_s, wait_s, states, found)


def states_of(told: str) -> Counter[str]:
    """Return how many jobs are in each state, of `jobs 5-14: 9 succeeded, 1 failed`."""
    found: Counter[str] = Counter()
    for part in told.partition(": ")[2].split(", "):
        count, _, state = part.partition(" ")
        found[state] += int(count.replace(",", ""))
    return found


def name_of(taken: Taken, jobs: int) -> str:
    """Return the name by which verbs take an array."""
    return f"{taken.first}-{taken.first + jobs - 1}"


def command(node: LiveNode, *words: str) -> str:
    """Return what a command prints, which may take longer than a test is patient."""
    argv = [str(Path(sys.executable).parent / "stoker"), *words]
    done = subprocess.run(
        argv, check=False, env=node.environment, stdout=subprocess.PIPE, timeout=RUN_S
    )
    return done.stdout.decode().strip()


def row(seen: Round) -> str:
    """Return the line of the record."""
    day = time.strftime("%Y-%m-%d")
    cells = (
        day, f"{seen.load:.1f}", f"{seen.jobs:,}", seen.waiting.words, f"{seen.list_s:.2f}",
        f"{seen.cancel_s:.1f}", f"{seen.scheduler_mb:.0f}, {seen.after_mb:.0f}",
        seen.running.words, f"{seen.run_s:.0f}",
        f"{seen.wait_s:.1f}", "all" if seen.is_good else "NOT ALL",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Run one round and record it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=JOBS_MAX)
    with live_node() as node:
        seen = one_round(node, parser.parse_args().jobs)
    print(row(seen), end="")
    text = RECORD.read_text()
    head, rows = text.split(MARK)
    RECORD.write_text(f"{head}{MARK}{rows}{row(seen)}")
    if not seen.is_good:
        missing = Counter(map(str, range(seen.jobs))) - seen.indexes
        print(f"states {dict(seen.states)}; {missing.total()} indexes missing", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
