# SPDX-License-Identifier: Apache-2.0
"""Pressure on a job: known programs do one thing a prime number of times, and it is counted.

Where the kernel decides how often something happens, what must hold of the figures is checked.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.native.errors import Refused
from stoker.probes.catalogue import HOST_PROBES, ProbeState
from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.host_records import (
    BLOCKED,
    DETAIL_UNKNOWN,
    FAULTED_ALL,
    ON_CPU,
    HostTimes,
    StateDurations,
)
from stoker.probes.host.pressure import (
    ASK_CALLS,
    ASK_FAULTS,
    BLOCK,
    COOLING,
    FREQUENCY,
    GPU_RUN,
    IOCTL,
    TEMPERATURE,
    TRIP,
    WRITE,
    JobPressure,
    Spread,
    Tally,
    job_pressure,
    node_signals,
    psi_missing,
)
from tests.probes.groups import Groups, Job, eventually

Attach = Callable[..., HostProbes]
PAGE = 4096
needs_bpf = pytest.mark.needs_bpf


def pid_of(job: Job) -> int:
    """The workload itself, once it stands at its stop."""
    procs = job.path / "cgroup.procs"
    eventually(lambda: _stopped(procs))
    return int(procs.read_text().split()[0])


def _stopped(procs: Path) -> bool:
    pids = procs.read_text().split()
    if len(pids) != 1:
        return False
    return Path(f"/proc/{pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def between_stops(
    probes: HostProbes, job: Job, verb: str, count: int
) -> tuple[JobPressure, JobPressure]:
    """Run a verb that stops itself before and after what is counted; the figures at both stops."""
    running = job.start(verb, count)
    pid = pid_of(job)
    eventually(lambda: off_cpu(probes, job))
    before, switches = probes.pressure(job.id), switches_of(probes, job)
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: _stopped(job.path / "cgroup.procs") and switches_of(probes, job) > switches)
    eventually(lambda: off_cpu(probes, job))
    after = probes.pressure(job.id)
    os.kill(pid, signal.SIGCONT)
    assert running.wait(30) == 0
    return before, after


def off_cpu(probes: HostProbes, job: Job) -> bool:
    """True if the job's one thread has left the CPU; it counts as stopped a moment before."""
    return [thread.state for thread in probes.read(job.id).threads] == [BLOCKED]


def switches_of(probes: HostProbes, job: Job) -> int:
    totals = probes.read(job.id).totals
    return 0 if totals is None else totals.switches


def holds(spread: Spread | None) -> Spread:
    """Checks the properties of every spread that times its events."""
    assert spread is not None
    assert sum(spread.length_log2) == spread.count
    low = sum(count << bucket for bucket, count in enumerate(spread.length_log2) if bucket)
    assert low <= spread.total_ns
    assert spread.longest_ns <= spread.total_ns <= spread.count * spread.longest_ns
    return spread


@needs_bpf
@pytest.mark.parametrize(("verb", "field"), [("touch", "user_faults"), ("zero", "kernel_faults")])
def test_every_page_fault_is_counted(groups: Groups, attach: Attach, verb: str, field: str) -> None:
    probes, job = attach(), groups.job()
    assert getattr(probes.pressure(job.id), field) is None
    probes.opt_in(job.id, faults=True)
    before, after = between_stops(probes, job, verb, 1009)
    assert getattr(after, field) - getattr(before, field) == 1009
    assert field not in after.absent
    ended = probes.pressure(job.id)  # the thread is gone, its faults are not
    assert getattr(ended, field) >= getattr(after, field)


@needs_bpf
@pytest.mark.parametrize("verb", ["touch", "zero"])
def test_what_page_faults_take_is_a_part_of_the_time_on_cpu(
    groups: Groups, attach: Attach, verb: str
) -> None:
    probes, job = attach(), groups.job()
    probes.follow(job.id, full=True)
    assert "handling_ns" in probes.pressure(job.id).absent
    probes.opt_in(job.id, faults=True)
    before, after = between_stops(probes, job, verb, 1009)
    handled = (after.handling_ns or 0) - (before.handling_ns or 0)
    assert handled >= 1009 * 100  # of any processor
    totals = probes.read(job.id).totals
    assert totals is not None
    assert handled <= totals.handling_ns < totals.on_cpu_ns
    told = 0
    for begin, end, _, state, detail in struct.iter_unpack("<QQIHH", probes.spans()[job.id]):
        assert state != ON_CPU or detail <= FAULTED_ALL or detail == DETAIL_UNKNOWN
        if state == ON_CPU and detail <= FAULTED_ALL:
            told += (end - begin) * detail // FAULTED_ALL
    # The hypervisor's part of a span is no time on a CPU, wherever it fell.
    assert 0.95 * totals.handling_ns - totals.stolen_ns <= told <= totals.handling_ns


