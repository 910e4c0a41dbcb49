# SPDX-License-Identifier: Apache-2.0
"""The demo of a cluster: three servers, a traced job beside the leading scheduler, the death of
that host, another leader, the job elsewhere.

It passes only if another scheduler led on, a job on another host never noticed, the traced job ran
again on another host by its own policy, the tracer counted exactly the launches of that attempt,
and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native import paths
from stoker.native.errors import StokerError, Unavailable
from stoker.tui.calls import cluster_status, job_calls
from stoker.tui.calls.cluster_status import ClusterStatus
from stoker.tui.demo import demo_job, network_hosts, private_node
from stoker.tui.demo.demo_job import DemoWork
from stoker.tui.demo.network_hosts import Host

NAMES = ("first", "second", "third")
MAY_RUN = "demo=here"
"""The label of the hosts where the traced job may run: first the one of the leader alone."""
NEXT = "demo-next=here"
"""The label of the host that lives, for the job that shows that another scheduler leads."""
PATIENCE_S = 120.0
POLL_S = 0.05
ROUNDS, PAUSE_US = 60, 100_000
"""The job computes in rounds with pauses between them, for at least six seconds."""
NS = 1e9


TITLE = "stoker  three servers, of which the leading one dies with a traced job"
LIMITS = (
    "the host whose broker leads the log: the brokers elect another within 4 to 16 s, and only then"
    " does anything new start",
    "two of three servers at once: nothing is decided then until one of them is back",
    "the hosts are network namespaces of this machine: they share its CPUs, its disk and its clock,"
    " and the job's device is the CPU (PoCL)",
)
"""The demo says these of itself, since nobody should take it for more."""


class Moment(NamedTuple):
    """A line of the story; `t_ns` is CLOCK_REALTIME, which all hosts here share."""

    t_ns: int
    text: str


@dataclass
class ClusterStory:
    """The result of the demo."""

    hosts: list[str] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    killed_ns: int = 0
    kernels: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[tuple[str, str]]:
        """The labelled lines below the story."""
        rows = []
        if "next_decision_s" in self.figures:
            decided = self.figures["next_decision_s"]
            text = f"host of the leader dead to the next job placed {decided:.1f} s"
            rows.append(("measured", text))
        if "runs_elsewhere_s" in self.figures:
            evicted, runs = self.figures["evicted_s"], self.figures["runs_elsewhere_s"]
            rows.append(
                (
                    "measured",
                    f"host dead to evicted {evicted:.1f} s, to its job running"
                    f" elsewhere {runs:.1f} s",
                )
            )
        rows += [("kernels", text) for text in self.kernels]
        return [*rows, *(("not shown", text) for text in LIMITS)]

    def note(self, t_ns: int | None, text: str) -> None:
        """Add a moment; one whose time is not known has no place in the story."""
        if t_ns is not None:
            self.moments.append(Moment(t_ns, text))


def run() -> ClusterStory:
    """Run the whole demo in a network of its own; a StokerError if there is nothing to show."""
    network_hosts.enter()
    story = ClusterStory()
    folder = Path(tempfile.mkdtemp(prefix="stoker-cluster-"))
    folder.chmod(0o711)
    try:
        with private_node.terminable(), network_hosts.made(NAMES, folder) as hosts:
            try:
                story.hosts += start(hosts)
                asyncio.run(_tell(hosts, folder, story))
            finally:
                story.failures += end(hosts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    story.failures += [f"left behind: network namespace {x}" for x in network_hosts.namespaces()]
    story.moments.sort()
    return story


def start(hosts: list[Host]) -> list[str]:
    """Make a cluster of the hosts, as an administrator does it; return a line about each."""
    first, *others = hosts
    told = []
    named = ("--address", first.address, "--name", first.name)
    first.stoker("cluster", "init", *named, "--servers", str(len(hosts)))
    first.stoker("up")
    what = "broker, scheduler, copy of the log, agent"
    told.append(f"{first.name:<8}{first.address:<12}{what}")
    for host in others:
        began = time.monotonic()
        token = first.stoker("cluster", "token", "--server", "--expires", "10m")
        host.stoker("cluster", "join", "--name", host.name, stdin=token.encode())
        joined_s = time.monotonic() - began
        host.stoker("up")
        how = f"the same; joined by token over TLS 1.3 in {joined_s:.1f} s"
        told.append(f"{host.name:<8}{host.address:<12}{how}")
    return told


async def in_step(host: Host, *, apart: bool = True) -> ClusterStatus:
    """Wait until every server may be taken down, as a host shows it; return that status. With
    `apart`, also until no host leads both the schedulers and the log, as the schedulers see to."""
    deadline = time.monotonic() + PATIENCE_S
    why = "it has not begun"
    while time.monotonic() < deadline:
        try:
            found = await cluster_status.status(str(host.state))
        except StokerError as error:
            why = error.message
        else:
            ready = all(row.may_go and row.node == "ready" for row in found.servers)
            if ready and not (apart and found.leader == found.log_leader):
                return found
            why = "; ".join(_behind(found))
        await asyncio.sleep(POLL_S)
    raise Unavailable(f"the servers are not in step within {PATIENCE_S:g} s: {why}")


def _behind(found: ClusterStatus) -> Iterator[str]:
    """Yield what is missing for all servers to be in step."""
    yield from (row.because for row in found.servers if not row.may_go)
    yield from (f"{row.server} is {row.node}" for row in found.servers if row.node != "ready")
    if found.leader == found.log_leader:
        yield f"{found.leader} leads the schedulers and the log"


def end(hosts: list[Host]) -> Iterator[str]:
    """End all nodes, the lost one's remains too, and yield what is left behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for host in reversed(hosts):
            with contextlib.suppress(FileNotFoundError):
                try:
                    if host.state.exists():
                        host.stoker("down")
                except StokerError as error:
                    yield error.message
            yield from (
                f"left behind on {host.name}: {what}" for what in private_node.leftovers(host.state)
            )
    finally:
        signal.signal(signal.SIGINT, before)


