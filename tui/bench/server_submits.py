# SPDX-License-Identifier: Apache-2.0
"""`stoker bench submit --servers`: jobs through a log of one copy, then through one of several.

The hosts are network namespaces of this machine, with real brokers, schedulers and agents. Owns
that both clusters are reached alike, by TLS at an address of their network, and that one has ended
before the other begins.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.mesh.client.bench_submit import SubmitResult
from stoker.mesh.wire import schema
from stoker.tui.bench import submit
from stoker.tui.demo import cluster_demo, network_hosts, private_node
from stoker.tui.demo.network_hosts import Host

ALONE = "alone"


class ServerSubmits(msgspec.Struct, frozen=True, kw_only=True):
    """Both results; the ratios are those of several servers to one, of jobs without a GPU."""

    schema: str = schema.VERSION
    bench: str = "submit"
    servers: int
    rate_ratio: float
    start_p50_ratio: float
    start_p99_ratio: float
    alone: SubmitResult
    several: SubmitResult


def measure(servers: int, jobs: int, say: Callable[[str], None]) -> tuple[ServerSubmits, list[str]]:
    """Measure in a network of its own; return the result, and what is left behind."""
    network_hosts.enter()
    names = (ALONE, *(f"server{number}" for number in range(1, servers + 1)))
    folder = Path(tempfile.mkdtemp(prefix="stoker-servers-"))
    folder.chmod(0o711)
    left: list[str] = []
    try:
        with private_node.terminable(), network_hosts.made(names, folder) as hosts:
            alone = _measured(hosts[:1], folder / ALONE, jobs, say, left)
            several = _measured(hosts[1:], folder / "several", jobs, say, left)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return compared(servers, alone, several), left


def _measured(
    hosts: list[Host], work: Path, jobs: int, say: Callable[[str], None], left: list[str]
) -> SubmitResult:
    """Make a cluster of these hosts, measure it at the first one, and end it."""
    programs = work.with_suffix(".programs")
    programs.mkdir(mode=0o755)
    try:
        for line in cluster_demo.start(hosts):
            say(line)
        if len(hosts) > 1:
            asyncio.run(cluster_demo.in_step(hosts[0]))
        return asyncio.run(submit.measure(str(hosts[0].state), programs, jobs, say))
    finally:
        left += cluster_demo.end(hosts)


def compared(servers: int, alone: SubmitResult, several: SubmitResult) -> ServerSubmits:
    """Return both with their ratios."""
    return ServerSubmits(
        servers=servers,
        rate_ratio=several.jobs_per_s / alone.jobs_per_s,
        start_p50_ratio=several.start_p50_ms / alone.start_p50_ms,
        start_p99_ratio=several.start_p99_ms / alone.start_p99_ms,
        alone=alone,
        several=several,
    )


def text(found: ServerSubmits) -> str:
    """Both tables, and the ratios below them."""
    return (
        f"one server\n{submit.text(found.alone)}\n"
        f"{found.servers} servers, a log of {found.servers} copies\n{submit.text(found.several)}\n"
        f"{found.servers} servers to one: {found.rate_ratio:.2f} of the jobs a second,"
        f" {found.start_p50_ratio:.2f} of the start p50, {found.start_p99_ratio:.2f} of its p99\n"
    )
