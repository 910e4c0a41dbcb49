# SPDX-License-Identifier: Apache-2.0
"""Thread times: known programs, and what the probes say of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stoker.native.errors import Refused
from stoker.probes.host.host_probes import HostLimits, HostProbes, HostTimes
from stoker.probes.host.host_records import BLOCKED, ON_CPU, StateDurations
from tests.probes.groups import CLOCK_NANOSLEEP, Groups, Job, eventually

pytestmark = pytest.mark.needs_bpf

Attach = Callable[..., HostProbes]
MS = 1_000_000


def totals_of(reading: HostTimes) -> StateDurations:
    assert reading.absent == ""
    assert reading.unsettled == 0
    assert reading.totals is not None
    return reading.totals


def timed(job: Job, verb: str, argument: int) -> int:
    """Run it and return the wall time around it in ns, an upper bound of any single state."""
    began = time.monotonic_ns()
    assert job.run(verb, argument) == 0
    return time.monotonic_ns() - began


def least(asked: int, times: StateDurations) -> int:
    """A wait is asked for just before the thread leaves the CPU: so much of it is not blocked."""
    return asked * MS - times.on_cpu_ns - times.runnable_ns


def is_asleep(probes: HostProbes, job: Job) -> bool:
    """True if the job's one thread sleeps for good; its start has short waits as well."""
    reading = probes.read(job.id)
    since = [(thread.state, reading.t_ns - thread.since_ns) for thread in reading.threads]
    return len(since) == 1 and since[0][0] == BLOCKED and since[0][1] > 100 * MS


