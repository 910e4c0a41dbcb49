# SPDX-License-Identifier: Apache-2.0
"""The oracle's rules of jobs: submit, places, outcomes, ends, and coming back."""

from __future__ import annotations

from collections import Counter

from stoker.scheduler import records as rec
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_conditions import condition_is_bad
from tests.scheduler.oracle_nodes import Nodes
from tests.scheduler.oracle_nouns import (
    CANCELLED,
    DOOMED,
    FAILED,
    FINAL,
    FREE,
    HOLD_AFTER,
    HOLD_TIME,
    LOST,
    M64,
    PENDING,
    ROOT,
    RUNNING,
    SECOND,
    STARTING,
    STOPPING,
    SUCCEEDED,
    TIMEOUT,
    Job,
    No,
    Task,
    each_of,
    is_range,
    mix,
)
from tests.scheduler.oracle_queues import Queues


class Jobs(Nodes, Queues):
    """Everything that happens to jobs."""

    def job_of(self, id: int) -> Job:
        if id not in self.jobs:
            raise No(R.UNKNOWN_JOB)
        return self.jobs[id]

    # -- submit ----------------------------------------------------------------------------

    def do_submit(self, c: rec.Submit) -> None:
        self.refuse_jobs(c, 1)
        self.next_job += 1
        self.make_jobs(c, range(self.next_job - 1, self.next_job))

    def do_submitarray(self, c: rec.SubmitArray) -> None:
        each = each_of(c)
        self.refuse_jobs(each, c.jobs)
        first = c.first or self.next_job
        if c.first and c.first + c.jobs > self.next_job:
            raise No(R.UNKNOWN_JOB, job=c.first)
        if c.first and (made := [n for n in range(first, first + c.jobs) if n in self.jobs]):
            raise No(R.NOT_PENDING, job=made[0])
        self.next_job += 0 if c.first else c.jobs + c.behind
        self.make_jobs(each, range(first, first + c.jobs))

    def refuse_jobs(self, c: rec.Submit, count: int) -> None:
        self.refuse_known_key(c)
        self.refuse_shape(c)
        self.refuse_unknown_names(c)
        if len(self.live()) + count > self.limits.jobs:
            raise No(R.JOBS_FULL, count, self.limits.jobs, 0)

    def make_jobs(self, c: rec.Submit, numbers: range) -> None:
        for number in numbers:
            job = Job(number, c, self.now)
            if self.awaited(job):
                job.hold = HOLD_AFTER
            self.jobs[number] = job
            self.tell_state(job, 0)
        if any(c.key):
            self.remember_key((c.client, c.key.ljust(16, b"\0"), c.spec_hash, numbers[0]))

    def remember_key(self, row: tuple[int, bytes, int, int]) -> None:
        """Whoever has most loses the oldest; of equals the one who asks, else the lowest id."""
        if len(self.keys) == self.limits.keys:
            counts = Counter(client for client, *_ in self.keys)
            heaviest = min(counts, key=lambda at: (-counts[at], at != row[0], at))
            self.keys.remove(next(key for key in self.keys if key[0] == heaviest))
        self.keys.append(row)

    def refuse_known_key(self, c: rec.Submit) -> None:
        for client, key, spec_hash, job in self.keys:
            if any(c.key) and (client, key) == (c.client, c.key.ljust(16, b"\0")):
                raise No(R.DUPLICATE if spec_hash == c.spec_hash else R.KEY_REUSED, job=job)

    @staticmethod
    def refuse_shape(c: rec.Submit) -> None:
        if not rec.PRIORITY_MIN <= c.priority <= rec.PRIORITY_MAX:
            raise No(R.BAD_PRIORITY, job=0)
        if c.gpu_milli > 1000 and c.gpu_milli % 1000:
            raise No(R.BAD_GPU_MILLI, c.gpu_milli)
        if c.gpu_milli > 16_000:
            raise No(R.TOO_MANY_DEVICES, c.gpu_milli // 1000, 16)
        if not 1 <= c.tasks <= 64:
            raise No(R.BAD_TASKS, c.tasks, 64)
        has = Option(c.options & 511)
        opposed = (Option.SPREAD_TASKS | Option.PACK_TASKS, Option.ATTRACT | Option.REPEL)
        if c.options > 511 or any(both & ~has == Option(0) for both in opposed):
            raise No(R.BAD_OPTIONS, c.options, 511)
        if has & (Option.ATTRACT | Option.REPEL) and not c.group:
            raise No(R.BAD_OPTIONS, c.options)
        if not 1 <= c.kinds <= 3:
            raise No(R.BAD_DEVICE_KIND, c.kinds)
        if c.placement > max(Placement):
            raise No(R.BAD_PLACEMENT, c.placement, max(Placement))
        for position, condition in enumerate(c.conditions, 1):
            if condition_is_bad(condition, c.gpu_milli):
                raise No(R.BAD_CONDITION, position)
        if c.retries > 10:
            raise No(R.BAD_RETRIES, c.retries, 10)
        if c.backoff_s > 300:
            raise No(R.BAD_RETRIES, c.backoff_s, 300)

    def refuse_unknown_names(self, c: rec.Submit) -> None:
        if c.queue not in self.queues or c.queue == ROOT:
            raise No(R.UNKNOWN_QUEUE, c.queue)
        if self.children(c.queue):
            raise No(R.QUEUE_NOT_LEAF, c.queue, self.children(c.queue))
        for model in c.models:
            if model not in self.models:
                raise No(R.NO_NODE_HAS_MODEL, model)
        for position, number in enumerate(c.after):
            before = self.jobs.get(number)
            if is_range(number) and number not in c.after[:position]:
                continue
            if before is None or number in c.after[:position]:
                raise No(R.BAD_AFTER, job=number)
            if before.state in FINAL and not self.suits(c, number, before.state):
                raise No(R.BAD_AFTER, job=number)
            if before.state not in FINAL and len(self.waiting_for(number)) == 64:
                raise No(R.AFTERS_FULL, 1, 64, number)

    @staticmethod
    def suits(c: rec.Submit, number: int, state: int) -> bool:
        """True if this end of a job is what one that follows it wants."""
        mark = 1 << c.after.index(number)
        if c.after_any & mark:
            return True
        return (state == SUCCEEDED) != bool(c.after_fail & mark)

    def followed_live(self, c: rec.Submit) -> list[int]:
        known = [number for number in c.after if number in self.jobs]
        return [number for number in known if self.jobs[number].state not in FINAL]

    def awaited(self, job: Job) -> list[int]:
        """The jobs and ranges whose ends it waits for."""
        ranges = [number for number in job.request.after if is_range(number)]
        return [*self.followed_live(job.request), *(n for n in ranges if n not in job.met)]

    def do_rangeend(self, c: rec.RangeEnd) -> None:
        job = self.job_of(c.job)
        if job.hold != HOLD_AFTER or not is_range(c.after) or c.after not in self.awaited(job):
            raise No(R.NOT_PENDING)
        if c.unmet:
            job.hold, job.unmet = DOOMED, job.request.after.index(c.after) + 1
            return
        job.met |= {c.after}
        if not self.awaited(job):
            job.hold = FREE

    def waiting_for(self, id: int) -> list[Job]:
        return [job for job in self.live() if job.hold == HOLD_AFTER and id in job.request.after]

    # -- places ----------------------------------------------------------------------------

    def do_places(self, group: list[rec.Place]) -> None:
        first = group[0]
        job = self.job_of(first.job)
        if job.state != PENDING:
            raise No(R.NOT_PENDING)
        if first.attempt != job.attempt + 1:
            raise No(R.WRONG_ATTEMPT, first.attempt, job.attempt)
        if first.tasks != job.request.tasks:
            raise No(R.BAD_TASKS, first.tasks, job.request.tasks)
        if job.hold:
            raise No(R.HELD, job.hold)
        before = list(self.tasks)
        try:
            for place in group:
                self.take(job, place)
        except No:
            self.tasks = before
            raise
        job.attempt, job.node, job.place_ns, job.not_before = first.attempt, first.node, self.now, 0
        job.exit_code = job.signal = None
        job.ready, job.place_reason = frozenset(), first.reason
        job.state, job.reason = STARTING, R.PLACED
        self.counts["placed"] += len(group)
        if self.queues[job.request.queue].order == Order.FAIR:
            user = job.request.queue, job.request.client
            self.last_starts[user] = self.counts["placed"]
        self.tell_state(job, first.node)
        for position, p in enumerate(group):
            self.told.append(
                ("start", self.command + position, p.job, p.attempt, p.task, p.node, p.shares)
            )

    # -- outcomes --------------------------------------------------------------------------

    def do_taskoutcome(self, c: rec.TaskOutcome) -> None:
        job = self.job_of(c.job)
        if c.attempt != job.attempt:
            old = c.attempt < job.attempt
            raise No(R.STALE_ATTEMPT if old else R.WRONG_ATTEMPT, c.attempt, job.attempt)
        if job.state in FINAL:
            raise No(R.ALREADY_ENDED)
        if c.task >= job.request.tasks:
            raise No(R.BAD_TASKS, c.task, job.request.tasks)
        task = next((t for t in self.of_job(job) if t.number == c.task), None)
        if task is None:
            raise No(R.DUPLICATE_OUTCOME if job.attempt else R.WRONG_ATTEMPT)
        if task.node != c.node:
            raise No(R.NOT_OWNER)
        if c.state == PENDING and task.state == RUNNING:
            raise No(R.DUPLICATE_OUTCOME)
        if c.state == STARTING:
            if job.request.tasks == 1 or task.ready:
                raise No(R.DUPLICATE_OUTCOME)
            self.is_ready(job, task)
        elif c.state == RUNNING:
            self.is_running(job, task, c)
        else:
            self.has_ended(job, task, c)

    def is_ready(self, job: Job, task: Task) -> None:
        """The last one to be ready releases the gang, unless it is being stopped."""
        task.ready = True
        job.ready |= {task.number}
        if len(job.ready) == job.request.tasks and job.state == STARTING:
            for each in self.of_job(job):
                self.told.append(
                    ("release", self.command, job.id, job.attempt, each.number, each.node)
                )

    def do_giveup(self, c: rec.GiveUp) -> None:
        job = self.job_of(c.job)
        if c.attempt != job.attempt:
            old = c.attempt < job.attempt
            raise No(R.STALE_ATTEMPT if old else R.WRONG_ATTEMPT, c.attempt, job.attempt)
        if job.state == STOPPING:
            raise No(R.ALREADY_STOPPING)
        if not self.of_job(job):
            raise No(R.NOT_RUNNING)
        tasks = job.request.tasks
        if tasks == 1 or job.state != STARTING or len(job.ready) == tasks:
            raise No(R.ALREADY_RELEASED, tasks, len(job.ready))
        job.verdict, job.state, job.reason = FAILED, STOPPING, c.reason or R.NOT_READY
        self.tell_state(job, 0)
        self.tell_stops(job, R.PEER_ENDED)

    def is_running(self, job: Job, task: Task, c: rec.TaskOutcome) -> None:
        if task.state == RUNNING:
            raise No(R.DUPLICATE_OUTCOME)
        if job.request.tasks > 1 and not task.ready:
            self.is_ready(job, task)
        task.state, job.unlaunched = RUNNING, 0
        if job.state == STARTING:
            job.state, job.reason = RUNNING, c.reason or R.REPORTED
            self.tell_state(job, c.node)

    def has_ended(self, job: Job, task: Task, c: rec.TaskOutcome) -> None:
        self.spend(job, self.held_ns(job, task) if c.device_ns is None else c.device_ns)
        devices = self.node(task.node).devices
        models = {devices[share.index].model for share in task.shares}
        self.speeds.told(job.request, models, c)
        self.tasks.remove(task)
        before = job.reason
        if self.decides(job, c) and (c.state != SUCCEEDED or not self.of_job(job)):
            stopped = job.state == STOPPING
            told = job.reason if stopped and c.state == CANCELLED else R.REPORTED
            job.verdict, job.reason = c.state, c.reason or told
            if c.state == PENDING:  # its node gave it back
                job.verdict = CANCELLED if job.last else self.judge_not_begun(job, c)
                unlaunched = c.reason == R.NOT_LAUNCHED
                not_begun = R.NOT_LAUNCHED if unlaunched else R.NOT_BEGUN
                job.reason = before if stopped else not_begun
            job.exit_code, job.signal = c.exit_code, c.signal
        self.after_end(job, c.node)

    @staticmethod
    def judge_not_begun(job: Job, c: rec.TaskOutcome) -> int:
        """A job fails at its third launch in a row, and a gang of which others may have run."""
        released = job.state == RUNNING or len(job.ready) == job.request.tasks
        ran = job.request.tasks > 1 and released
        fails = c.reason == R.NOT_LAUNCHED and (ran or job.unlaunched == 2)
        return FAILED if fails else PENDING

    @staticmethod
    def decides(job: Job, c: rec.TaskOutcome) -> bool:
        """The first end decides; of a preempted job only one that it did not owe to that."""
        if job.verdict != PENDING:
            return not job.verdict
        alone = c.state == SUCCEEDED and job.request.tasks == 1
        return c.state in (FAILED, TIMEOUT) or alone

    def after_end(self, job: Job, node: int) -> None:
        if not self.of_job(job):
            self.end_attempt(job, node)
        elif job.verdict and job.state != STOPPING:
            job.state = STOPPING
            self.tell_state(job, node)
            self.tell_stops(job, R.PEER_ENDED)

    @staticmethod
    def returns(job: Job) -> bool:
        if job.last:
            return False
        tried = (LOST,) if job.wants(Option.LOST_ONLY) else (FAILED, LOST)
        failed = job.verdict in tried and job.failures < job.request.retries
        return job.verdict == PENDING or failed

    def end_attempt(self, job: Job, node: int) -> None:
        spent = max(job.spent, job.charged)
        if spent > job.charged:
            self.use(job.request.queue, spent - job.charged)
        job.attained = min(M64, job.attained + spent)
        job.spent = job.charged = 0
        if self.returns(job):
            self.again(job, node)
        else:
            self.finish(job, job.verdict, node)

    def again(self, job: Job, node: int) -> None:
        failed = job.verdict != PENDING
        unlaunched = not failed and job.reason == R.NOT_LAUNCHED
        pauses = failed or unlaunched or job.reason == R.NOT_BEGUN
        self.counts["retried"] += failed
        self.counts["preempted"] += not pauses
        job.not_before = min(M64, self.now + self.pause(job)) if pauses else 0
        job.hold = HOLD_TIME if pauses else FREE
        job.reason = R.RETRIED if failed else job.reason
        job.unlaunched = 0 if failed else job.unlaunched + unlaunched
        job.retried += 1
        job.preemptions += not failed
        job.state, job.verdict = PENDING, 0
        self.tell_state(job, node)

    @staticmethod
    def pause(job: Job) -> int:
        """base x 2^failures and 0 to 10 % more by the job's own chance, at most 300 s; where that
        could be more, 270 to 300 s."""
        seconds = (job.request.backoff_s or 1) * 2 ** (job.failures + job.unlaunched)
        chance = mix(job.id ^ mix(job.attempt)) % 1001
        if seconds * 11 > 3000:
            return 300 * 100_000 * (10_000 - chance)
        return seconds * 100_000 * (10_000 + chance)

    def finish(self, job: Job, state: int, node: int) -> None:
        job.state, job.hold, job.end_ns = state, FREE, self.now
        self.ended.append(job.id)
        for other in self.waiting_for(job.id):
            if not self.suits(other.request, job.id, state):
                other.hold, other.unmet = DOOMED, other.request.after.index(job.id) + 1
            elif not self.awaited(other):
                other.hold = FREE
        self.tell_state(job, node)
        if len(self.ended) > self.limits.finished:
            self.forget(self.ended[0], R.RETENTION)

    def forget(self, job: int, reason: int) -> None:
        self.told.append(("forgotten", self.command, job, self.jobs[job].node, reason))
        self.counts["forgotten"] += 1
        self.ended.remove(job)
        del self.jobs[job]

    def promote(self) -> None:
        """Promote at most 256 jobs whose time has come."""
        held = [job for job in self.live() if job.hold == HOLD_TIME]
        due = [job for job in held if job.not_before <= self.now]
        for job in sorted(due, key=lambda job: (job.not_before, job.id))[:256]:
            job.hold = FREE

    # -- from outside ----------------------------------------------------------------------

    def do_cancel(self, c: rec.Cancel) -> None:
        job = self.job_of(c.job)
        reason = c.reason or R.CANCEL_REQUESTED
        if job.state in FINAL:
            raise No(R.ALREADY_ENDED)
        if job.state == STOPPING and not self.returns(job):
            raise No(R.ALREADY_STOPPING)
        if job.state == PENDING:
            job.reason = reason
            self.finish(job, CANCELLED, 0)
            return
        job.last = True
        if job.state == STOPPING and job.verdict != PENDING:
            self.tell_state(job, 0)  # it has failed already, and is not tried again
            return
        job.reason = reason
        if job.state == STOPPING:
            job.verdict = CANCELLED
            self.tell_state(job, 0)
            return
        job.state = STOPPING
        self.tell_state(job, 0)
        self.tell_stops(job, job.reason)

    def do_forget(self, c: rec.Forget) -> None:
        if self.job_of(c.job).state not in FINAL:
            raise No(R.NOT_ENDED)
        self.forget(c.job, R.FORGET_REQUESTED)

    def do_deviceusage(self, c: rec.DeviceUsage) -> None:
        job = self.job_of(c.job)
        if not self.of_job(job):
            raise No(R.NOT_RUNNING)
        if c.attempt != job.attempt:
            raise No(R.WRONG_ATTEMPT, c.attempt, job.attempt)
        if c.device_ns <= job.charged:
            raise No(R.STALE_USAGE, c.device_ns, job.charged)
        self.use(job.request.queue, c.device_ns - job.charged)
        job.charged = c.device_ns

    def refuse_move(self, job: Job) -> None:
        """A move needs a node that takes no jobs, a job that may run again, and another node."""
        where = {task.node for task in self.of_job(job)}
        if all(node.up for node in self.nodes if node.id in where):
            raise No(R.UNCHANGED)
        if not job.request.retries and not job.wants(Option.PREEMPTIBLE):
            raise No(R.NOT_PREEMPTIBLE)
        if self.hopeless(job):
            raise No(R.NO_NODE_FITS)

    def hopeless(self, job: Job) -> bool:
        """True if the job would not fit even if nothing else ran."""
        empty = self.clone()
        empty.tasks, empty.nodes = [], [node for node in empty.nodes if node.up]
        for node in empty.nodes:
            taints = {label for label, (_, taint, _) in node.labels.items() if taint}
            shut = bool(taints - set(job.request.tolerate))
            for device in node.devices:
                device.capacity *= device.available and not shut
            node.cpu, node.memory = (0, 0) if shut else (node.cpu, node.memory)
        return empty.holds_at_most(job.request) < job.request.tasks

    def do_preempt(self, c: rec.Preempt) -> None:
        job = self.job_of(c.job)
        ran = max(0, self.now - job.place_ns)
        if job.state == STOPPING:
            raise No(R.ALREADY_STOPPING)
        if not self.of_job(job):
            raise No(R.NOT_RUNNING)
        if c.attempt != job.attempt:
            raise No(R.WRONG_ATTEMPT, c.attempt, job.attempt)
        if c.move:
            self.refuse_move(job)
        elif not job.wants(Option.PREEMPTIBLE):
            raise No(R.NOT_PREEMPTIBLE)
        elif ran < job.request.min_run_s * SECOND:
            raise No(R.RUNS_TOO_SHORT, ran, job.request.min_run_s)
        reason = c.reason or (R.MOVED if c.move else R.PREEMPTED)
        job.verdict, job.state, job.reason = PENDING, STOPPING, reason
        self.tell_state(job, 0)
        self.tell_stops(job, job.reason)

    def do_refusedrequests(self, c: rec.RefusedRequests) -> None:
        self.counts["refused"] += c.requests
