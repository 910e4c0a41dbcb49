# SPDX-License-Identifier: Apache-2.0
"""A run of faults on three real servers, one fault after the other, with users who submit jobs.

Each round waits until every server may be lost, breaks one thing, measures what the users see, and
mends it. Owns that everything which was started here is ended, whatever happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.calls.cluster_status import ClusterStatus
from stoker.tui.chaos import cables, clocks, disks, linearizability, marks
from stoker.tui.chaos.chaos_figures import Round
from stoker.tui.chaos.faults import SCHEDULER, FaultKind, Hit
from stoker.tui.chaos.registers import Registers
from stoker.tui.chaos.users import ChaosUsers
from stoker.tui.demo import cluster_demo, network_hosts, private_node
from stoker.tui.demo.network_hosts import Host

USERS = 2
POLL_S = 0.02
DECISION_PAUSE_S = 0.1
"""The pause between a placement and the next job of whoever measures the gaps between them."""
NS = 1e9
AT, MOVES = "at", "moves=here"
"""The label of the host where a steady job stays, and that of hosts where a moving one may run."""
FROZE_S = 1.0
"""A steady job leaves ten marks a second; one that is silent for so long stood still."""
LOG_VIEW_S = 2.5
AUDITS = 10
PATIENCE_S = 120.0


class ChaosPlan(NamedTuple):
    """The faults of a run: it ends after so many minutes, or earlier after so many of each kind."""

    minutes: float
    seed: int
    kinds: tuple[FaultKind, ...]
    of_each: int = 1 << 30


@dataclass
class ChaosReport:
    """The result: rounds, what must never be, and what the users did."""

    seed: int
    rounds: list[Round] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """The reasons why the run is not whole."""
    accepted: int = 0
    unanswered: int = 0
    operations: int = 0
    """The operations of the history, and those of them without an answer."""
    operations_unanswered: int = 0
    attempts: int = 0
    """The attempts that ran, by their own marks."""
    entries: int = 0
    """The entries of the log, by each scheduler's audit."""