def test_a_sleeper_is_blocked_for_as_long_as_it_sleeps(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    wall = timed(job, "nap", 200)
    times = totals_of(probes.read(job.id))
    assert least(200, times) <= times.blocked_ns <= wall
    assert times.total_ns <= wall
    assert times.on_cpu_ns < 100 * MS  # how long it waits for a CPU depends on its neighbours


def test_a_spinner_is_on_cpu(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    wall = timed(job, "spin", 100)
    times = totals_of(probes.read(job.id))
    # It spins until 100 ms have passed, whoever else had the CPU meanwhile.
    assert 100 * MS <= times.on_cpu_ns + times.runnable_ns <= wall
    assert times.blocked_ns < 100 * MS


def test_two_spinners_on_one_cpu_wait_for_each_other(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    wall = timed(job, "contend", 300)
    times = totals_of(probes.read(job.id))
    assert times.on_cpu_ns <= wall + 5 * MS  # one CPU (the start may have been on the other)
    assert 200 * MS <= times.runnable_ns <= 2 * wall
    assert 1 * MS <= times.longest_delay_ns <= times.runnable_ns
    assert sum(times.delay_log2) >= times.switches // 2


def test_the_delay_histogram_holds_every_wait_for_a_cpu(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    timed(job, "pingpong", 500)
    times = totals_of(probes.read(job.id))
    waits = sum(times.delay_log2)
    assert waits == times.switches  # every switch-in followed a wait, also the first
    low = sum(count << bucket for bucket, count in enumerate(times.delay_log2) if bucket)
    high = sum(count << (bucket + 1) for bucket, count in enumerate(times.delay_log2))
    assert low <= times.runnable_ns < high
    assert times.wakeups >= 500


def test_a_vfork_parent_waits_uninterruptibly(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    wall = timed(job, "vfork", 50)
    times = totals_of(probes.read(job.id))
    assert least(50, times) <= times.io_ns <= wall


def test_foreign_processes_are_not_counted(groups: Groups, attach: Attach) -> None:
    probes, job, foreign = attach(), groups.job(), groups.beside()
    assert foreign.run("children", 5) == 0
    assert job.run("leave", 0) == 0
    assert set(probes.read_all()) == {job.id}
    assert {event.job for event in probes.process_events()} == {job.id}
    assert probes.made()["host.thread"] == 1


def test_a_deeper_group_belongs_to_its_job(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    inner = groups.job("1.1/inner")
    assert inner.run("nap", 10) == 0
    times = totals_of(probes.read(job.id))
    assert times.blocked_ns >= least(10, times)
    assert probes.read(inner.id).totals is None


def test_however_deep_a_group_is_it_belongs_to_its_job(groups: Groups, attach: Attach) -> None:
    probes, path = attach(), "1.1"
    job = groups.job(path)
    for depth in range(2, 8):
        path += "/inner"
        inner = groups.job(path)
        before = probes.pressure(job.id).minor_faults or 0
        assert inner.run("nap", 1) == 0
        assert (probes.pressure(job.id).minor_faults or 0) > before, depth
    assert set(probes.read_all()) == {job.id}


def test_an_open_interval_counts_up_to_the_reading(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    job.start("nap", 60_000)
    eventually(lambda: [t.state for t in probes.read(job.id).threads] == [BLOCKED])
    first = probes.read(job.id)
    time.sleep(0.02)
    second = probes.read(job.id)
    (thread,) = second.threads
    assert thread.since_ns == first.threads[0].since_ns
    assert thread.detail == CLOCK_NANOSLEEP
    gained = totals_of(second).blocked_ns - totals_of(first).blocked_ns
    assert gained == second.t_ns - first.t_ns
    assert thread.times.total_ns == second.t_ns - thread.seen_ns


def test_a_running_thread_shows_as_running(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    job.start("spin", 60_000)
    eventually(lambda: [t.state for t in probes.read(job.id).threads] == [ON_CPU])


def test_ended_threads_are_folded_without_loss(groups: Groups, attach: Attach) -> None:
    """Two thousand threads through a table with room for 64."""
    probes, job = attach(HostLimits(threads=64)), groups.job()
    wall = timed(job, "threads", 2000)
    reading = probes.read(job.id)
    assert (reading.ended, reading.threads) == (2001, ())
    assert set(probes.dropped().values()) == {0}
    times = totals_of(reading)
    assert times.switches >= 2001
    assert times.total_ns <= 9 * wall  # never more than nine alive


def test_a_settled_reading_never_goes_back(groups: Groups, attach: Attach) -> None:
    """Threads end while they are read; a reading that cannot be exact says so."""
    probes, job = attach(), groups.job()
    process = job.start("threads", 1600)
    last = 0
    while process.poll() is None:
        reading = probes.read(job.id)
        if reading.totals is None or reading.unsettled:
            continue
        assert reading.totals.total_ns >= last
        assert reading.ended + len(reading.threads) <= probes.made()["host.thread"]
        last = reading.totals.total_ns
    assert probes.read(job.id).ended == 1601


def test_a_full_thread_table_counts_what_it_refuses(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(threads=4)), groups.job()
    assert job.run("crowd", 20) == 0
    reading = probes.read(job.id)
    assert probes.dropped()["host.thread"] > 0
    assert reading.threads == ()
    assert probes.made()["host.thread"] == reading.ended + probes.dropped()["host.thread"]


def test_a_full_job_table_refuses_and_counts(groups: Groups, attach: Attach) -> None:
    probes = attach(HostLimits(jobs=2))
    jobs = [groups.job(f"{i}.1") for i in range(3)]
    for job in jobs:
        job.start("nap", 60_000)
    eventually(lambda: probes.dropped()["host.job"] > 0)
    assert len(probes.read_all()) == 2
    probes.follow(jobs[0].id, full=False)
    probes.follow(jobs[1].id, full=True)
    with pytest.raises(Refused, match="follow the job"):
        probes.follow(jobs[2].id, full=True)
    probes.unfollow(jobs[0].id)
    probes.follow(jobs[2].id, full=True)


def test_ended_jobs_that_nobody_follows_expire_first(groups: Groups, attach: Attach) -> None:
    probes = attach(HostLimits(jobs=4))
    kept, *others = [groups.job(f"{i}.1") for i in range(4)]
    probes.follow(kept.id, full=False)
    for job in (kept, *others):
        assert job.run("leave", 0) == 0
    assert len(probes.read_all()) == 4
    eventually(lambda: not probes.spans() and probes.dropped()["host.job_expired"] == 3)
    assert set(probes.read_all()) == {kept.id}


def test_unfollow_forgets_and_says_so(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    job.start("nap", 60_000)
    eventually(lambda: is_asleep(probes, job))
    probes.unfollow(job.id)
    reading = probes.read(job.id)
    assert reading.totals is None
    assert "no thread of this cgroup" in reading.absent


def test_the_programs_own_cost_is_measured(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    assert probes.cost().absent == "no measuring window was opened"
    probes.begin_cost()
    assert job.run("pingpong", 200) == 0
    cost = probes.cost()
    assert cost.absent == ""
    assert cost.programs is not None
    ns, runs = cost.programs["host.sched.switch"]
    assert runs >= 400
    assert 0 < ns <= cost.run_ns < cost.window_ns * 16
    assert probes.cost().absent == "no measuring window was opened"