async def _tell(hosts: list[Host], folder: Path, story: ClusterStory) -> None:
    """Submit the job, take its host away, and tell what becomes of it."""
    begun = await in_step(hosts[0])
    lost = next(host for host in hosts if host.name == begun.leader)
    watch, other = (host for host in hosts if host is not lost)
    async with Client.open(str(watch.state)) as client, asyncio.timeout(4 * PATIENCE_S):
        await _let_run(client, lost, MAY_RUN)
        number = (await client.submit(_request(folder))).job
        bystander = (await client.submit(_sleeping(other))).job
        for job in (number, bystander):
            await client.wait(job, "running")
        await _let_run(client, watch, MAY_RUN, NEXT)
        await _lose(client, number, lost, story)
        await _decide_again(client, watch, lost, story)
        await _until(
            client, lambda rows: any(r.node == lost.name and r.state == "evicted" for r in rows)
        )
        why = next(row.evicted for row in (await client.nodes()).nodes if row.node == lost.name)
        await client.wait(number)
        view = await client.get(number, trace=True)
        _note_attempts(view, lost.name, why, story)
        _note_bystander(await client.get(bystander), story)
        await client.cancel(str(bystander))
        await _compare(client, view, story)


async def _let_run(client: Client, host: Host, *labels: str) -> None:
    """Let jobs that require these labels run on a host, besides those where they may already."""
    request = schema.NodeLabelRequest(node=host.name, labels=labels)
    await client.settle("node", "label", request)


def _request(folder: Path) -> schema.JobRequest:
    program = folder / "stoker-demo-opencl"
    shutil.copyfile(paths.program("stoker-demo-opencl"), program)
    program.chmod(0o755)
    return schema.JobRequest(
        argv=(str(program), "--json", "--rounds", str(ROUNDS), "--pause-us", str(PAUSE_US)),
        cwd="/",
        name="cluster-demo",
        gpu_milli=1000,
        device_kind="cpu",
        trace="full",
        require=(MAY_RUN,),
        restart="on-node-loss",
        time_limit_s=PATIENCE_S,
    )


def _sleeping(host: Host) -> schema.JobRequest:
    """Return a job for the host that neither leads nor is watched."""
    return schema.JobRequest(
        argv=("sleep", "600"),
        cwd="/",
        name="bystander",
        avoid=(MAY_RUN,),
        restart="on-node-loss",
        time_limit_s=4 * PATIENCE_S,
    )


async def _lose(client: Client, number: int, lost: Host, story: ClusterStory) -> None:
    """Wait until kernels of the job were traced, then end its host as a power failure does."""
    seen = await _traced(client, number)
    story.note(time.time_ns(), f"{seen} kernels of it are traced so far")
    found = await cluster_status.status(str(lost.state))
    leads = ", whose scheduler leads,"
    if found.leader != lost.name:
        story.failures.append(f"{found.leader} leads before {lost.name} dies")
    killed_ns = time.time_ns()
    count = await asyncio.to_thread(lost.lose_power)
    ends = "dies: its cable is cut, its"
    story.note(killed_ns, f"{lost.name}{leads} {ends} {count} processes are killed")
    story.killed_ns = killed_ns


