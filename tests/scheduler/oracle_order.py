# SPDX-License-Identifier: Apache-2.0
"""A second, deliberately dumb implementation of order, backfill and preemption.

Everything is found by sorting all and trying all, on copies; the bounds of the core (256 tries, 64
victims, 256 ends) are out of reach of the streams it is compared on.
"""

from __future__ import annotations

from fractions import Fraction

from stoker.scheduler import records as rec
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle import Oracle
from tests.scheduler.oracle_nouns import (
    FREE,
    PENDING,
    ROOT,
    RUNNING,
    SECOND,
    STARTING,
    STOPPING,
    Job,
    No,
    Task,
)
from tests.scheduler.oracle_queues import decayed

ONE = 1 << 30
USAGE_FULL_US = 124_648_851_532
"""A device in use all the time leaves this much: a half-life (24 h) over ln 2."""
NEVER = (1 << 64) - 2
SOME_DAY = NEVER - 1
BLOCKING = (Order.FIFO, Order.BACKFILL, Order.CONSERVATIVE, Order.FAIR)
PREEMPTIONS_MAX = 8
Start = tuple[int, bool]
End = tuple[int, int]


def time_level(ns: int) -> int:
    """Four levels to each factor of two."""
    if ns < 4:
        return ns
    log = ns.bit_length() - 1
    return log * 4 + (ns >> (log - 2)) % 4 - 4


def ratio(part: int, whole: int) -> int:
    return min(part, whole) * ONE // whole if whole else 0


