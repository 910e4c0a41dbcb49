# SPDX-License-Identifier: Apache-2.0
"""A deliberately dumb scheduler to compare the core with: lists, full scans, copies, no index.

Relied on by test_core_oracle. It states the rules of the core a second time, in the plainest way:
propose is "copy everything, do it, look at what happened".
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

from stoker.scheduler import records as rec
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_nouns import (
    CANCELLED,
    FINAL,
    KINDS,
    LOST,
    M64,
    PENDING,
    RUNNING,
    STARTING,
    STOPPING,
    SUCCEEDED,
    Device,
    Job,
    No,
    Node,
    Task,
    gangs,
    mix,
)


class Oracle:
    """The whole state; effects are appended to `told` as comparable tuples."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.term = 0
        self.leader = 0
        self.next_job = 1
        self.nodes: list[Node] = []
        self.jobs: dict[int, Job] = {}
        self.tasks: list[Task] = []
        self.ended: list[int] = []
        self.keys: list[tuple[int, bytes, int, int]] = []
        self.told: list[tuple[object, ...]] = []
        self.command = 0

    # -- looking ---------------------------------------------------------------------------

    def node(self, id: int) -> Node:
        for node in self.nodes:
            if node.id == id:
                return node
        raise No(R.UNKNOWN_NODE)

    def used(self, node: Node, index: int) -> int:
        return sum(
            share.milli
            for task in self.tasks
            if task.node == node.id
            for share in task.shares
            if share.index == index
        )

    def free(self, node: Node, index: int) -> int:
        device = node.devices[index]
        return device.capacity - self.used(node, index) if device.available else 0

    def on_node(self, node: Node) -> list[Task]:
        return [task for task in self.tasks if task.node == node.id]

    def of_job(self, job: Job) -> list[Task]:
        return sorted((t for t in self.tasks if t.job == job.id), key=lambda t: t.number)

    def cpu_free(self, node: Node) -> int:
        used = sum(self.jobs[t.job].ask.cpu_milli for t in self.on_node(node))
        return max(0, node.cpu - used)

    def memory_free(self, node: Node) -> int:
        used = sum(self.jobs[t.job].ask.memory_bytes for t in self.on_node(node))
        return max(0, node.memory - used)

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state not in FINAL]

    # -- commands --------------------------------------------------------------------------

    def do(self, command: rec.Command | list[rec.Place]) -> None:
        """Carry out one command (a gang is a list); raises No where nothing changes."""
        name = "places" if isinstance(command, list) else type(command).__name__.lower()
        getattr(self, f"do_{name}")(command)

    def do_term(self, c: rec.Term) -> None:
        if c.term <= self.term:
            raise No(R.STALE_TERM, c.term, self.term)
        self.term, self.leader = c.term, c.leader

    def do_nodeup(self, c: rec.NodeUp) -> None:
        known = [n for n in self.nodes if n.id == c.node]
        have = len(known[0].devices) if known else 0
        total = sum(len(n.devices) for n in self.nodes)
        if c.node == 0:
            raise No(R.UNKNOWN_NODE)
        if c.devices > 64:
            raise No(R.BAD_DEVICE_INDEX, c.devices, 64)
        if not known and len(self.nodes) == self.limits.nodes:
            raise No(R.NODES_FULL, 1, self.limits.nodes)
        if c.devices > have and total + c.devices - have > self.limits.devices:
            raise No(R.DEVICES_FULL, c.devices, self.limits.devices)
        if known:
            self.refuse_old_news(known[0], c)
        node = known[0] if known else self.join(c)
        if node.boot != c.boot:
            self.lose(node, R.NODE_REBOOTED)
            node.boot_before, node.boot = node.boot, c.boot
        node.incarnation, node.cpu, node.memory = c.incarnation, c.cpu_milli, c.memory_bytes
        node.devices += [Device() for _ in range(c.devices - len(node.devices))]
        for device in node.devices[c.devices :]:
            device.available, device.owner, device.reason = False, 0, R.DEVICE_GONE
        node.up, node.reason = True, 0

    def refuse_old_news(self, node: Node, c: rec.NodeUp) -> None:
        now = (node.boot, node.incarnation, node.cpu, node.memory, len(node.devices))
        if node.up and now == (c.boot, c.incarnation, c.cpu_milli, c.memory_bytes, c.devices):
            raise No(R.UNCHANGED)
        if node.boot == c.boot and c.incarnation < node.incarnation:
            raise No(R.STALE_INCARNATION)
        if node.boot_before and node.boot_before == c.boot:
            raise No(R.STALE_INCARNATION)

    def join(self, c: rec.NodeUp) -> Node:
        taken = {n.slot for n in self.nodes}
        slot = next(s for s in range(1, self.limits.nodes + 1) if s not in taken)
        self.nodes.append(Node(c.node, slot, c.boot))
        self.nodes.sort(key=lambda n: n.slot)
        return self.node(c.node)

    def do_nodedown(self, c: rec.NodeDown) -> None:
        node = self.node(c.node)
        busy = self.on_node(node)
        if c.remove and not c.evict and (node.up or busy):
            raise No(R.NODE_BUSY, 0, len(busy))
        if not c.remove and not node.up and node.reason == c.reason and not (c.evict and busy):
            raise No(R.UNCHANGED)
        node.up, node.reason = False, c.reason
        if c.evict:
            self.lose(node, R.NODE_EVICTED)
        if c.remove:
            self.nodes.remove(node)

    def lose(self, node: Node, reason: int) -> None:
        while self.on_node(node):
            job = self.jobs[self.on_node(node)[0].job]
            self.tasks = [t for t in self.tasks if t.job != job.id or t.node != node.id]
            if not job.verdict:
                job.verdict, job.reason = LOST, reason
            self.after_end(job, node.id)

    def do_deviceset(self, c: rec.DeviceSet) -> None:
        node = self.node(c.node)
        if c.device >= len(node.devices):
            raise No(R.BAD_DEVICE_INDEX, c.device, len(node.devices))
        if c.capacity_milli > 1000:
            raise No(R.BAD_CAPACITY, c.capacity_milli, 1000)
        if c.capacity_milli < self.used(node, c.device):
            raise No(R.CAPACITY_IN_USE, c.capacity_milli, self.used(node, c.device))
        device = Device(c.capacity_milli, c.memory_bytes, c.available, c.owner, c.reason)
        if device == node.devices[c.device]:
            raise No(R.UNCHANGED)
        node.devices[c.device] = device

    def do_submit(self, c: rec.Submit) -> None:
        self.refuse_known_key(c)
        self.refuse_shape(c)
        if len(self.live()) == self.limits.jobs:
            raise No(R.JOBS_FULL, 1, self.limits.jobs)
        job = Job(self.next_job, c)
        self.jobs[job.id] = job
        self.next_job += 1
        self.tell_state(job, 0)
        if any(c.key):
            self.keys.append((c.client, c.key.ljust(16, b"\0"), c.spec_hash, job.id))
            del self.keys[: -self.limits.keys]

    def refuse_known_key(self, c: rec.Submit) -> None:
        for client, key, spec_hash, job in self.keys:
            if any(c.key) and (client, key) == (c.client, c.key.ljust(16, b"\0")):
                raise No(R.DUPLICATE if spec_hash == c.spec_hash else R.KEY_REUSED, job=job)

    @staticmethod
    def refuse_shape(c: rec.Submit) -> None:
        if not -128 <= c.priority <= 127:
            raise No(R.BAD_PRIORITY)
        if c.gpu_milli > 1000 and c.gpu_milli % 1000:
            raise No(R.BAD_GPU_MILLI, c.gpu_milli)
        if c.gpu_milli > 16_000:
            raise No(R.TOO_MANY_DEVICES, c.gpu_milli // 1000, 16)
        if not 1 <= c.tasks <= 64:
            raise No(R.BAD_TASKS, c.tasks, 64)

    def do_places(self, group: list[rec.Place]) -> None:
        first = group[0]
        job = self.jobs.get(first.job)
        try:
            if job is None:
                raise No(R.UNKNOWN_JOB)
            if job.state != PENDING:
                raise No(R.NOT_PENDING)
            if first.attempt != job.attempt + 1:
                raise No(R.WRONG_ATTEMPT, first.attempt, job.attempt)
            if first.tasks != job.ask.tasks:
                raise No(R.BAD_TASKS, first.tasks, job.ask.tasks)
            before = list(self.tasks)
            try:
                for place in group:
                    self.take(job, place)
            except No:
                self.tasks = before
                raise
        except No as no:
            no.job = first.job
            raise
        job.attempt, job.node = first.attempt, first.node
        job.state, job.reason = STARTING, R.PLACED
        self.tell_state(job, first.node)
        for position, p in enumerate(group):
            self.told.append(
                ("start", self.command + position, p.job, p.attempt, p.task, p.node, p.shares)
            )

    def take(self, job: Job, place: rec.Place) -> None:
        node = self.node(place.node)
        self.refuse_no_room(job.ask, node)
        each = min(job.ask.gpu_milli, 1000)
        wanted = job.ask.gpu_milli // each if each else 0
        if len(place.shares) != wanted:
            raise No(R.BAD_SHARES, wanted, len(place.shares))
        seen = set()
        for index, milli in place.shares and [(s.index, s.milli) for s in place.shares]:
            if index >= len(node.devices):
                raise No(R.BAD_DEVICE_INDEX, index, len(node.devices))
            if not node.devices[index].available:
                raise No(R.DEVICE_UNAVAILABLE, index)
            if milli > self.free(node, index):
                raise No(R.DEVICE_FULL, milli, self.free(node, index))
            if milli != each or index in seen:
                raise No(R.BAD_SHARES, each, milli)
            seen.add(index)
        self.tasks.append(Task(job.id, place.task, place.node, place.shares))

    def refuse_no_room(self, ask: rec.Submit, node: Node) -> None:
        count = len(self.on_node(node))
        if not node.up:
            raise No(R.NODE_NOT_UP)
        if len(self.tasks) >= self.limits.tasks:
            raise No(R.TASKS_FULL, 1, self.limits.tasks)
        if count >= self.limits.node_tasks:
            raise No(R.NODE_FULL, 1, count)
        if ask.cpu_milli > self.cpu_free(node):
            raise No(R.CPU_FULL, ask.cpu_milli, self.cpu_free(node))
        if ask.memory_bytes > self.memory_free(node):
            raise No(R.MEMORY_FULL, ask.memory_bytes, self.memory_free(node))

    def do_outcome(self, c: rec.Outcome) -> None:
        job = self.jobs.get(c.job)
        if job is None:
            raise No(R.UNKNOWN_JOB, job=c.job)
        if c.attempt != job.attempt:
            old = c.attempt < job.attempt
            reason = R.STALE_ATTEMPT if old else R.WRONG_ATTEMPT
            raise No(reason, c.attempt, job.attempt, c.job)
        if job.state in FINAL:
            raise No(R.ALREADY_ENDED, job=c.job)
        if c.task >= job.ask.tasks:
            raise No(R.BAD_TASKS, c.task, job.ask.tasks, c.job)
        task = next((t for t in self.of_job(job) if t.number == c.task), None)
        if task is None:
            pending = job.state == PENDING
            raise No(R.WRONG_ATTEMPT if pending else R.DUPLICATE_OUTCOME, job=c.job)
        if task.node != c.node:
            raise No(R.NOT_OWNER, job=c.job)
        if c.state == RUNNING:
            self.is_running(job, task, c)
        else:
            self.has_ended(job, task, c)

    def is_running(self, job: Job, task: Task, c: rec.Outcome) -> None:
        if task.state == RUNNING:
            raise No(R.DUPLICATE_OUTCOME, job=job.id)
        task.state = RUNNING
        if job.state == STARTING:
            job.state, job.reason = RUNNING, c.reason or R.REPORTED
            self.tell_state(job, c.node)

    def has_ended(self, job: Job, task: Task, c: rec.Outcome) -> None:
        self.tasks.remove(task)
        if not job.verdict and (c.state != SUCCEEDED or not self.of_job(job)):
            told = job.reason if job.state == STOPPING and c.state == CANCELLED else R.REPORTED
            job.verdict, job.reason = c.state, c.reason or told
            job.exit_code, job.signal = c.exit_code, c.signal
        self.after_end(job, c.node)

    def after_end(self, job: Job, node: int) -> None:
        if not self.of_job(job):
            self.finish(job, job.verdict, node)
        elif job.verdict and job.state != STOPPING:
            job.state = STOPPING
            self.tell_state(job, node)
            self.tell_stops(job, R.PEER_ENDED)

    def finish(self, job: Job, state: int, node: int) -> None:
        job.state = state
        self.ended.append(job.id)
        self.tell_state(job, node)
        if len(self.ended) > self.limits.finished:
            self.forget(self.ended[0], R.RETENTION)

    def forget(self, job: int, reason: int) -> None:
        self.told.append(("forgotten", self.command, job, self.jobs[job].node, reason))
        self.ended.remove(job)
        del self.jobs[job]

    def do_cancel(self, c: rec.Cancel) -> None:
        job = self.jobs.get(c.job)
        if job is None:
            raise No(R.UNKNOWN_JOB, job=c.job)
        if job.state in FINAL:
            raise No(R.ALREADY_ENDED, job=c.job)
        if job.state == STOPPING:
            raise No(R.ALREADY_STOPPING, job=c.job)
        job.reason = c.reason or R.CANCEL_REQUESTED
        if job.state == PENDING:
            self.finish(job, CANCELLED, 0)
            return
        job.state = STOPPING
        self.tell_state(job, 0)
        self.tell_stops(job, job.reason)

    def do_forget(self, c: rec.Forget) -> None:
        if c.job not in self.jobs:
            raise No(R.UNKNOWN_JOB, job=c.job)
        if self.jobs[c.job].state not in FINAL:
            raise No(R.NOT_ENDED, job=c.job)
        self.forget(c.job, R.FORGET_REQUESTED)

    def do_refused(self, c: rec.Refused) -> None:
        pass

    # -- telling ---------------------------------------------------------------------------

    def tell_state(self, job: Job, node: int) -> None:
        state = rec.STATES[job.state - 1]
        self.told.append(
            ("state", self.command, job.id, job.attempt, state, job.reason, node, job.exit_code,
             job.signal)
        )  # fmt: skip

    def tell_stops(self, job: Job, reason: int) -> None:
        for t in self.of_job(job):
            self.told.append(
                ("stop", self.command, job.id, job.attempt, t.number, t.node, "cancelled", reason)
            )

    # -- both halves -----------------------------------------------------------------------

    def apply(self, commands: Iterable[rec.Command]) -> list[tuple[object, ...]]:
        """What the core should tell for this batch, all commands being of the current term."""
        self.told, self.command = [], 0
        for unit in gangs(commands):
            try:
                self.do(unit)
            except No as no:
                self.tell_no(unit, no)
            self.command += len(unit) if isinstance(unit, list) else 1
        return self.told

    def tell_no(self, unit: rec.Command | list[rec.Place], no: No) -> None:
        first = unit[0] if isinstance(unit, list) else unit
        job = no.job or getattr(first, "job", 0)
        if no.reason == R.DUPLICATE:
            self.told.append(("duplicate", self.command, job))
        else:
            self.told.append(("ignored", self.command, KINDS[type(first)], job, no.reason))

    def propose(
        self, requests: list[rec.Request], seed: int
    ) -> tuple[list[rec.Command], list[tuple[int, ...]]]:
        trial = copy.deepcopy(self)
        commands: list[rec.Command] = []
        rejected: list[tuple[int, ...]] = []
        for position, request in enumerate(requests):
            try:
                if isinstance(request, rec.Submit):
                    trial.refuse_known_key(request)
                    trial.refuse_shape(request)
                    trial.refuse_infeasible(request)
                trial.do(request)
                commands.append(request)
            except No as no:
                job = no.job or getattr(request, "job", 0)
                kind = KINDS[type(request)]
                rejected.append((position, kind, no.reason, job, no.asked, no.have))
        trial.place_waiting(commands, seed)
        return commands, rejected

    def refuse_infeasible(self, ask: rec.Submit) -> None:
        if not self.nodes:
            return
        holds = sum(self.holds_empty(ask, node) for node in self.nodes)
        if holds >= ask.tasks:
            return
        if holds:
            raise No(R.GANG_TOO_LARGE, ask.tasks, holds)
        part = 0 < ask.gpu_milli < 1000
        largest = max(
            max((d.capacity for d in n.devices), default=0)
            if part
            else sum(d.capacity == 1000 for d in n.devices)
            for n in self.nodes
        )
        asked = ask.gpu_milli if part else ask.gpu_milli // 1000
        if asked > largest:
            raise No(R.NO_DEVICE_HAS_SHARE if part else R.NO_NODE_HAS_DEVICES, asked, largest)
        cpu, memory = max(n.cpu for n in self.nodes), max(n.memory for n in self.nodes)
        if ask.cpu_milli > cpu:
            raise No(R.NO_NODE_HAS_CPU, ask.cpu_milli, cpu)
        if ask.memory_bytes > memory:
            raise No(R.NO_NODE_HAS_MEMORY, ask.memory_bytes, memory)
        raise No(R.NO_NODE_FITS)

    def holds_empty(self, ask: rec.Submit, node: Node) -> int:
        holds = [self.limits.node_tasks]
        if ask.gpu_milli >= 1000:
            whole = sum(d.capacity == 1000 for d in node.devices)
            holds.append(whole // (ask.gpu_milli // 1000))
        elif ask.gpu_milli:
            holds.append(sum(d.capacity // ask.gpu_milli for d in node.devices))
        if ask.cpu_milli:
            holds.append(node.cpu // ask.cpu_milli)
        if ask.memory_bytes:
            holds.append(node.memory // ask.memory_bytes)
        return min(holds)

    def place_waiting(self, commands: list[rec.Command], seed: int) -> None:
        waiting = [job for job in self.jobs.values() if job.state == PENDING]
        waiting.sort(key=lambda job: (-job.ask.priority, job.id))
        blocked: set[bool] = set()
        placed = 0
        for job in waiting:
            kind = job.ask.gpu_milli > 0
            if kind in blocked:
                continue
            if placed + job.ask.tasks > rec.BATCH_PLACES_MAX:
                return
            group = self.try_gang(job, seed)
            if group is None:
                blocked.add(kind)
            else:
                placed += len(group)
                self.do_places(group)
                commands.extend(group)

    def try_gang(self, job: Job, seed: int) -> list[rec.Place] | None:
        trial = copy.deepcopy(self)
        group = []
        for task in range(job.ask.tasks):
            place = trial.choose(job, task, seed)
            if place is None:
                return None
            trial.take(job, place)
            group.append(place)
        return group

    def fits(self, job: Job, node: Node) -> bool:
        try:
            self.refuse_no_room(job.ask, node)
        except No:
            return False
        return True

    def choose(self, job: Job, task: int, seed: int) -> rec.Place | None:
        roomy = [n for n in self.nodes if self.fits(job, n)]
        gpu = job.ask.gpu_milli
        if not gpu:
            return self.choose_host(job, task, seed, roomy)
        if gpu < 1000:
            parts = [
                (self.free(n, i), n.slot, i, n)
                for n in roomy
                for i in range(len(n.devices))
                if gpu <= self.free(n, i) < 1000
            ]
            if parts:
                _, _, index, node = min(parts, key=lambda part: part[:3])
                return self.place(job, task, node, [index], milli=gpu, reason=R.PACKED_SHARE)
            return self.choose_whole(job, task, roomy, 1, milli=gpu, reason=R.OPENED_DEVICE)
        return self.choose_whole(job, task, roomy, gpu // 1000, milli=1000, reason=R.FREE_DEVICES)

    def choose_whole(
        self, job: Job, task: int, roomy: list[Node], count: int, *, milli: int, reason: int
    ) -> rec.Place | None:
        free = {
            n.slot: [i for i in range(len(n.devices)) if self.free(n, i) == 1000] for n in roomy
        }
        enough = [n for n in roomy if len(free[n.slot]) >= count]
        if not enough:
            return None
        node = min(enough, key=lambda n: (len(free[n.slot]), n.slot))
        return self.place(job, task, node, free[node.slot][:count], milli=milli, reason=reason)

    def choose_host(self, job: Job, task: int, seed: int, roomy: list[Node]) -> rec.Place | None:
        start = mix(((seed + task) & M64) ^ mix(job.id)) % max(1, len(self.nodes)) + 1
        ring = [n for n in roomy if n.slot >= start] + [n for n in roomy if n.slot < start]
        if not ring:
            return None
        best = min(ring[:4], key=lambda n: (len(self.on_node(n)), n.load, n.slot))
        others = [n.observation for n in ring[:4] if n is not best]
        ids = tuple(filter(None, [best.observation, *others]))
        return self.place(job, task, best, [], milli=0, reason=R.LEAST_BUSY)._replace(
            observations=ids
        )

    def place(
        self, job: Job, task: int, node: Node, devices: list[int], *, milli: int, reason: int
    ) -> rec.Place:
        shares = tuple(DeviceShare(index, milli) for index in devices)
        seen = (node.observation,) if node.observation else ()
        return rec.Place(
            job.id, job.attempt + 1, task, job.ask.tasks, node.id, shares, reason, 0, seen, 0
        )