async def _decide_again(client: Client, watch: Host, lost: Host, story: ClusterStory) -> None:
    """Submit one more job at once: it is placed by the next leader, whom the status names."""
    request = schema.JobRequest(argv=("true",), cwd="/", name="next", require=(NEXT,))
    view = await client.wait((await client.submit(request)).job)
    found = await cluster_status.status(str(watch.state))
    leader = found.leader
    story.note(view.times.placed_ns, f"{leader} leads: it places job {view.job}, submitted since")
    if leader in ("", lost.name) or view.state != "succeeded" or view.times.placed_ns is None:
        story.failures.append(f"job {view.job}, submitted after the loss, {view.state}")
    else:
        story.figures["next_decision_s"] = (view.times.placed_ns - story.killed_ns) / NS
    stay = [row.server for row in found.servers if row.index is not None and not row.may_go]
    story.note(time.time_ns(), f"`stoker cluster status`: {' and '.join(stay)} must stay")


def _note_bystander(view: schema.JobView, story: ClusterStory) -> None:
    """Tell that the job on the third host ran on, or fail."""
    where = view.decision.node if view.decision is not None else "no host"
    if (view.state, view.attempt) == ("running", 1):
        story.note(time.time_ns(), f"job {view.job} on {where} runs on in its first attempt")
    else:
        story.failures.append(f"job {view.job} on {where} {view.state} in attempt {view.attempt}")


async def _traced(client: Client, number: int) -> int:
    """Wait until kernels of a job were traced, and return how many."""
    for _ in range(int(PATIENCE_S / POLL_S)):
        if rows := (await client.kernels(number)).kernels:
            return sum(row.count for row in rows)
        await asyncio.sleep(POLL_S)
    raise Unavailable(f"no kernel of job {number} was traced within {PATIENCE_S:g} s")


async def _until(client: Client, true: Callable[[tuple[schema.NodeView, ...]], bool]) -> None:
    """Wait until the list of nodes satisfies a test."""
    deadline = time.monotonic() + PATIENCE_S
    while not true(nodes := (await client.nodes()).nodes):
        if time.monotonic() > deadline:
            states = ", ".join(f"{row.node} {row.state}" for row in nodes)
            raise Unavailable(f"not within {PATIENCE_S:g} s; the nodes are now: {states}")
        await asyncio.sleep(POLL_S)


def _note_attempts(view: schema.JobView, lost: str, why: str, story: ClusterStory) -> None:
    """Tell both attempts from the job's own record."""
    story.note(view.times.submitted_ns, f"job {view.job} is submitted, --restart on-node-loss")
    if not view.attempts or view.decision is None:
        story.failures.append(f"the job {view.state} in its first attempt: {view.reason}")
        return
    before, place = view.attempts[0], view.decision.node
    killed_ns = story.killed_ns
    story.note(before.started_ns, f"attempt {before.attempt} runs on {before.node}")
    story.note(before.ended_ns, f"{lost} is evicted: {why}")
    story.note(view.times.placed_ns, f"attempt {view.attempt} is placed on {place}")
    story.note(view.times.started_ns, f"attempt {view.attempt} runs on {place}")
    story.note(view.times.ended_ns, f"job {view.job} {view.state}")
    started_ns = view.times.started_ns
    if before.ended_ns is not None and started_ns is not None:
        story.figures["evicted_s"] = (before.ended_ns - killed_ns) / NS
        story.figures["runs_elsewhere_s"] = (started_ns - killed_ns) / NS
    if (view.state, view.attempt, before.node == lost) != ("succeeded", 2, True) or place == lost:
        story.failures.append(f"the job {view.state} on {place} in attempt {view.attempt}")


async def _compare(client: Client, view: schema.JobView, story: ClusterStory) -> None:
    """Compare what the last attempt says that it launched with what was traced of it."""
    job: dict[str, Any] = (await job_calls.describe(client, [view]))[0]
    said = await demo_job.output(client, view.job, "out")
    story.failures += demo_job.counted(job, said, DemoWork(view.spec.argv, kind="cpu"))
    for kernel in job["kernels"]:
        launched = said.get(kernel["name"], {}).get("count", 0)
        story.kernels.append(f"{kernel['name']:<8}launched {launched}, traced {kernel['count']}")
