# SPDX-License-Identifier: Apache-2.0
"""Bursts of jobs that do nothing, each behind a question, against a real spawner: all must run.

    python -m tests.soak.start_bursts [--jobs N] [--burst N]        (make soak)

The question (KNOWN) and the burst (START) are one write, so that the spawner reads both at once and
takes the burst while it answers. Writes what it saw to docs/measurements/starts.md, and exits with
1 if a job did not run. Needs root: the jobs are another user's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from stoker.agent.jobs import spawner_messages as wire
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Exited, Launch, Started
from tests.spawned import OWNER, Node

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "starts.md"
BURST_S = 120.0
"""A burst of 200 takes a second; one that takes this long is a fault of its own."""
NUMBERS = 1 << 40
"""Request numbers that the client does not use: their answers are not waited for."""


@dataclass
class Seen:
    """Results of the jobs so far."""

    causes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    started: int = 0
    spent_s: float = 0.0

    @property
    def jobs(self) -> int:
        return self.causes.total()

    @property
    def failed(self) -> int:
        return self.jobs - self.causes["exited"]

    def take(self, exited: Exited) -> None:
        self.causes[exited.cause] += 1
        if exited.reason:
            self.reasons[exited.reason] += 1


def launches(node: Node, count: int) -> list[Launch]:
    """No-op jobs with folders that are never made: a silent job writes nothing."""
    first = node.jobs + 1
    node.jobs += count
    return [
        Launch(
            job=job,
            attempt=1,
            task=0,
            argv=("/bin/true",),
            env={},
            cwd="/",
            uid=OWNER,
            gid=OWNER,
            folder=str(node.folder / "jobs" / str(job)),
        )
        for job in range(first, first + count)
    ]


async def burst(spawner: Spawner, batch: list[Launch], seen: Seen) -> None:
    """A question and a burst at once, then every event of it."""
    begun = time.monotonic()
    packed = b"".join(map(wire.pack_launch, batch))
    start = wire.pack_frame(wire.START, NUMBERS + 1, packed, len(batch))
    spawner._send(wire.pack_frame(wire.KNOWN, NUMBERS) + start)
    missing = {launch.job for launch in batch}
    async with asyncio.timeout(BURST_S):
        while missing:
            events = await spawner.next_events()
            await spawner.acknowledge(*events)
            seen.started += sum(isinstance(event, Started) for event in events)
            for event in events:
                if isinstance(event, Exited) and event.job in missing:
                    missing.discard(event.job)
                    seen.take(event)
    seen.spent_s += time.monotonic() - begun


async def bursts(jobs: int, size: int) -> Seen:
    seen = Seen()
    node = Node()
    try:
        node.start_process()
        spawner = await Spawner.connect(node.socket)
        try:
            while seen.jobs < jobs:
                await burst(spawner, launches(node, min(size, jobs - seen.jobs)), seen)
        finally:
            await spawner.close()
            node.end_process(15)
    finally:
        node.remove()
    return seen


def record(seen: Seen, size: int) -> str:
    """The page of docs/measurements."""
    reasons = [f"- {count} of: {reason}" for reason, count in seen.reasons.most_common(9)]
    said = "\n".join(reasons or ["- nothing: there were none"])
    rate = seen.jobs / seen.spent_s
    return f"""# Starts in bursts

Measured on {time.strftime("%Y-%m-%d")} with `make soak` ({os.cpu_count()} cores).
`/bin/true` as a plain user, in bursts of {size}. Before every burst the spawner is asked, in the
same write, for all attempts that it has, so that it takes the burst while it answers.

| jobs | started | ended by themselves | ended otherwise | jobs/s |
|---|---|---|---|---|
| {seen.jobs} | {seen.started} | {seen.causes["exited"]} | {seen.failed} | {rate:.0f} |

What was said of jobs that ended otherwise:

{said}

Every job is to start and to end by itself. The spawner ends a start that takes more than a minute;
none of these does.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--burst", type=int, default=200)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args()
    if os.geteuid() != 0:
        print("starts jobs as another user: run it as root", file=sys.stderr)
        return 2
    seen = asyncio.run(bursts(given.jobs, given.burst))
    text = record(seen, given.burst)
    given.record.write_text(text)
    print(text)
    return 1 if seen.failed or seen.started != seen.jobs else 0


if __name__ == "__main__":
    sys.exit(main())
