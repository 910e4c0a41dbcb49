# SPDX-License-Identifier: Apache-2.0
"""Notices: kills, deadly signals and device files of known programs, each seen exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import stoker.native
from stoker.probes.host.host_probes import HostLimits, HostProbes
from stoker.probes.host.notices import Notice, notice_of
from tests.probes.groups import Groups, eventually

needs_bpf = pytest.mark.needs_bpf

Attach = Callable[..., HostProbes]
LOOP_CONTROL = (10, 237)
ORDER = ["oom_kill", "signal", "killed_exit"]
PAGE = os.sysconf("SC_PAGE_SIZE")


def kinds(notices: list[Notice]) -> Counter[str]:
    return Counter(notice.kind for notice in notices)


@needs_bpf
def test_every_deadly_signal_is_told_with_its_sender(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1):
        assert job.run("die", number) == 128 + number
        sent, ended = probes.critical()
        assert (sent.kind, ended.kind) == ("signal", "killed_exit")
        assert (sent.signal, ended.signal) == (number, number)
        assert sent.pid == sent.from_pid == ended.pid
        assert (sent.comm, sent.from_comm, sent.by_kernel) == ("workload", "workload", False)
        assert (sent.job, ended.job) == (job.id, job.id)
        assert sent.t_ns < ended.t_ns


@needs_bpf
def test_a_kill_from_outside_names_who_sent_it(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    running = job.start("nap", 60_000)
    eventually(lambda: len(probes.read(job.id).threads) == 1)
    os.kill(int((job.path / "cgroup.procs").read_text()), signal.SIGKILL)
    assert running.wait(60) == 128 + signal.SIGKILL
    sent, ended = probes.critical()
    assert (sent.signal, sent.from_pid, ended.kind) == (signal.SIGKILL, os.getpid(), "killed_exit")


@needs_bpf
def test_what_ends_nobody_is_not_told(groups: Groups, attach: Attach) -> None:
    probes, job, other = attach(), groups.job(), groups.beside()
    assert job.run("children", 7) == 0  # SIGCHLD, seven times
    assert job.run("leave", 3) == 3
    assert other.run("die", signal.SIGTERM) == 128 + signal.SIGTERM
    assert probes.critical() == []
    assert probes.made()["host.signal"] == 0


@needs_bpf
def test_an_out_of_memory_kill_is_told(groups: Groups, attach: Attach) -> None:
    probes, job = attach(), groups.job()
    prefix = groups.limit_memory(job, 16 << 20)
    assert job.start("fill", 64, prefix).wait(30) == 128 + signal.SIGKILL
    notices = probes.critical()
    assert kinds(notices) == {"oom_kill": 1, "signal": 1, "killed_exit": 1}
    killed, sent, ended = sorted(notices, key=lambda each: ORDER.index(each.kind))
    assert killed.pid == sent.pid == ended.pid == killed.from_pid
    assert (sent.signal, sent.by_kernel, killed.job) == (signal.SIGKILL, True, job.id)


@needs_bpf
def test_every_open_of_a_device_is_told(groups: Groups, attach: Attach) -> None:
    if not Path("/dev/loop-control").exists():
        pytest.skip("this kernel has no loop devices, which the workload opens")
    probes, job, other = attach(), groups.job(), groups.beside()
    assert job.run("open", 53) == 0
    assert other.run("open", 5) == 0
    opens = probes.device_opens()
    assert len(opens) == 53
    assert {(each.device, each.access, each.job) for each in opens} == {
        (LOOP_CONTROL, "rw", job.id)
    }
    assert len({each.pid for each in opens}) == 1
    assert probes.critical() == []


@needs_bpf
def test_a_refused_open_is_critical(groups: Groups, attach: Attach) -> None:
    native = Path(stoker.native.__path__[0])
    gate, program = native / "bin/stoker-gate", native / "lib/device_gate.bpf.o"
    if not gate.exists():
        pytest.skip("built without the device gate: clang or libbpf was missing")
    subprocess.run([gate, groups.jobs, program], check=True, capture_output=True)
    probes, job = attach(), groups.job()
    assert job.run("open", 53) == 13  # none of the 53 was granted
    refused = probes.critical()
    assert kinds(refused) == {"refused_open": 53}
    assert {(each.device, each.access, each.job) for each in refused} == {
        (LOOP_CONTROL, "rw", job.id)
    }
    assert probes.device_opens() == []


@needs_bpf
def test_a_full_ring_counts_what_it_lost(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(notice_ring_bytes=PAGE)), groups.job()
    assert job.run("open", 53) == 0
    assert job.run("die", signal.SIGTERM) == 128 + signal.SIGTERM
    opens, made, dropped = probes.device_opens(), probes.made(), probes.dropped()
    assert made["host.device_open"] == 53
    assert 0 < len(opens) < 53
    assert len(opens) + dropped["host.device_open"] == 53
    assert kinds(probes.critical()) == {"signal": 1, "killed_exit": 1}  # a ring of their own
    assert dropped["host.signal"] == dropped["host.killed_exit"] == 0


@needs_bpf
def test_a_full_critical_ring_counts_by_producer(groups: Groups, attach: Attach) -> None:
    probes, job = attach(HostLimits(notice_ring_bytes=PAGE)), groups.job()
    for _ in range(17):
        assert job.run("die", signal.SIGTERM) == 128 + signal.SIGTERM
    seen, made, dropped = kinds(probes.critical()), probes.made(), probes.dropped()
    for kind, name in (("signal", "host.signal"), ("killed_exit", "host.killed_exit")):
        assert made[name] == 17
        assert 0 < dropped[name] < 17
        assert seen[kind] + dropped[name] == 17


def test_records_become_notices() -> None:
    xid = notice_of((5, 9, 0, 0, 0, 79, 0, 0, 0, 0, "0000:3b:00.0", "GPU has fallen off the bus"))
    assert (xid.kind, xid.xid, xid.pci, xid.job) == ("xid", 79, "0000:3b:00.0", 0)
    assert xid.text == "GPU has fallen off the bus"
    assert (xid.signal, xid.device, xid.from_pid) == (None, None, None)
    opened = notice_of((0, 9, 7, 4, 5, 2, 0, 0, 195, 255, "python", ""))
    assert (opened.device, opened.access, opened.xid) == ((195, 255), "r", None)
    made = notice_of((1, 9, 7, 4, 5, 1, 0, 0, 1, 1, "mknod", ""))
    assert (made.kind, made.access) == ("refused_open", "m")
    ended = notice_of((4, 9, 7, 4, 5, 11, 0, 2, 0, 0, "python", ""))
    assert (ended.kind, ended.signal, ended.core_dumped) == ("killed_exit", 11, True)