@needs_bpf
@pytest.mark.parametrize("verb", ["touch", "zero"])
def test_faults_are_known_without_a_look_at_each(groups: Groups, attach: Attach, verb: str) -> None:
    probes, job = attach(), groups.job()
    before, after = between_stops(probes, job, verb, 1009)
    assert before.minor_faults is not None
    assert after.minor_faults is not None
    assert after.minor_faults - before.minor_faults == 1009
    assert after.major_faults == before.major_faults
    assert "would pay" in after.absent["user_faults"]
    ended = probes.pressure(job.id)
    assert (ended.minor_faults or 0) >= after.minor_faults


@needs_bpf
def test_faults_of_others_are_not_the_jobs(groups: Groups, attach: Attach) -> None:
    probes, job, other = attach(), groups.job(), groups.beside()
    assert job.run("nap", 1) == 0
    before = probes.pressure(job.id)
    assert other.run("fill", 8) == 0
    assert probes.pressure(job.id).minor_faults == before.minor_faults
    assert probes.pressure(other.id).minor_faults is None
    assert "since attaching" in probes.pressure(other.id).absent["minor_faults"]


@needs_bpf
def test_every_write_to_a_disk_is_counted(groups: Groups, attach: Attach, data: Path) -> None:
    probes, job = attach(), groups.job()
    merged = writes_merged(data)
    before, after = between_stops(probes, job, "write", 307)
    assert before.block is not None
    assert after.block is not None
    first, both = before.block[WRITE], holds(after.block[WRITE])
    counted, lost = both.count - first.count, probes.dropped()["host.request"]
    merged = writes_merged(data) - merged
    what = f"{counted} counted, {lost} lost, {merged} merged by the disk, {probes.made()} made"
    assert 307 - merged <= counted + lost <= 307, what
    assert both.amount - first.amount == counted * PAGE
    assert both.total_ns > first.total_ns


def writes_merged(path: Path) -> int:
    """Writes that the queue of the path's disk made parts of others: these are no requests."""
    device = path.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(disk.read_text().split()[5])  # Documentation/block/stat.rst


@needs_bpf
def test_paging_in_is_waiting_inside_faults(groups: Groups, attach: Attach, data: Path) -> None:
    probes, job = attach(), groups.job()
    assert job.run("page-in", 211) == 0
    figures, times = probes.pressure(job.id), probes.read(job.id).totals
    assert times is not None
    assert figures.fault_ns is not None
    assert figures.block is not None
    assert 0 < figures.fault_ns <= times.io_ns
    assert 211 <= (figures.major_faults or 0) <= 211 + 64
    reads = holds(figures.block[0])
    assert 0 < reads.count <= 211 + 64  # its program and libraries may come from disk as well
    if psi_missing():
        assert figures.memory_ns is None
    else:
        assert (figures.memory_ns or 0) <= times.io_ns + times.blocked_ns


@needs_bpf
def test_every_call_into_a_device_is_counted(groups: Groups, attach: Attach) -> None:
    probes, job, silent = attach(), groups.job("1.1"), groups.job("2.1")
    assert probes.pressure(job.id).device_calls is None
    assert "while a job asks" in probes.pressure(job.id).absent["device_calls"]
    probes.opt_in(job.id, calls=True)
    assert state_of(probes, "host.device.ioctl") == "attached"
    assert job.run("call", 1013) == 0
    assert silent.run("call", 11) == 0
    calls = probes.pressure(job.id).device_calls
    assert calls is not None
    counts = {(each.major, each.minor): holds(each.calls).count for each in calls}
    assert (counts[1, 3], counts[1, 7]) == (1013, 1)
    assert set(counts) <= {(1, 3), (1, 7)}
    assert len({each.pid for each in calls}) == 1
    assert probes.pressure(silent.id).device_calls is None
    assert probes.pressure(silent.id).absent["device_calls"] == "this job did not ask for it"
    probes.opt_in(job.id)
    assert state_of(probes, "host.device.ioctl") == "off"
    kept = probes.pressure(job.id).device_calls
    assert kept == calls  # what was seen is kept until the job is unfollowed
    probes.unfollow(job.id)
    assert probes.pressure(job.id).device_calls is None


def state_of(probes: HostProbes, id: str) -> str:
    return next(state.state for state in probes.states if state.id == id)


