# SPDX-License-Identifier: Apache-2.0
"""Explanations against what the core then does: who is ready starts, who waits is told why, and an
expected start is kept where every estimate was right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Explained
from stoker.scheduler.nouns import JobState
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.records import (
    STATE_CODES,
    DeviceSet,
    NodeDown,
    NodeLabel,
    NodeReserve,
    NodeUp,
    QueueSet,
    QuotaSet,
    Request,
    TaskOutcome,
)
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.wire_commands import Submit

LINES_MAX = 32
SUCCEEDED = STATE_CODES["succeeded"]
LIMITS = Limits(16, 64, 512, 8, 512, 6, 1, 8)


def step(core: Core, requests: list[Request], now: int) -> None:
    for _ in range(64):
        proposal = core.propose(requests, now, measure=False)
        core.apply(proposal.commands, now)
        requests = []
        if not proposal.more:
            return
    raise AssertionError("there is always more to do")


def reasons(core: Core, job: int) -> dict[int, Explained]:
    return {line.reason: line for line in core.explain(job)}


def waiting(core: Core, jobs: int) -> Iterator[int]:
    for job in range(1, jobs + 1):
        info = core.job(job)
        if info is not None and info.state == "pending":
            yield job


def nodes() -> Iterator[Request]:
    for node in range(1, 7):
        yield NodeUp(node, 1, 1, 16_000, 64, 0 if node == 6 else 4)
        for index in range(0 if node == 6 else 4):
            yield DeviceSet(node, index, memory_bytes=40, model=node % 2 + 5, link=index // 2 + 1)
    yield NodeLabel(1, 11)
    yield NodeLabel(2, 13, taint=True)


def any_submit(chance: Chance) -> Submit:
    whole = chance.below(2) * (1 + chance.below(3)) * 1000
    linked = Option.SAME_LINK if chance.below(4) == 0 else 0
    repel = Option.REPEL if chance.below(5) == 0 else 0
    return Submit(
        1,
        gpu_milli=whole or chance.below(3) * 300,
        cpu_milli=chance.below(4) * 2000,
        memory_bytes=chance.below(3) * 10,
        tasks=1 + chance.below(4) // 3 * 2,
        device_memory_bytes=chance.below(2) * 20,
        group=3,
        models=((), (), (5,), (6,))[chance.below(4)],
        require=((), (), (), (11,))[chance.below(4)],
        tolerate=((), (13,))[chance.below(2)],
        queue=chance.below(3),
        options=linked | repel,
    )


@pytest.mark.parametrize("seed", range(6))
def test_nobody_who_waits_could_start(seed: int) -> None:
    """With the order that lets nobody block, whoever is told that he fits must have been placed."""
    core, chance, jobs = Core(LIMITS), Chance(seed), 0
    queues = [QueueSet(queue, order=Order.ANY, placement=Placement.BINPACK) for queue in range(3)]
    step(core, [*nodes(), *queues, QuotaSet(1, limit_milli=6000), QuotaSet(2, 5, 0, 3000)], 1)
    for now in range(2, 90):
        told: list[Request] = [any_submit(chance) for _ in range(2)]
        running = [task for node in core.nodes() for task in core.node_tasks(node)]
        told += [TaskOutcome(t.job, t.attempt, t.node, SUCCEEDED, task=t.task)
                 for t in running if chance.below(8) == 0]  # fmt: skip
        if now == 40:
            told += [NodeDown(3), NodeReserve(4, 1, 0, 60)]
        jobs += 2
        step(core, told, now)
        before = core._core.memory_digest()
        for job in waiting(core, jobs):
            lines = core.explain(job)
            codes = {line.reason for line in lines}
            assert not codes & {Reason.READY, Reason.QUEUE_TURN, Reason.NONE}, (job, lines)
            assert any(300 <= code <= 331 for code in codes - {Reason.EXPECTED_START}), job
            assert len(lines) <= LINES_MAX
            assert all(line.text() for line in lines)
        assert core._core.memory_digest() == before
    assert jobs > 0


def finish_due(core: Core, now: int, run_ns: dict[int, int]) -> None:
    for node in core.nodes():
        for task in core.node_tasks(node):
            info = core.job(task.job)
            assert info is not None
            if info.place_ns + run_ns[task.job] <= now:
                step(core, [TaskOutcome(task.job, task.attempt, node, SUCCEEDED)], now)


def state_of(core: Core, job: int) -> tuple[JobState, int]:
    info = core.job(job)
    assert info is not None
    return info.state, info.place_ns


def test_an_expected_start_is_kept_where_estimates_are_right() -> None:
    core, chance = Core(Limits(4, 16, 64, 64, 64, 16, 1, 1)), Chance(4)
    told: list[Request] = [NodeUp(1, 1, 1, 1 << 20, 1 << 30, 4)]
    told += [DeviceSet(1, index) for index in range(4)]
    run_ns = {job: 100 + chance.below(900) for job in range(1, 25)}
    submits = [Submit(1, gpu_milli=1000, estimate_ns=run_ns[job]) for job in sorted(run_ns)]
    step(core, [*told, *submits], 1000)
    expected = {
        job: reasons(core, job)[Reason.EXPECTED_START].have for job in waiting(core, len(run_ns))
    }
    assert len(expected) == 20
    for now in range(1000, 20_000):
        finish_due(core, now, run_ns)
        if core.counters()["ended_succeeded"] == len(run_ns):
            break
    assert {job: state_of(core, job)[1] for job in expected} == expected


def test_no_start_is_expected_where_an_estimate_that_decides_is_not_known() -> None:
    core = Core(Limits(4, 16, 64, 64, 64, 16, 1, 1))
    told: list[Request] = [NodeUp(1, 1, 1, 1000, 1000, 2), DeviceSet(1, 0), DeviceSet(1, 1)]
    known, unknown = Submit(1, gpu_milli=1000, estimate_ns=500), Submit(1, gpu_milli=1000)
    step(core, [*told, known, unknown, Submit(1, gpu_milli=1000), Submit(1, gpu_milli=2000)], 100)
    assert reasons(core, 3)[Reason.EXPECTED_START].have == 600
    assert Reason.EXPECTED_START not in reasons(core, 4)


def test_an_overdue_job_may_end_at_any_moment() -> None:
    core = Core(Limits(4, 16, 64, 64, 64, 16, 1, 1))
    told: list[Request] = [NodeUp(1, 1, 1, 1000, 1000, 1), DeviceSet(1, 0)]
    step(core, [*told, Submit(1, gpu_milli=1000, estimate_ns=50), Submit(1, gpu_milli=1000)], 100)
    step(core, [NodeLabel(1, 9)], 1000)
    assert reasons(core, 2)[Reason.EXPECTED_START].have == 1001


def test_lines_are_bounded_and_the_most_telling_come_first() -> None:
    core = Core(LIMITS)
    step(core, list(nodes()), 1)
    step(core, [Submit(1, gpu_milli=300, cpu_milli=100) for _ in range(100)], 2)
    job = next(waiting(core, 100), 0)
    lines = core.explain(job)
    assert 0 < len(lines) <= LINES_MAX
    counts = [line.number for line in lines if 304 <= line.reason <= 308]
    assert counts == sorted(counts, reverse=True)


def test_explaining_ten_thousand_waiting_jobs_changes_nothing() -> None:
    core = Core(Limits(2, 4, 10_001, 1, 10_001, 8, 1, 1))
    step(core, [NodeUp(1, 1, 1, 1000, 1000, 1), DeviceSet(1, 0)], 1)
    for _ in range(10):
        step(core, [Submit(1, gpu_milli=1000, estimate_ns=10) for _ in range(1000)], 2)
    before = core._core.memory_digest()
    last = reasons(core, 10_000)
    assert last[Reason.BEHIND].number == 9_998
    assert Reason.EXPECTED_START not in last  # past the bound on jobs ahead
    assert reasons(core, 100)[Reason.EXPECTED_START].have == 2 + 99 * 10
    assert core._core.memory_digest() == before
