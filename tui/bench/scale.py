# SPDX-License-Identifier: Apache-2.0
"""The benchmark of size: many hosts with simulated cards (SIM) under one scheduler, all real
processes on this machine, and what each of them costs.

Each host is a network namespace that joined by token. CPU is what the kernel's scheduler has given
each thread; memory is PSS, which divides what processes have in common. A machine that is too small
shows in the beats: they come late.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.demo import network_hosts, private_node
from stoker.tui.demo.network_hosts import Host

HEAD = "head"
PROFILE = "8xH200"
CARDS = 8
NODES_MAX = 240
"""The hosts that one network of them has room for."""
PATIENCE_S = 300.0
SETTLE_S = 15.0
"""The time that new nodes have before anything is measured."""
POLL_S = 0.05
BEAT_S = 1.0
"""A node tells its observations so often."""
NS = 1e9


CARDS_PROGRAM = """
import json, sys
from pathlib import Path
from stoker.probes.simdriver import libraries, profiles
node = Path(sys.argv[2])
profiles.node(sys.argv[1], node, seed=int(sys.argv[3]))
told = libraries.environment(node, {profiles.NVIDIA}, {})
print(json.dumps({name: told[name] for name in told if not name.startswith("ROCM_")}))
"""
"""The program that makes a node's cards and prints the environment that leads to them, in a process
of its own: a viewer must not import the simulated drivers. A host of NVIDIA's cards has no ROCm, so
none is simulated."""


class ProcessUse(NamedTuple):
    """One process at one moment: its program, PSS in KiB and CPU time in ns."""

    program: str
    pss_kib: int
    cpu_ns: int


def measure(
    growth: Sequence[int], seconds: float, say: Callable[[str], None]
) -> tuple[dict[str, Any], list[str]]:
    """Measure at each of these numbers of nodes; return the result, and what is left behind.

    A size that cannot be reached is said with the latter, and loses nothing of those before it.
    """
    network_hosts.enter()
    names = [HEAD, *(f"n{number:03}" for number in range(1, max(growth) + 1))]
    left: list[str] = []
    steps: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="stoker-scale-", ignore_cleanup_errors=True) as folder,
        private_node.terminable(),
        network_hosts.made(names, Path(folder), acquainted=True) as hosts,
    ):
        Path(folder).chmod(0o711)
        try:
            for step in _steps(hosts, sorted(growth), seconds, Path(folder), say):
                steps.append(step)  # one that fails leaves those before it
                for line in step_lines(step):  # and one that is interrupted
                    say(line)
        except StokerError as error:
            if not steps:
                raise
            left.append(f"measured up to {steps[-1]['nodes']} nodes: {error.message}")
        finally:
            left += _end(hosts)
    return {"sim": True, "profile": PROFILE, "seconds": seconds, "steps": steps}, left


def _steps(
    hosts: list[Host],
    growth: Sequence[int],
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    head, *rest = hosts
    head.stoker("cluster", "init", "--address", head.address, "--name", head.name)
    head.stoker("up")
    begun = 0
    for count in growth:
        say(f"starting nodes {begun + 1} to {count}")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda host: _join(head, host, folder), rest[begun:count]))
        begun = count
        say(f"measuring {count} nodes for {seconds:g} s")
        yield asyncio.run(_step(head, rest[:count], seconds))


def _join(head: Host, host: Host, folder: Path) -> None:
    """Make a host with eight cards a node of the cluster."""
    cards = folder / f"{host.name}.cards"
    made = [sys.executable, "-c", CARDS_PROGRAM, PROFILE, str(cards), host.name[1:]]
    environment = json.loads(subprocess.run(made, capture_output=True, check=True).stdout)
    token = head.stoker("cluster", "token", "--expires", "10m")
    host.stoker("cluster", "join", "--name", host.name, stdin=token.encode())
    host.stoker("up", "--label", f"at={host.name}", environment=environment)


async def _step(head: Host, nodes: list[Host], seconds: float) -> dict[str, Any]:
    async with Client.open(str(head.state), patience_s=PATIENCE_S) as client:
        await _until_ready(client, len(nodes) + 1)
        await asyncio.sleep(SETTLE_S)
        reader = KindReader("observations", 1.0)
        before, began_s = [uses(host) for host in (head, *nodes)], time.monotonic()
        beats = await _beats(client, reader, began_s + seconds)
        after, took_s = [uses(host) for host in (head, *nodes)], time.monotonic() - began_s
        through_s = await _through_each(client, nodes)
        ready_s = await _lead_again(client, head)
    own, others = (before[0], after[0]), (before[1:], after[1:])
    return {
        "nodes": len(nodes),
        "devices": CARDS * len(nodes),
        "head": costs([own[0]], [own[1]], took_s),
        "node": costs(*others, took_s),
        "beats_late_ms": late_ms(beats),
        "observations_per_s": sum(map(len, beats.values())) / took_s,
        "a_job_through_each_s": through_s,
        "next_decision_s": ready_s,
    }


async def _until_ready(client: Client, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while sum(node.state == "ready" for node in (await client.nodes()).nodes) < count:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


async def _beats(client: Client, reader: KindReader, until_s: float) -> dict[str, list[int]]:
    """Return when each node's observations came to the broker, CLOCK_REALTIME ns."""
    beats: dict[str, list[int]] = defaultdict(list)
    while time.monotonic() < until_s:
        await reader.read(client)
        while reader.told:
            told = reader.told.popleft()
            if node := told.row.get("node"):
                beats[str(node)].append(told.t_ns)
        if not reader.more:
            await asyncio.sleep(1.0)
    return beats


