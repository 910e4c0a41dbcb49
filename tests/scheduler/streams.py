# SPDX-License-Identifier: Apache-2.0
"""Random but reproducible requests and commands for a small cluster; used by the core's tests."""

from __future__ import annotations

from random import Random

from stoker.scheduler import records as rec
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceShare
from tests.scheduler.oracle import Oracle

SMALL = Limits(nodes=4, devices=14, jobs=12, finished=5, tasks=8, node_tasks=4, keys=4)
"""Limits so tight that a stream runs into every one of them."""

NODES = range(1, 6)
ENDS = ("succeeded", "failed", "cancelled", "timeout", "lost")


def request(random: Random, oracle: Oracle) -> rec.Request:
    """One request; most make sense for the oracle's state, the others are near misses."""
    make = random.choices(
        (node_up, node_down, device_set, submit, outcome, cancel, forget, other),
        (10, 3, 14, 40, 40, 6, 3, 2),
    )[0]
    return make(random, oracle)


def some_job(random: Random, oracle: Oracle) -> int:
    return random.randrange(1, oracle.next_job + 2)


def node_up(random: Random, oracle: Oracle) -> rec.NodeUp:
    boot = random.choices((1, 2, 3), (30, 2, 1))[0]
    cpu = random.choice((2000, 8000, 8000))
    memory = random.choice((1 << 20, 1 << 33))
    devices = random.choices((0, 1, 2, 4, 5, 9, 65), (1, 2, 4, 6, 2, 1, 1))[0]
    node = random.choice(NODES) if random.random() < 0.98 else 0
    return rec.NodeUp(node, boot, random.choices((1, 2, 3), (1, 1, 20))[0], cpu, memory, devices)


def node_down(random: Random, oracle: Oracle) -> rec.NodeDown:
    evict, remove = random.random() < 0.4, random.random() < 0.3
    return rec.NodeDown(random.choice(NODES), evict, remove, random.randrange(2))


def device_set(random: Random, oracle: Oracle) -> rec.DeviceSet:
    node = random.choice(NODES)
    known = [len(n.devices) for n in oracle.nodes if n.id == node]
    available = random.random() < 0.93
    return rec.DeviceSet(
        node,
        random.randrange(known[0] + 1 if known else 1),
        random.choices((1000, 500, 0, 1001), (20, 3, 3, 1))[0],
        random.choice((0, 1 << 30)),
        available,
        0 if available else random.randrange(3),
        random.randrange(2),
    )


def submit(random: Random, oracle: Oracle) -> rec.Submit:
    gpu = (0, 1, 300, 500, 999, 1000, 2000, 4000, 1500, 17_000)
    return rec.Submit(
        client=random.randrange(3),
        key=random.choice((b"", b"", b"", bytes([random.randrange(1, 9)]), b"d" * 16)),
        spec_hash=random.randrange(2),
        uid=random.randrange(3),
        tenant=random.randrange(3),
        priority=random.choices((0, 5, -128, 127, 200), (30, 6, 3, 3, 1))[0],
        gpu_milli=random.choices(gpu, (20, 8, 30, 20, 8, 20, 8, 3, 1, 1))[0],
        cpu_milli=random.choices((0, 500, 3000, 9000), (20, 8, 4, 1))[0],
        memory_bytes=random.choices((0, 1 << 19, 1 << 34), (20, 5, 1))[0],
        tasks=random.choices((1, 2, 3, 7, 0, 65), (40, 6, 4, 2, 1, 1))[0],
    )


def outcome(random: Random, oracle: Oracle) -> rec.Outcome:
    running = random.random() < 0.5
    state = rec.STATE_CODES["running" if running else random.choice(ENDS)]
    end: dict[str, int | None] = {"exit_code": None, "signal": None}
    if not running:
        end = random.choice(({"exit_code": 0}, {"exit_code": 3}, {"signal": 9}))
    reason = random.choice((0, 0, 1001))
    if oracle.tasks and random.random() < 0.85:
        task = random.choice(oracle.tasks)
        attempt, node, number = oracle.jobs[task.job].attempt, task.node, task.number
        return rec.Outcome(task.job, attempt, node, state, reason=reason, task=number, **end)
    job, attempt = some_job(random, oracle), random.choice((1, 1, 1, 0, 2))
    number = random.choice((0, 0, 1, 7, 64))
    node = random.choice(NODES)
    return rec.Outcome(job, attempt, node, state, reason=reason, task=number, **end)


def cancel(random: Random, oracle: Oracle) -> rec.Cancel:
    live = [job.id for job in oracle.live()] or [1]
    job = random.choice(live) if random.random() < 0.6 else some_job(random, oracle)
    return rec.Cancel(job, random.choice((0, 0, 1002)))


def forget(random: Random, oracle: Oracle) -> rec.Forget:
    return rec.Forget(some_job(random, oracle))


def other(random: Random, oracle: Oracle) -> rec.Request:
    if random.random() < 0.5:
        return rec.Term(random.randrange(oracle.term + 3), random.randrange(9))
    return rec.Refused(random.randrange(3), random.randrange(5), random.randrange(1000, 1003))


def places(random: Random, oracle: Oracle) -> list[rec.Place]:
    """A group that no policy chose: apply must judge it alone."""
    waiting = [job for job in oracle.live() if job.state == rec.STATE_CODES["pending"]]
    job, attempt, tasks = some_job(random, oracle), random.randrange(3), 1
    milli, count = random.choice((1, 500, 1000)), random.randrange(3)
    if waiting and random.random() < 0.9:
        ask = random.choice(waiting)
        job, attempt, tasks = ask.id, ask.attempt + 1, ask.ask.tasks
        milli = min(ask.ask.gpu_milli, 1000)
        count = ask.ask.gpu_milli // milli if milli else 0
    if random.random() < 0.2:
        tasks, count = random.randrange(1, 4), random.randrange(3)
    return [
        rec.Place(
            job,
            attempt,
            task,
            tasks,
            random.choice(NODES),
            tuple(DeviceShare(random.randrange(6), milli) for _ in range(count)),
            0,
            0,
            (),
            0,
        )
        for task in range(tasks)
    ]