def run(plan: ChaosPlan, tell: Callable[[Round], None], history: Path | None = None) -> ChaosReport:
    """Run the faults of a plan in a network of its own; `tell` is called after each, and the
    operations of the registers are written to `history`."""
    network_hosts.enter()
    if any(kind.spoils_cable for kind in plan.kinds):
        cables.check()
    report = ChaosReport(plan.seed)
    folder = Path(tempfile.mkdtemp(prefix="stoker-chaos-"))
    folder.chmod(0o711)
    try:
        with (
            private_node.terminable(),
            network_hosts.made(cluster_demo.NAMES, folder) as placed,
            disks.own_disks(placed, folder) as stored,
            clocks.own_clocks(stored, folder, random.Random(plan.seed)) as hosts,
        ):
            try:
                cluster_demo.start(hosts)
                chaos = _Chaos(hosts, folder, plan, report)
                asyncio.run(chaos.run(tell))
                if history is not None:
                    chaos.registers.write(history)
            except StokerError as error:
                report.failures.append(error.message)
            finally:
                report.failures += cluster_demo.end(hosts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report


class _Chaos:
    """One run."""

    def __init__(
        self, hosts: list[Host], folder: Path, plan: ChaosPlan, report: ChaosReport
    ) -> None:
        self._hosts, self._plan, self._report = hosts, plan, report
        self._chance = random.Random(report.seed)
        self._marks = folder / "marks"
        self._marks.touch()
        self._marks.chmod(0o666)
        self._users = ChaosUsers(hosts, self._marks)
        self.registers = Registers(hosts, report.seed)
        self._steady: dict[str, int] = {}
        """Host -> the job that stays there."""
        self._moving: list[int] = []
        self._dated = any(kind.sets_date for kind in plan.kinds)
        """True if times are those at which this process saw something, and not the records'."""

    async def run(self, tell: Callable[[Round], None]) -> None:
        """Run the faults, then judge all that was seen."""
        await cluster_demo.in_step(self._hosts[0], apart=False)
        async with Client.open(str(self._hosts[0].state)) as client:
            for host in self._hosts:
                await self._begin_steady(client, host)
        users = [asyncio.create_task(self._users.submit_on(n)) for n in range(USERS)]
        users += [asyncio.create_task(self.registers.use(host)) for host in self._hosts]
        try:
            await self._rounds(time.monotonic() + self._plan.minutes * 60, tell)
        finally:
            for user in users:
                user.cancel()
            await asyncio.gather(*users, return_exceptions=True)
        await self._judge()

    async def _begin_steady(self, client: Client, host: Host) -> None:
        label = f"{AT}={host.name}"
        await client.settle(
            "node", "label", schema.NodeLabelRequest(node=host.name, labels=(label,))
        )
        self._steady[host.name] = (await client.submit(self._lasting("steady", label))).job
        await client.wait(self._steady[host.name], "running")

    def _lasting(self, name: str, label: str) -> schema.JobRequest:
        program = marks.argv(1_000_000, 0.1, self._marks)
        return schema.JobRequest(
            argv=program, cwd="/", name=name, require=(label,), restart="on-node-loss"
        )

    async def _rounds(self, until: float, tell: Callable[[Round], None]) -> None:
        kinds = self._plan.kinds
        passes = (self._chance.sample(kinds, len(kinds)) for _ in range(self._plan.of_each))
        for kind in itertools.chain.from_iterable(passes):
            if time.monotonic() > until:
                return
            try:
                done = await self._round(kind)
            except (StokerError, TimeoutError) as error:
                self._report.failures.append(
                    f"{kind.name}: {error or 'no effect was seen in time'}"
                )
                return
            self._report.rounds.append(done)
            tell(done)

    # --- one round --------------------------------------------------------------------------------

    async def _round(self, kind: FaultKind) -> Round:
        host = self._hit(kind, await self._settled())
        others = tuple(each for each in self._hosts if each is not host)
        hit, watch = Hit(host, others, self._chance, []), others[0]
        async with Client.open(str(watch.state), patience_s=PATIENCE_S) as client:
            moving = await self._begin_moving(client, hit) if kind.host_dies else None
            before = await self._attempts(client, others)
            over = asyncio.Event()
            began_ns, times = time.time_ns(), dict[str, float]()
            gap = asyncio.create_task(self._longest_gap(client, began_ns, over))
            try:
                await kind.begin(hit)
                await asyncio.sleep(self._chance.uniform(*kind.lasts_s))
                if moving is not None:
                    times["elsewhere"] = (await self._started_again(client, moving) - began_ns) / NS
            finally:
                await kind.end(hit)
            ended_ns = time.time_ns()
            over.set()
            times["decides"] = await gap / NS
            await cluster_demo.in_step(watch, apart=False)
            times["in_step"] = (time.time_ns() - ended_ns) / NS
            after = await self._attempts(client, others)
            if moving is not None:
                await client.cancel(str(moving))
        moved = sum(before[job] != after[job] for job in before)
        froze = sum(self._stood_still(job, began_ns) for job in before)
        lasted_s, cable = (ended_ns - began_ns) / NS, [each.did for each in hit.cables]
        return Round(kind.name, host.name, lasted_s, times, moved, froze, *cable)

    async def _settled(self) -> ClusterStatus:
        """Wait until the leaders stay who they are, on two hosts: a scheduler tells who leads the
        log as it was LOG_VIEW_S ago at most."""
        before: tuple[str, str] | None = None
        while True:
            found = await cluster_demo.in_step(self._hosts[0], apart=False)
            leaders = found.leader, found.log_leader
            if leaders == before and found.leader != found.log_leader:
                return found
            if leaders == before:
                self._hand_over(found.leader)
            before = leaders
            await asyncio.sleep(LOG_VIEW_S)

    def _hand_over(self, leader: str) -> None:
        """Let another scheduler lead, by a restart in order of the one that does. The log's leader
        would be moved off its host, too, but once a minute at most."""
        host = next(host for host in self._hosts if host.name == leader)
        with contextlib.suppress(ProcessLookupError):
            if pid := host.program(SCHEDULER):
                os.kill(pid, signal.SIGTERM)

    def _hit(self, kind: FaultKind, found: ClusterStatus) -> Host:
        names = {"leader": found.leader, "log": found.log_leader}
        follower = next(h.name for h in self._hosts if h.name not in names.values())
        name = names.get(kind.role, follower)
        return next(host for host in self._hosts if host.name == name)

    async def _begin_moving(self, client: Client, hit: Hit) -> int:
        """Begin a job on a host that may run on the others as well from then on."""
        for host in hit.others:
            unlabel = schema.NodeLabelRequest(node=host.name, remove=(MOVES,))
            await client.settle("node", "label", unlabel)
        label = schema.NodeLabelRequest(node=hit.host.name, labels=(MOVES,))
        await client.settle("node", "label", label)
        job = (await client.submit(self._lasting("moving", MOVES))).job
        await client.wait(job, "running")
        self._moving.append(job)
        for host in hit.others:
            label = schema.NodeLabelRequest(node=host.name, labels=(MOVES,))
            await client.settle("node", "label", label)
        return job

    async def _attempts(self, client: Client, hosts: tuple[Host, ...]) -> dict[int, int]:
        """Return the attempt of the steady job on each of these hosts."""
        jobs = [self._steady[host.name] for host in hosts]
        return {job: (await client.get(job)).attempt for job in jobs}

    async def _longest_gap(self, client: Client, began_ns: int, over: asyncio.Event) -> int:
        """Submit one job after the other until it is over and one more was placed; return the
        longest time without a placement, ns."""
        last_ns, longest_ns, again = began_ns, 0, True
        while again:
            again = not over.is_set()
            request = schema.JobRequest(argv=("true",), cwd="/", name="next")
            try:
                job = (await client.submit(request)).job
            except StokerError:  # refused, as by a leader whose disk is full
                again = True
            else:
                view = await _until(client, job, lambda view: view.times.placed_ns is not None)
                placed_ns = self._at(view.times.placed_ns)
                longest_ns, last_ns = max(longest_ns, placed_ns - last_ns), placed_ns
            await asyncio.sleep(DECISION_PAUSE_S)
        return longest_ns

    async def _started_again(self, client: Client, job: int) -> int:
        """Wait until a job runs in another attempt; return when it began, CLOCK_REALTIME ns."""
        view = await _until(client, job, lambda view: view.attempt > 1 and view.state == "running")
        return self._at(view.times.started_ns)

    def _at(self, recorded_ns: int | None) -> int:
        """Return the time of something that was just seen, CLOCK_REALTIME ns."""
        return time.time_ns() if self._dated else recorded_ns or 0

    def _stood_still(self, job: int, since_ns: int) -> bool:
        times = [m.t_ns for m in self._read() if m.job == job and m.t_ns >= since_ns]
        return any(b - a > FROZE_S * NS for a, b in itertools.pairwise(times))

    def _read(self) -> list[marks.JobMark]:
        return marks.read(self._marks.read_text())

    # --- the end ----------------------------------------------------------------------------------

    async def _judge(self) -> None:
        report, users = self._report, self._users
        await cluster_demo.in_step(self._hosts[0], apart=False)
        async with Client.open(str(self._hosts[0].state)) as client:
            for job in (*self._steady.values(), *self._moving):
                await client.cancel(str(job))
            report.violations += [each async for each in users.ended(client)]
        found = marks.presences(self._read())
        once = {each.job for each in users.accepted if each.once}
        exclusive = {each.job for each in users.accepted if each.exclusive}
        report.violations += marks.violations(found, once, exclusive)
        report.accepted, report.attempts = len(users.accepted), len(found)
        report.unanswered = users.unanswered
        report.operations = len(self.registers.history)
        report.operations_unanswered = self.registers.unanswered
        report.violations += linearizability.violations(self.registers.history)
        report.violations += await asyncio.to_thread(lambda: [*self._audits()])

    def _audits(self) -> Iterator[str]:
        """Audit each scheduler from its own files; yield where they differ. One that has not read
        the newest entry yet is audited again."""
        for _ in range(AUDITS):
            ends = self._ends()
            self._report.entries = max(index for index, _, _ in ends)
            if len(ends) == 1:
                return
        yield f"the schedulers' audits differ: {sorted(ends)}"

    def _ends(self) -> set[tuple[int, str, str]]:
        """Return the ends of all audits: the index, the hash of the chain, that of the effects."""
        first = self._hosts[0]
        ends = set()
        for each in json.loads(first.stoker("cluster", "--json"))["schedulers"]:
            at = f"{each['number']:016x}"
            said = json.loads(first.stoker("audit", "verify", "--at", at, "-o", "json"))
            ends.add((said["index"], said["hash"], said["trail"]))
        return ends


async def _until(
    client: Client, job: int, true: Callable[[schema.JobView], bool]
) -> schema.JobView:
    """Wait until a job is as wanted; the record itself has the time, so polls may be late."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if true(view := await client.get(job)):
                return view
            await asyncio.sleep(POLL_S)