@needs_bpf
def test_asking_twice_and_unfollowing_detaches(groups: Groups, attach: Attach) -> None:
    probes, one, two = attach(), groups.job("1.1"), groups.job("2.1")
    probes.opt_in(one.id, calls=True, stacks=True)
    probes.opt_in(one.id, calls=True)
    probes.opt_in(two.id, calls=True)
    assert state_of(probes, "host.sched.stack") == "off"
    probes.unfollow(one.id)
    assert state_of(probes, "host.device.ioctl") == "attached"
    probes.unfollow(two.id)
    assert state_of(probes, "host.device.ioctl") == "off"
    probes.opt_in(two.id)  # nobody asks: nothing to end
    assert state_of(probes, "host.device.ioctl") == "off"


@needs_bpf
def test_more_jobs_than_can_ask_are_refused(groups: Groups, attach: Attach) -> None:
    probes = attach()
    for job in range(1, 1025):
        probes.opt_in(job, calls=True)
    with pytest.raises(Refused):
        probes.opt_in(2000, calls=True)


@needs_bpf
def test_a_full_table_of_tallies_counts_what_it_lost(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(tallies=1)), groups.job()
    probes.opt_in(job.id, calls=True)
    assert job.run("call", 53) == 0
    calls = probes.pressure(job.id).device_calls
    assert calls is not None
    assert len(calls) <= 1
    made, dropped = probes.made()["host.tally"], probes.dropped()["host.tally"]
    assert dropped >= 1
    assert made - dropped == 1


IN_VAIN = """
set -e
ip link set lo up
sysctl -qw net.ipv4.tcp_syn_linear_timeouts=2 || true
ip link add one type veth peer name two
ip addr add 10.99.0.1/24 dev one && ip link set one up && ip link set two up
ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev one nud permanent
until ip -o link show one | grep -q "state UP"; do sleep 0.02; done
exec "$@"
"""