async def _through_each(client: Client, nodes: list[Host]) -> float:
    """Run one job on each node at once; return how long all of them took together."""
    began_s = time.monotonic()
    requests = [
        schema.JobRequest(argv=("true",), cwd="/", gpu_milli=1000, require=(f"at={host.name}",))
        for host in nodes
    ]
    jobs = [(await client.submit(request)).job for request in requests]
    for job in jobs:
        view = await client.wait(job)
        assert view.state == "succeeded", f"job {job} {view.state}: {view.reason}"
    return time.monotonic() - began_s


async def _lead_again(client: Client, head: Host) -> float:
    """Kill the scheduler; return the time until the next job is placed."""
    killed_ns = time.time_ns()
    os.kill(head.program("scheduler"), signal.SIGKILL)
    view = await client.wait((await client.submit(schema.JobRequest(argv=("true",), cwd="/"))).job)
    return ((view.times.placed_ns or 0) - killed_ns) / NS


def uses(host: Host) -> dict[int, ProcessUse]:
    """Return what each process of a host uses now, by pid; one that ends meanwhile is left out."""
    found, programs = {}, host.programs()
    for pid in host.processes():
        try:
            program = programs.get(pid) or _other(pid)
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            pss = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            tasks = Path(f"/proc/{pid}/task").iterdir()
            cpu = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        except OSError:
            continue
        found[pid] = ProcessUse(program, pss, cpu)
    return found


def _other(pid: int) -> str:
    """Return a name for a process that no supervisor has started: it is one, or a child."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return "supervisor" if b"stoker.agent.supervise.supervisor" in command else "children"


def costs(
    before: Sequence[dict[int, ProcessUse]], after: Sequence[dict[int, ProcessUse]], took_s: float
) -> dict[str, dict[str, float]]:
    """Return the means by program of hosts: PSS in MiB, CPU in percent of a core, and its maximum;
    `all` is the sum of a host's programs. Pure."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for was, now in zip(before, after, strict=True):
        mine = [
            (use.program, use.pss_kib / 1024, (use.cpu_ns - was[pid].cpu_ns) / NS / took_s * 100)
            for pid, use in now.items()
            if pid in was
        ]
        for program, pss, cpu in mine:
            rows[program].append((pss, cpu))
        rows["all"].append((sum(row[1] for row in mine), sum(row[2] for row in mine)))
    return {
        program: {
            "pss_mib": sum(pss for pss, _ in found) / len(found),
            "cpu_percent": sum(cpu for _, cpu in found) / len(found),
            "cpu_percent_max": max(cpu for _, cpu in found),
        }
        for program, found in sorted(rows.items())
    }


def late_ms(beats: dict[str, list[int]]) -> dict[str, float]:
    """Return how far the pauses between beats of one node are from a second, in ms: the ranks of
    all pauses. Pure."""
    pauses = sorted(
        abs((b - a) / NS - BEAT_S) * 1e3
        for times in beats.values()
        for a, b in itertools.pairwise(times)
    )
    if not pauses:
        return {}
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: pauses[math.ceil(q * len(pauses)) - 1] for name, q in ranks.items()}


def text(result: dict[str, Any]) -> str:
    """Return the result for reading."""
    lines = [f"SIM: {PROFILE} on each node, {result['seconds']:g} s at each size"]
    for step in result["steps"]:
        lines += step_lines(step)
    return "\n".join(lines) + "\n"


def step_lines(step: dict[str, Any]) -> list[str]:
    """Return the lines of one size."""
    agent, node = step["node"]["agent"], step["node"]["all"]
    scheduler, broker = step["head"]["scheduler"], step["head"]["nats-server"]
    late = step["beats_late_ms"]
    return [
        f"{step['nodes']} nodes, {step['devices']} devices",
        f"  agent      {agent['pss_mib']:.1f} MiB PSS, {agent['cpu_percent']:.2f} % of a core,"
        f" at most {agent['cpu_percent_max']:.2f} %",
        f"  node       {node['pss_mib']:.1f} MiB PSS, {node['cpu_percent']:.2f} % of a core",
        f"  scheduler  {scheduler['pss_mib']:.1f} MiB PSS, {scheduler['cpu_percent']:.1f} %;"
        f" broker {broker['pss_mib']:.1f} MiB, {broker['cpu_percent']:.1f} %",
        f"  beats      {step['observations_per_s']:.1f} a second, late p50"
        f" {late.get('p50', 0):.0f} ms, p99 {late.get('p99', 0):.0f} ms",
        f"  jobs       one through each node in {step['a_job_through_each_s']:.2f} s; scheduler"
        f" killed to the next decision {step['next_decision_s']:.2f} s",
    ]


def _end(hosts: list[Host]) -> list[str]:
    """End all nodes, also when one of them does not end; return what is left behind."""

    def end(host: Host) -> list[str]:
        failed = []
        try:
            if host.state.exists():
                host.stoker("down")
        except StokerError as error:
            failed.append(str(error))
        left = private_node.leftovers(host.state)
        return failed + [f"left behind on {host.name}: {what}" for what in left]

    with ThreadPoolExecutor(2) as pool:
        return [line for lines in pool.map(end, reversed(hosts)) for line in lines]