class OrderOracle(Oracle):
    """Propose for every order, several queues, guarantees and preemption; placement PACK."""

    def level(self, job: Job) -> int:
        order = self.queues[job.request.queue].order
        if order == Order.SHORTEST:
            return time_level(job.request.estimate_ns) if job.request.estimate_ns else 255
        if order == Order.LEAST_ATTAINED:
            return time_level(job.attained)
        return rec.PRIORITY_MAX - job.request.priority

    def rank(self, job: Job) -> tuple[int, int, int, int, int]:
        """The place of a job in its line as things are now, by user where the order is FAIR."""
        if self.queues[job.request.queue].order != Order.FAIR:
            return self.level(job), 0, 0, 0, job.id
        beside = [
            other.id for other in self.jobs.values()
            if other.state == PENDING and other.hold == FREE
            and other.request.client == job.request.client
            and self.line_of(other) == self.line_of(job) and self.level(other) == self.level(job)
        ]  # fmt: skip
        last = self.last_starts.get((job.request.queue, job.request.client), 0)
        first = min(beside, default=job.id)
        return self.level(job), self.user_share(job), last, first, job.id

    def user_share(self, job: Job) -> int:
        """The largest share of devices, CPU and memory that the user's tasks hold in the queue."""
        mine = [
            task for task in self.tasks
            if self.jobs[task.job].request.queue == job.request.queue
            and self.jobs[task.job].request.client == job.request.client
        ]  # fmt: skip
        asks = [self.jobs[task.job].request for task in mine]
        parts = (
            (sum(task.milli for task in mine), 1000 * sum(len(n.devices) for n in self.nodes)),
            (sum(request.cpu_milli for request in asks), sum(n.cpu for n in self.nodes)),
            (sum(request.memory_bytes for request in asks), sum(n.memory for n in self.nodes)),
        )
        return max(min(held, all) * ((1 << 62) // all) if all else 0 for held, all in parts)

    def line_of(self, job: Job) -> tuple[int, bool]:
        return job.request.queue, job.request.gpu_milli > 0

    # -- between queues --------------------------------------------------------------------

    def share(self, id: int) -> int:
        below = {job.id for job in self.below(id)}
        tasks = [task for task in self.tasks if task.job in below]
        devices = sum(len(node.devices) for node in self.nodes)
        asks = [self.jobs[task.job].request for task in tasks]
        held = max(
            ratio(sum(task.milli for task in tasks), devices * 1000),
            ratio(sum(request.cpu_milli for request in asks), sum(node.cpu for node in self.nodes)),
            ratio(sum(request.memory_bytes for request in asks), sum(n.memory for n in self.nodes)),
        )
        return held + ratio(decayed(self.queues[id], self.now) // 1000, devices * USAGE_FULL_US)

    def covers(self, id: int, job: Job) -> bool:
        asked = job.request.gpu_milli * job.request.tasks
        models = self.known_models(job.request)
        return asked > 0 and any(
            self.holds(id, model) + asked <= guaranteed
            for model, (guaranteed, _) in self.queues[id].quotas.items()
            if not model or not models or model in models
        )

    def claim(self, job: Job) -> list[tuple[bool, Fraction, int]]:
        """Rank a job from the root down: nobody covers it here or below, share for weight, slot."""
        covered, claim = False, []
        for id in self.upwards(job.request.queue):
            if id == ROOT:
                break
            queue = self.queues[id]
            covered |= self.covers(id, job)
            claim.append((not covered, Fraction(self.share(id), queue.weight), queue.slot))
        return claim[::-1]

    # -- the loop --------------------------------------------------------------------------

    def place_waiting(self, commands: list[rec.Command], seed: int) -> None:
        self.seed = seed
        waiting = [job for job in self.jobs.values() if job.state == PENDING and job.hold == FREE]
        waiting = [job for job in waiting if self.placement_of(job) != Placement.CUSTOM]
        heads: list[Job] = []
        self.tried: set[int] = set()
        tries: dict[tuple[int, bool], int] = {}
        while waiting:
            waiting.sort(key=self.rank)
            lines: dict[tuple[int, bool], Job] = {}
            for job in waiting:
                lines.setdefault(self.line_of(job), job)
            firsts: dict[int, Job] = {}
            for job in sorted(lines.values(), key=lambda job: (self.level(job), job.id)):
                firsts.setdefault(job.request.queue, job)
            job = min(firsts.values(), key=self.claim)
            line = self.line_of(job)
            waiting.remove(job)
            if self.start(job, commands):
                continue
            self.tried.add(job.id)
            tries[line] = tries.get(line, 0) + 1
            if tries[line] <= 4:
                self.make_room(job, commands)
            if self.blocks(job):
                waiting = [other for other in waiting if self.line_of(other) != line]
                heads.append(job)
        for head in sorted(
            heads, key=lambda j: (self.queues[j.request.queue].slot, self.line_of(j))
        ):
            if self.queues[head.request.queue].order != Order.FIFO:
                self.backfill(head, commands)

    def blocks(self, job: Job) -> bool:
        """Where others are backfilled, one that could not run as things are holds up nobody."""
        order = self.queues[job.request.queue].order
        return order in BLOCKING and (order == Order.FIFO or not self.hopeless(job))

    def start(
        self, job: Job, commands: list[rec.Command], reason: int | None = None
    ) -> list[rec.Place] | None:
        group = self.try_gang(job, self.seed)
        if group is None:
            return None
        if reason:
            group = [place._replace(reason=reason) for place in group]
        self.do_places(group)
        commands.extend(group)
        return group

    # -- backfill --------------------------------------------------------------------------

    def end_of(self, job: Job, head: Job) -> int:
        passed = self.line_of(job) == self.line_of(head) and job.place_ns >= head.submit_ns
        if self.queues[head.request.queue].order == Order.FAIR:
            backfilled = job.place_reason == R.BACKFILLED
            lower = job.request.priority < head.request.priority
            passed &= lower or (job.request.priority == head.request.priority and backfilled)
        else:
            passed &= (-job.request.priority, job.id) > (-head.request.priority, head.id)
        end = NEVER if passed else SOME_DAY
        end = job.place_ns + job.request.estimate_ns if job.request.estimate_ns else end
        return self.now + 1 if job.state == STOPPING or end <= self.now else end

    def plan(self, blocked: list[Job], extra: list[End]) -> list[Start]:
        """Return when each would start if jobs end as estimated; (not before, False): unknown."""
        if not blocked:
            return []
        tasks, now = list(self.tasks), self.now
        running = [self.jobs[id] for id in {task.job for task in tasks}]
        named = {id for _, id in extra}
        ends = [(self.end_of(job, blocked[0]), job.id) for job in running if job.id not in named]
        ends += extra
        ends = [(at, id) for at, id in ends if at < NEVER]
        starts: list[Start] = []
        for job in blocked:
            while (group := self.try_gang(job, self.seed)) is None and ends:
                self.now = min(ends)[0]
                ended = {id for at, id in ends if at == self.now}
                self.tasks = [task for task in self.tasks if task.job not in ended]
                ends = [(at, id) for at, id in ends if at != self.now]
            if group is None:
                starts += [(NEVER, False)] * (len(blocked) - len(starts))
                break
            starts.append((self.now, True))
            self.tasks += [Task(job.id, p.task, p.node, p.shares) for p in group]
            known = job.request.estimate_ns and self.now < SOME_DAY
            ends.append((self.now + job.request.estimate_ns if known else SOME_DAY, job.id))
        self.tasks, self.now = tasks, now
        return starts

    def delays(self, blocked: list[Job], starts: list[Start], job: Job) -> bool:
        end = self.now + job.request.estimate_ns if job.request.estimate_ns else NEVER + 1
        if end <= starts[0][0]:
            return False
        tasks = list(self.tasks)
        group = self.try_gang(job, self.seed) or []
        self.tasks += [Task(job.id, p.task, p.node, p.shares) for p in group]
        then = self.plan(blocked, [(end, job.id)])
        self.tasks = tasks
        return any(
            not known_now or at_now > at if known else end > at
            for (at, known), (at_now, known_now) in zip(starts, then, strict=True)
        )

    def backfill(self, head: Job, commands: list[rec.Command]) -> None:
        order = self.queues[head.request.queue].order
        most = 32 if order == Order.CONSERVATIVE else 1
        behind = [
            job for job in self.jobs.values()
            if job.state == PENDING and job.hold == FREE and job.id not in self.tried
            and self.line_of(job) == self.line_of(head)
            and self.placement_of(job) != Placement.CUSTOM
        ]  # fmt: skip
        blocked = [head]
        while behind:
            job = min(behind, key=self.rank)
            behind.remove(job)
            starts = self.plan(blocked, [])
            fits = self.try_gang(job, self.seed) is not None
            if fits and not self.delays(blocked, starts, job):
                self.start(job, commands, R.BACKFILLED)
            elif len(blocked) < most:
                blocked.append(job)

    # -- preemption ------------------------------------------------------------------------

    def make_room(self, job: Job, commands: list[rec.Command]) -> None:
        path = [id for id in self.upwards(job.request.queue) if id != ROOT]
        entitled = any(self.covers(id, job) for id in path)
        if not entitled and not job.wants(Option.PREEMPTOR):
            return
        before = list(self.tasks)
        self.tasks = [t for t in before if self.jobs[t.job].state != STOPPING]
        victims: list[Job] = []
        if self.try_gang(job, self.seed) is None:
            victims = self.victims(job, entitled)
        self.tasks = before
        for victim in victims:
            own = victim.request.queue == job.request.queue
            reason = R.PREEMPTED if own else R.RECLAIMED
            commands.append(rec.Preempt(victim.id, victim.attempt, job.id, reason))
            self.do(commands[-1])

    def cost(self, job: Job) -> int:
        if not job.request.gpu_milli:
            return self.now - job.place_ns
        return sum(self.held_ns(job, task) for task in self.of_job(job))

    def victims(self, job: Job, entitled: bool) -> list[Job]:
        """Victims on the cheapest node, or on all nodes together for a gang."""
        sets = []
        together: list[Job] = []
        for node in self.nodes:
            try:
                self.refuse_kind(job.request, node)
            except No:
                continue
            there = {task.job for task in self.on_node(node)} if node.up else set()
            here = [
                self.jobs[id] for id in sorted(there) if self.may_go(self.jobs[id], job, entitled)
            ]
            together += [victim for victim in here if victim not in together]
            if job.request.tasks == 1:
                sets.append(self.needed(here, job))
        if job.request.tasks > 1:
            sets = [self.needed(together, job)]
        found = [chosen for chosen in sets if chosen]
        return min(found, key=lambda c: (sum(map(self.cost, c)), len(c)), default=[])

    def suffice(self, victims: list[Job], job: Job) -> bool:
        before = list(self.tasks)
        gone = {victim.id for victim in victims}
        self.tasks = [task for task in before if task.job not in gone]
        fits = self.try_gang(job, self.seed) is not None
        self.tasks = before
        return fits

    def needed(self, victims: list[Job], job: Job) -> list[Job]:
        """The cheapest first until it fits; then the dearest that need not go stay."""
        victims = sorted(victims, key=lambda v: (self.cost(v), v.id))
        enough = [n for n in range(1, len(victims) + 1) if self.suffice(victims[:n], job)]
        if not enough:
            return []
        victims = victims[: enough[0]]
        for victim in victims[::-1]:
            others = [other for other in victims if other is not victim]
            if self.suffice(others, job):
                victims = others
        return victims

    def may_go(self, victim: Job, job: Job, entitled: bool) -> bool:
        if victim.state not in (STARTING, RUNNING) or victim.preemptions >= PREEMPTIONS_MAX:
            return False
        ran = self.now - victim.place_ns
        if (
            not victim.wants(Option.PREEMPTIBLE)
            or ran <= 0
            or ran < victim.request.min_run_s * SECOND
        ):
            return False
        if victim.request.queue != job.request.queue:
            return entitled and victim.request.gpu_milli > 0 and self.borrows(victim, job)
        return job.wants(Option.PREEMPTOR) and self.level_now(victim) > self.level(job)

    def level_now(self, job: Job) -> int:
        order = self.queues[job.request.queue].order
        if order == Order.SHORTEST and job.request.estimate_ns:
            return time_level(max(0, job.request.estimate_ns - (self.now - job.place_ns)))
        if order == Order.LEAST_ATTAINED:
            held = sum(self.held_ns(job, task) for task in self.of_job(job))
            return time_level(job.attained + held)
        return self.level(job)

    def borrows(self, victim: Job, job: Job) -> bool:
        """No guarantee keeps it, up to the queue that both have in common."""
        task = self.of_job(victim)[0]
        model = self.node(task.node).devices[task.shares[0].index].model
        mine = self.upwards(job.request.queue)
        return not any(
            guaranteed and quota in (0, model) and self.holds(id, quota) <= guaranteed
            for id in self.upwards(victim.request.queue)
            if id not in mine
            for quota, (guaranteed, _) in self.queues[id].quotas.items()
        )