@needs_bpf
def test_every_segment_sent_again_is_counted(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    prefix = ("unshare", "-n", "sh", "-c", IN_VAIN, "sh")
    truth = job.start("connect", 1, prefix).wait(30)
    again = probes.pressure(job.id).retransmits
    assert again is not None
    assert (again.count, again.total_ns) == (truth, 0)
    assert 1 <= truth <= 5  # by the count of its own network; 0 is no connection


@needs_bpf
def test_softirqs_take_a_part_of_the_time_on_cpu(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    prefix = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    assert job.start("send", 20011, prefix).wait(30) == 0
    figures, times = probes.pressure(job.id), probes.read(job.id).totals
    assert times is not None
    assert figures.softirq_ns is not None
    assert figures.irq_ns is not None
    assert figures.softirq_ns > 20011 * 100  # receiving one datagram takes longer than that
    assert figures.softirq_ns + figures.irq_ns <= times.on_cpu_ns


@needs_bpf
def test_reclaim_for_a_limit_is_timed(groups: Groups, attach: Attach, data: Path) -> None:
    probes, job = attach(), groups.job()
    prefix = groups.limit_memory(job, 16 << 20)
    assert job.start("fill", 64, prefix).wait(30) == 128 + signal.SIGKILL
    figures, times = probes.pressure(job.id), probes.read(job.id).totals
    assert times is not None
    reclaim = holds(figures.group_reclaim)
    assert reclaim.count > 0
    assert reclaim.total_ns <= times.total_ns


@needs_bpf
def test_the_open_interval_of_a_wait_is_in_its_figures(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    job.start("nap", 60_000)
    eventually(lambda: len(probes.read(job.id).threads) == 1)
    figures = probes.pressure(job.id)
    assert figures.fault_ns is not None
    time.sleep(0.05)
    later = probes.pressure(job.id)
    assert later.fault_ns == figures.fault_ns  # a nap is no fault
    assert later.t_ns > figures.t_ns


@needs_bpf
def test_many_jobs_are_read_in_one_pass(groups: Groups, attach: Attach) -> None:
    probes, jobs = attach(), [groups.job(f"{i}.1") for i in range(3)]
    for job in jobs:
        assert job.run("nap", 1) == 0
    alone = {job.id: probes.pressure(job.id) for job in jobs}
    together = probes.pressures()
    assert set(together) == set(alone)
    for id, figures in together.items():
        assert figures.minor_faults == alone[id].minor_faults


@pytest.fixture
def everything_attached() -> list[ProbeState]:
    return [ProbeState(probe.id, "attached", "") for probe in HOST_PROBES]


NO_TIME = (0,) * 32


def times_of(**figures: int) -> HostTimes:
    return HostTimes(7, 1, 2, StateDurations(0, 0, 0, 0, 0, 0, 0, NO_TIME, **figures))


def test_what_is_attached_and_did_not_happen_is_zero(
    everything_attached: list[ProbeState],
) -> None:
    figures = job_pressure(
        7, times_of(irq_ns=5), [], everything_attached, asked=ASK_CALLS | ASK_FAULTS
    )
    assert (figures.irq_ns, figures.user_faults, figures.absent) == (5, 0, {})
    assert (figures.retransmits, figures.block, figures.device_calls) == (Spread(), {}, ())


def test_what_is_not_attached_is_none_and_says_why(everything_attached: list[ProbeState]) -> None:
    gone = {
        "host.gpu.run": "gpu_run",
        "host.block.request": "block",
        "host.memory.user_fault": "user_faults",
        "host.device.ioctl": "device_calls",
    }
    states = [
        ProbeState(each.id, "refused", f"no {each.id}") if each.id in gone else each
        for each in everything_attached
    ]
    figures = job_pressure(7, times_of(), [], states, asked=ASK_CALLS | ASK_FAULTS)
    assert figures.absent == {field: f"no {id}" for id, field in gone.items()}
    assert all(getattr(figures, field) is None for field in gone.values())
    assert figures.gpu_queued == Spread()


def test_a_job_never_seen_has_no_figures_of_threads(everything_attached: list[ProbeState]) -> None:
    unseen = HostTimes(7, 1, 2, None, absent="no thread was seen")
    figures = job_pressure(7, unseen, [], everything_attached)
    assert figures.irq_ns is None
    assert figures.absent["irq_ns"] == "no thread was seen"


def test_without_psi_waiting_for_memory_is_not_known(
    everything_attached: list[ProbeState], tmp_path: Path
) -> None:
    why = psi_missing(tmp_path / "memory")
    assert "PSI" in why
    (tmp_path / "memory").write_text("some avg10=0.00\n")
    assert psi_missing(tmp_path / "memory") == ""
    figures = job_pressure(7, times_of(memory_ns=5), [], everything_attached, no_psi=why)
    assert (figures.memory_ns, figures.absent["memory_ns"]) == (None, why)
    assert job_pressure(7, times_of(memory_ns=5), [], everything_attached).memory_ns == 5


def test_tallies_of_other_jobs_and_kinds_stay_apart(everything_attached: list[ProbeState]) -> None:
    tallies = [
        Tally(7, BLOCK, 0, WRITE, 3, 30, 20, 99, 0, NO_TIME),
        Tally(8, BLOCK, 0, WRITE, 5, 50, 20, 99, 0, NO_TIME),
        Tally(7, IOCTL, 41, 195 << 20 | 255, 2, 9, 5, 0, 0, NO_TIME),
        Tally(7, GPU_RUN, 0, 0, 1, 4, 4, 0, 0, NO_TIME),
    ]
    figures = job_pressure(7, times_of(), tallies, everything_attached)
    assert figures.block == {WRITE: Spread(3, 30, 20, 99, NO_TIME)}
    assert figures.device_calls is not None
    (calls,) = figures.device_calls
    assert (calls.pid, calls.major, calls.minor, calls.calls.count) == (41, 195, 255, 2)
    assert (figures.gpu_run, figures.gpu_queued) == (Spread(1, 4, 4, 0, NO_TIME), Spread())


def test_signals_of_the_node(everything_attached: list[ProbeState]) -> None:
    tallies = [
        Tally(0, FREQUENCY, 0, 3, 12, 0, 0, 0, 2_400_000, NO_TIME),
        Tally(0, TEMPERATURE, 0, 1, 4, 0, 0, 0, 2**64 - 5000, NO_TIME),
        Tally(0, TRIP, 0, 1, 2, 0, 0, 0, 3, NO_TIME),
        Tally(0, COOLING, 0, 6, 1, 0, 0, 0, 9, NO_TIME),
    ]
    signals = node_signals(tallies, everything_attached)
    assert signals.cpu_khz == {3: (12, 2_400_000)}
    assert signals.temperature_mc == {1: (4, -5000)}  # below freezing
    assert signals.trips == {1: (2, "critical")}
    assert signals.cooling == {6: (1, 9)}
    nothing = [ProbeState(state.id, "unknown", "closed") for state in everything_attached]
    assert node_signals(tallies, nothing).absent.keys() == {
        "cpu_khz",
        "temperature_mc",
        "trips",
        "cooling",
    }
