# SPDX-License-Identifier: Apache-2.0
"""Random but reproducible requests and commands for a small cluster; used by the core's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stoker.scheduler import records as rec
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import Property, Relation
from tests.scheduler.oracle import Oracle
from tests.scheduler.oracle_nouns import HOLD_AFTER, SECOND, Job, Node

COMPARED = tuple(
    p for p in Property if p not in (Property.LINK, Property.DEVICE, Property.NUMA, Property.LEVEL)
)
"""The properties that each device has by itself."""

SMALL = Limits(nodes=4, devices=14, jobs=12, finished=5, tasks=6, node_tasks=4, keys=4, queues=4)
"""Limits so tight that a stream runs into every one of them."""

NODES = range(1, 6)
ENDS = ("succeeded", "failed", "cancelled", "timeout", "lost")
MODELS = (71, 72, 73)
LABELS = range(4)
LEVELS = (7, 8)
"""Keys of labels, so that labels of several nodes are of one level."""
CUSTOM_QUEUE = 9
RANGE = 1 << 63
"""A range of jobs among those that a job follows, beside a number of its own."""
EACH_SUCCESS = {"after_any": 0, "after_fail": 0}


@dataclass
class Stream:
    """`decides`: only what the oracle can propose for, else everything that apply must judge."""

    random: Random
    oracle: Oracle
    decides: bool

    def one_of(self, *values: int) -> int:
        return self.random.choice(values)

    def mostly(self, *weighted: tuple[int, int]) -> int:
        """A value by weight: (value, weight) each."""
        values, weights = zip(*weighted, strict=True)
        return int(self.random.choices(values, weights)[0])

    def rarely(self, chance: float = 0.1) -> bool:
        return self.random.random() < chance

    def request(self) -> rec.Request:
        """One request; most make sense for the oracle's state, the others are near misses."""
        makers = (
            (self.node_up, 10), (self.node_down, 3), (self.device_set, 14), (self.submit, 40),
            (self.outcome, 36), (self.cancel, 6), (self.forget, 3), (self.other, 2),
            (self.label, 5), (self.reserve, 2), (self.queue_set, 5), (self.quota_set, 4),
            (self.usage, 6), (self.preempt, 8),
            (self.give_up, 3), (self.device_traits, 5), (self.submit_array, 6),
            (self.range_end, 6),
        )  # fmt: skip
        make = self.random.choices([m for m, _ in makers], [w for _, w in makers])[0]
        return make()

    # -- nodes -----------------------------------------------------------------------------

    def node_up(self) -> rec.NodeUp:
        boot = self.mostly((1, 30), (2, 2), (3, 1))
        node = self.random.choice(NODES) if not self.rarely(0.02) else 0
        devices = self.mostly((0, 1), (1, 2), (2, 4), (4, 6), (5, 2), (9, 1), (65, 1))
        return rec.NodeUp(
            node, boot, self.mostly((1, 1), (2, 1), (3, 20)), self.one_of(2000, 8000, 8000),
            self.one_of(1 << 20, 1 << 33), devices, self.mostly((0, 5), (4, 1)),
        )  # fmt: skip

    def node_down(self) -> rec.NodeDown:
        evict, remove = self.rarely(0.4), self.rarely(0.3)
        return rec.NodeDown(self.random.choice(NODES), evict, remove, self.one_of(0, 1))

    def device_set(self) -> rec.DeviceSet:
        node = self.random.choice(NODES)
        known = [len(n.devices) for n in self.oracle.nodes if n.id == node]
        available = not self.rarely(0.07)
        return rec.DeviceSet(
            node,
            self.random.randrange(known[0] + 1 if known else 1),
            self.mostly((1000, 20), (500, 3), (0, 3), (1001, 1)),
            self.mostly((0, 1), (80, 6)),
            available,
            0 if available else self.one_of(0, 1, 2),
            self.one_of(0, 1),
            self.mostly((0, 3), *((model, 3) for model in MODELS[:2])),
            0 if self.decides else self.one_of(0, 1, 1, 2),
            0 if self.decides else self.one_of(0, 1),
            0 if self.decides else self.one_of(0, 1),
            self.mostly((1, 20), (2, 8), (3, 1)),
            self.mostly((0, 6), (1, 6), (15, 2), (16, 1)),
        )

    def device_traits(self) -> rec.DeviceTraits:
        node = self.random.choice(NODES)
        known = [len(n.devices) for n in self.oracle.nodes if n.id == node]
        return rec.DeviceTraits(
            node, self.random.randrange(known[0] + 1 if known else 1), self.one_of(0, 8, 9),
            self.one_of(0, 41, 42), self.mostly((0, 3), (51, 1)), self.one_of(0, 550, 560),
        )  # fmt: skip

    def conditions(self, gpu_milli: int) -> tuple[rec.Condition, ...]:
        """Few, mostly sound; each preference is one condition, beside those on levels."""
        return (*self.of_devices(gpu_milli), *self.levels())

    def levels(self) -> tuple[rec.Condition, ...]:
        if not self.rarely(0.25):
            return ()
        keys = self.random.sample(LEVELS, self.one_of(1, 1, 2))
        relation = self.mostly((Relation.IS, 30), (Relation.LEAST, 1))
        return tuple(
            rec.Condition(Property.LEVEL, relation, key, self.one_of(0, 0, 1, 2)) for key in keys
        )

    def of_devices(self, gpu_milli: int) -> tuple[rec.Condition, ...]:
        if not gpu_milli or not self.rarely(0.15):
            return ()
        found = [self.condition(0) for _ in range(self.one_of(0, 1, 1, 2))]
        return (*found, *(self.condition(rank) for rank in range(1, self.one_of(1, 1, 2, 3))))

    def condition(self, rank: int) -> rec.Condition:
        if self.rarely(0.03):
            return rec.Condition(self.one_of(1, 2, 3, 13), self.one_of(1, 2, 4), 20, rank)
        which = self.random.choice([p for p in COMPARED if rank or p != Property.MODEL])
        values = {
            Property.VENDOR: (1, 15), Property.MODEL: MODELS[:2], Property.MEMORY: (50, 80),
            Property.COMPUTE: (8, 9), Property.ARCH: (41, 42), Property.PROFILE: (51,),
            Property.DRIVER: (550, 555, 560), Property.PARTITION: (1, 2),
        }  # fmt: skip
        relations = {
            Property.MEMORY: (Relation.LEAST,), Property.COMPUTE: tuple(Relation),
            Property.DRIVER: tuple(Relation),
        }  # fmt: skip
        relation = self.random.choice(relations.get(which, (Relation.IS,)))
        return rec.Condition(which, relation, self.random.choice(values[which]), rank)

    def label(self) -> rec.NodeLabel:
        many = self.rarely(0.5)
        return rec.NodeLabel(
            1 if many else self.random.choice(NODES),
            self.random.randrange(100, 140) if many else self.random.choice(LABELS),
            self.one_of(0, *LEVELS, *LEVELS),
            taint=not many and self.rarely(),
            cost=self.rarely(),
            clear=self.rarely(0.06 if many else 0.5),
        )

    def reserve(self) -> rec.NodeReserve:
        node = self.random.choice(NODES)
        if self.rarely(0.5):
            return rec.NodeReserve(node)
        since = self.oracle.now + self.random.randrange(20) * SECOND
        until = since + self.random.randrange(-1, 20) * SECOND
        return rec.NodeReserve(node, self.one_of(0, 0, 1, 2, 5), since, max(0, until))

    # -- queues ----------------------------------------------------------------------------

    def queue_set(self) -> rec.QueueSet:
        if self.decides and self.rarely(0.7):
            return rec.QueueSet(CUSTOM_QUEUE, placement=Placement.CUSTOM, remove=self.rarely(0.2))
        queue = self.random.randrange(1 if self.decides else 0, 7)
        parent = self.one_of(0, 0, 1, 2, 3, 4)
        if self.rarely(0.3) and not self.decides:
            parent = max(q.id for q in self.oracle.queues.values())  # a deep tree
            queue = self.random.randrange(100, 120)
        return rec.QueueSet(
            queue, max(0, parent), self.mostly((1, 20), (2, 5), (0, 1)),
            self.random.choice([*Order, 0, max(Order) + 1]), self.random.choice([*Placement, 14]),
            self.rarely(0.25),
        )  # fmt: skip

    def quota_set(self) -> rec.QuotaSet:
        limit = self.mostly((rec.NO_LIMIT, 4), (0, 1), (1500, 2), (4000, 3))
        guaranteed = 0 if self.decides else self.mostly((0, 3), (500, 1), (2000, 1))
        model = self.random.randrange(200, 212) if self.rarely() else self.one_of(0, *MODELS)
        return rec.QuotaSet(self.random.choice(self.queue_ids()), model, guaranteed, limit)

    def queue_ids(self) -> Sequence[int]:
        return [*(max(0, id) for id in self.oracle.queues), 5]

    # -- jobs ------------------------------------------------------------------------------

    def some_job(self) -> int:
        return self.random.randrange(max(1, self.oracle.next_job - 15), self.oracle.next_job + 2)

    def submit(self) -> rec.Submit:
        custom = self.decides and CUSTOM_QUEUE in self.oracle.queues and self.rarely(0.3)
        queue = 0 if self.decides else self.random.choice(self.queue_ids())
        placement = Placement.BINPACK if self.decides else self.random.choice(list(Placement))
        gpus = ((0, 20), (1, 8), (300, 30), (500, 20), (999, 8), (1000, 20), (2000, 8))
        gpu_milli = self.mostly(*gpus)
        return self.unusual(rec.Submit(
            client=self.random.randrange(3),
            key=self.random.choice((b"", b"", b"", bytes([self.random.randrange(1, 9)]))),
            spec_hash=self.one_of(0, 1), uid=self.one_of(0, 1), tenant=self.one_of(0, 1),
            priority=self.mostly((0, 30), (5, 6), (rec.PRIORITY_MIN, 3), (rec.PRIORITY_MAX, 3)),
            gpu_milli=gpu_milli,
            cpu_milli=self.mostly((0, 20), (500, 8), (3000, 4)),
            memory_bytes=self.mostly((0, 20), (1 << 19, 5)),
            tasks=self.mostly((1, 40), (2, 6), (3, 4)),
            device_memory_bytes=self.mostly((0, 6), (30, 1)),
            estimate_ns=self.mostly((0, 3), (9 * SECOND, 1)),
            **self.afters(),
            group=self.one_of(0, 1, 2),
            series=self.one_of(0, 21, 21, 22),
            queue=CUSTOM_QUEUE if custom else queue,
            min_run_s=self.mostly((0, 3), (2, 1)),
            backoff_s=self.mostly((0, 2), (1, 3), (7, 1), (300, 1)),
            placement=Placement.CUSTOM if custom else placement,
            options=self.options(), retries=self.mostly((0, 3), (1, 2), (3, 1), (10, 1)),
            kinds=self.mostly((1, 6), (2, 2), (3, 2)),
            conditions=self.conditions(gpu_milli),
        ))  # fmt: skip

    def submit_array(self) -> rec.SubmitArray:
        """An array that begins, or its next jobs: numbers without a job, or near misses."""
        each, later = self.submit(), self.rarely(0.6)
        each = each._replace(key=each.key.ljust(16, b"\0") if each.key else b"")
        known = range(1, self.oracle.next_job)
        # Whoever asks for kept numbers keeps count, so none of them ended and is followed by a job.
        followed = {number for job in self.oracle.live() for number in job.request.after}
        kept = [number for number in known if number not in {*self.oracle.jobs, *followed}]
        first = self.random.choice(kept or [1]) if later else 0
        first = self.mostly((first, 9), (first + 1, 1)) if first else 0
        jobs = 1 if each.after and not later else self.mostly((1, 3), (2, 2), (5, 1))
        if followed & {*range(first, first + jobs)}:
            first = 0
        return rec.SubmitArray(
            *(each._replace(key=b"", after=(), after_any=0, after_fail=0) if later else each),
            first=first,
            jobs=jobs,
            behind=0 if later else self.mostly((0, 1), (3, 3), (9, 1)),
        )

    def afters(self) -> dict[str, Any]:
        """Jobs to follow, mostly one, each by its success, by its failure or by any end."""
        if not self.rarely(0.15):
            return {}
        count = self.mostly((1, 6), (2, 3), (3, 2), (8, 1))
        jobs = tuple(dict.fromkeys(self.some_job() for _ in range(count)))
        jobs = tuple(filter(None, jobs))
        if self.rarely(0.4):
            ranges = (RANGE + self.one_of(1, 2, 3) for _ in range(self.one_of(1, 2)))
            jobs = tuple(dict.fromkeys((*jobs, *ranges)))[-8:]
        any_end = self.random.randrange(1 << len(jobs)) if self.rarely(0.6) else 0
        failure = self.random.randrange(1 << len(jobs)) & ~any_end if self.rarely(0.5) else 0
        return {"after": jobs, "after_any": any_end, "after_fail": failure}

    def range_end(self) -> rec.RangeEnd:
        """The end of a range that a job waits for, or a near miss."""
        waits = [job for job in self.oracle.live() if job.hold == HOLD_AFTER]
        pairs = [(job.id, after) for job in waits for after in job.request.after]
        if not pairs or self.rarely():
            return rec.RangeEnd(self.some_job(), self.one_of(1, RANGE + 1, RANGE + 2))
        return rec.RangeEnd(*self.random.choice(pairs), self.rarely(0.3))

    def options(self) -> int:
        plain = [0, 0, Option.PREEMPTIBLE, Option.SPREAD_TASKS, Option.PACK_TASKS]
        company = [Option.ATTRACT, Option.REPEL]
        others = [] if self.decides else [Option.SAME_LINK, Option.SAME_LINK, Option.PREEMPTOR]
        return (
            self.random.choice([*plain, *company, *others])
            | self.one_of(0, 1)
            | self.mostly((0, 6), (Option.MIX_VENDORS, 2), (Option.LOST_ONLY, 2))
        )

    def unusual(self, request: rec.Submit) -> rec.Submit:
        """One thing about it that is rare or wrong."""
        if not self.rarely(0.3):
            return request
        changes: list[dict[str, object]] = [
            {"priority": 200}, {"gpu_milli": 4000}, {"gpu_milli": 1500}, {"gpu_milli": 17_000},
            {"cpu_milli": 9000}, {"memory_bytes": 1 << 34}, {"tasks": 7}, {"tasks": 0},
            {"tasks": 65}, {"options": 512}, {"options": 6}, {"options": 8, "group": 0},
            {"placement": 15}, {"retries": 11}, {"backoff_s": 301}, {"queue": 77},
            {"key": b"d" * 16}, {"after": (1 << 40,), **EACH_SUCCESS},
            {"after": (3, 3), **EACH_SUCCESS}, {"models": MODELS[:2]}, {"models": MODELS[1:]},
            {"models": MODELS[:1]}, {"device_memory_bytes": 50}, {"device_memory_bytes": 30},
            {"kinds": 0}, {"kinds": 4}, {"require": (1,)}, {"avoid": (2, 3)}, {"avoid": (1, 2, 3)},
            {"tolerate": (1, 2)},
            {"require": (1, 2)},
        ]  # fmt: skip
        return request._replace(**self.random.choice(changes))

    def outcome(self) -> rec.TaskOutcome:
        running = self.rarely(0.4)
        begins = self.random.choices(("pending", "starting", "running"), (2, 4, 4))[0]
        state = rec.STATE_CODES[begins if running else self.random.choice(ENDS)]
        end: dict[str, int | None] = {"exit_code": None, "signal": None}
        if not running:
            end = self.random.choice(({"exit_code": 0}, {"exit_code": 3}, {"signal": 9}))
            device_ns = (None, 0, 5 * SECOND, (1 << 64) - 3)
            end["device_ns"] = self.random.choices(device_ns, (9, 2, 4, 1))[0]
            end["run_ns"] = self.mostly((0, 2), (SECOND, 3), (3 * SECOND, 3), ((1 << 64) - 3, 1))
            end["launch_ns"] = self.mostly((0, 3), (4000, 2), (7001, 2), (1 << 57, 1))
        given_back = running and begins == "pending"
        reason = self.one_of(0, Reason.NOT_LAUNCHED if given_back else 0, 1001)
        if self.oracle.tasks and not self.rarely(0.15):
            task = self.random.choice(self.oracle.tasks)
            attempt = self.oracle.jobs[task.job].attempt
            return rec.TaskOutcome(
                task.job, attempt, task.node, state, reason=reason, task=task.number, **end
            )
        job, attempt = self.some_job(), self.one_of(1, 1, 1, 0, 2)
        node, number = self.random.choice(NODES), self.one_of(0, 0, 1, 7, 64)
        return rec.TaskOutcome(job, attempt, node, state, reason=reason, task=number, **end)

    def held(self) -> Job | None:
        """A job that holds tasks."""
        tasks = self.oracle.tasks
        return self.oracle.jobs[self.random.choice(tasks).job] if tasks else None

    def usage(self) -> rec.DeviceUsage:
        job = self.held()
        if job is None or self.rarely():
            return rec.DeviceUsage(self.some_job(), 1, 5)
        wrong = self.rarely()
        return rec.DeviceUsage(job.id, job.attempt + wrong, self.random.randrange(40) * SECOND)

    def preempt(self) -> rec.Request:
        """Most moves follow the drain of a node that holds tasks."""
        job = self.held()
        if job is None or self.rarely():
            return rec.Preempt(self.some_job(), 1, move=self.one_of(False, True))
        down = {node.id for node in self.oracle.nodes if not node.up}
        there = [task.job for task in self.oracle.tasks if task.node in down]
        if there and self.rarely(0.8):
            moved = self.oracle.jobs[self.random.choice(there)]
            return rec.Preempt(moved.id, moved.attempt + self.rarely(), move=True)
        if self.rarely(0.2):
            return rec.NodeDown(self.random.choice(self.oracle.tasks).node, reason=1)
        attempt, reason = job.attempt + self.rarely(), self.one_of(0, Reason.RECLAIMED)
        return rec.Preempt(job.id, attempt, self.some_job(), reason)

    def give_up(self) -> rec.GiveUp:
        job = self.held()
        if job is None or self.rarely():
            return rec.GiveUp(self.some_job(), 1)
        return rec.GiveUp(job.id, job.attempt + self.one_of(0, 0, 0, 1, -1), self.one_of(0, 1001))

    def cancel(self) -> rec.Cancel:
        live = [job.id for job in self.oracle.live()] or [1]
        job = self.random.choice(live) if self.rarely(0.6) else self.some_job()
        return rec.Cancel(job, self.one_of(0, 0, 1002))

    def forget(self) -> rec.Forget:
        return rec.Forget(self.some_job())

    def other(self) -> rec.Request:
        if self.rarely(0.5):
            return rec.Term(self.random.randrange(self.oracle.term + 3), self.random.randrange(9))
        return rec.RefusedRequests(
            self.one_of(0, 1), self.random.randrange(5), self.one_of(1000, 1001, 1002)
        )

    # -- places from outside ---------------------------------------------------------------

    def shares(self, job: Job, node: Node) -> tuple[DeviceShare, ...]:
        """Devices that would do, most of the time."""
        each = min(job.request.gpu_milli, 1000)
        count = job.request.gpu_milli // each if each else 0
        roomy = [i for i in range(len(node.devices)) if self.oracle.free(node, i) >= each]
        if len(roomy) < count or self.rarely(0.15):
            return tuple(
                DeviceShare(self.random.randrange(6), each) for _ in range(self.one_of(0, 1, 2))
            )
        chosen = roomy[:count] if self.rarely(0.5) else self.random.sample(roomy, count)
        return tuple(DeviceShare(index, each) for index in chosen)

    def is_likely(self, job: Job, node: Node) -> bool:
        each = max(1, min(job.request.gpu_milli, 1000))
        roomy = [i for i in range(len(node.devices)) if self.oracle.free(node, i) >= each]
        return node.up and len(roomy) >= job.request.gpu_milli // each

    def group(self) -> tuple[Job | None, list[tuple[Node | None, tuple[DeviceShare, ...]]]]:
        waiting = [job for job in self.oracle.live() if job.state == rec.STATE_CODES["pending"]]
        if self.decides:
            waiting = [
                job for job in waiting if job.request.placement == Placement.CUSTOM
            ] or waiting
        if not waiting or not self.oracle.nodes:
            return None, []
        job = self.random.choice(waiting)
        tasks = self.one_of(1, 2, 3) if self.rarely(0.05) else job.request.tasks
        likely = [node for node in self.oracle.nodes if self.is_likely(job, node)]
        likely = self.oracle.nodes if self.rarely() or not likely else likely
        nodes = [self.random.choice(likely) for _ in range(max(1, tasks))]
        if self.rarely(0.5):
            nodes = [nodes[0]] * len(nodes)
        return job, [(node, self.shares(job, node)) for node in nodes]

    def places(self) -> list[rec.Place]:
        """A group that no policy chose: apply must judge it alone."""
        job, tasks = self.group()
        if job is None:
            share = (DeviceShare(self.random.randrange(6), 500),)
            return [rec.Place(self.some_job(), 1, 0, 1, 1, share, 0, 0, (), 0)]
        attempt = job.attempt + (1 if not self.rarely(0.05) else self.one_of(0, 2))
        return [
            rec.Place(
                job.id, attempt, number, len(tasks), 6 if self.rarely(0.02) else node.id, shares,
                0, 0, (), 0,
            )
            for number, (node, shares) in enumerate(tasks)
            if node
        ]  # fmt: skip

    def prefers(self) -> list[rec.Prefer]:
        """Placements drawn as `places` draws them, as preferences."""
        return [
            rec.Prefer(p.job, p.attempt, p.node, p.shares, p.task, p.tasks) for p in self.places()
        ]
